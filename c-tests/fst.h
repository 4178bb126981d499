/* Graphs for the C programs: states and arcs into the bytes of an OpenFst "vector" file.
 * All the machines these programs run on are little-endian. */

#ifndef FST_H
#define FST_H

#include <math.h>

#include "check.h"

struct fst_arc {
    int from, ilabel, olabel;
    float weight;
    int to;
};

struct bytes {
    unsigned char *data;
    size_t size, room;
};

static inline void add(struct bytes *bytes, const void *data, size_t size)
{
    if (bytes->size + size > bytes->room) {
        bytes->room = 2 * (bytes->size + size);
        bytes->data = (unsigned char *)realloc(bytes->data, bytes->room);
        CHECK(bytes->data != NULL);
    }
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

static inline void add_int(struct bytes *bytes, int32_t value)
{
    add(bytes, &value, sizeof value);
}

static inline void add_long(struct bytes *bytes, int64_t value)
{
    add(bytes, &value, sizeof value);
}

static inline void add_text(struct bytes *bytes, const char *text)
{
    add_int(bytes, (int32_t)strlen(text));
    add(bytes, text, strlen(text));
}

/* The file of a graph with states 0 to num_states - 1. Arcs of a state keep their order. finals[s] is
 * +inf where s is not final. */
static inline struct bytes fst_bytes(int start, int num_states, const float *finals, const struct fst_arc *arcs,
                                     int num_arcs)
{
    struct bytes file = {NULL, 0, 0};
    int state, arc;
    add_int(&file, 2125659606);
    add_text(&file, "vector");
    add_text(&file, "standard");
    add_int(&file, 2);  /* version */
    add_int(&file, 0);  /* flags */
    add_long(&file, 3); /* properties: expanded, mutable */
    add_long(&file, start);
    add_long(&file, num_states);
    add_long(&file, 0); /* arcs: a vector may leave that open */
    for (state = 0; state < num_states; ++state) {
        int64_t count = 0;
        for (arc = 0; arc < num_arcs; ++arc)
            count += arcs[arc].from == state;
        add(&file, &finals[state], sizeof finals[state]);
        add_long(&file, count);
        for (arc = 0; arc < num_arcs; ++arc) {
            if (arcs[arc].from != state)
                continue;
            add_int(&file, arcs[arc].ilabel);
            add_int(&file, arcs[arc].olabel);
            add(&file, &arcs[arc].weight, sizeof arcs[arc].weight);
            add_int(&file, arcs[arc].to);
        }
    }
    return file;
}

/* The graph as the library reads it. */
static inline koshi_graph *fst_graph(int num_states, const float *finals, const struct fst_arc *arcs, int num_arcs)
{
    struct bytes file = fst_bytes(0, num_states, finals, arcs, num_arcs);
    koshi_graph *graph = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_graph_from_memory(file.data, file.size, NULL, &graph, &err), err);
    free(file.data);
    return graph;
}

/* Graph A of the cases: one arc, label 1 to word 1, to a final state. */
static inline koshi_graph *graph_a(void)
{
    static const float finals[] = {INFINITY, 0};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0.5f, 1}};
    return fst_graph(2, finals, arcs, 1);
}

/* A decoder over `graph`, which it takes, with the default options. */
static inline koshi_decoder *decoder_over(koshi_graph *graph)
{
    koshi_decoder *decoder = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_decoder_new(graph, NULL, &decoder, &err), err);
    CHECK(koshi_graph_free(graph) == KOSHI_OK);
    return decoder;
}

/* An open channel of `decoder`. */
static inline koshi_channel *open_channel(koshi_decoder *decoder)
{
    koshi_channel *channel = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_channel_new(decoder, &channel, &err), err);
    CHECK_OK(koshi_channel_begin(channel, &err), err);
    return channel;
}

/* An open channel of a decoder over `graph`; the channel alone keeps both alive. */
static inline koshi_channel *channel_over(koshi_graph *graph)
{
    koshi_decoder *decoder = decoder_over(graph);
    koshi_channel *channel = open_channel(decoder);
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
    return channel;
}

static inline void push(koshi_channel *channel, const float *rows, size_t frames, size_t dim)
{
    koshi_error *err = NULL;
    CHECK_OK(koshi_channel_push(channel, rows, frames, dim, dim, &err), err);
}

static inline koshi_lattice *lattice_of(koshi_channel *channel)
{
    koshi_lattice *lattice = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_channel_lattice(channel, 1, &lattice, &err), err);
    return lattice;
}

static inline koshi_path *best_of(koshi_channel *channel)
{
    koshi_path *path = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_channel_best_path(channel, 1, &path, &err), err);
    return path;
}

/* Whether the path's words are those of `wanted`, which ends with 0. Frees the path. */
static inline int has_words(koshi_path *path, const int *wanted)
{
    size_t len = 99, at = 0;
    const int32_t *words = koshi_path_olabels(path, &len);
    int good;
    CHECK(words != NULL);
    while (at < len && wanted[at] != 0 && words[at] == wanted[at])
        ++at;
    good = at == len && wanted[at] == 0;
    CHECK(koshi_path_free(path) == KOSHI_OK);
    return good;
}

/* Bytes of the lattice now, with those of its best path behind. */
static inline struct bytes result_of(koshi_channel *channel)
{
    struct bytes result = {NULL, 0, 0};
    koshi_lattice *lattice = lattice_of(channel);
    koshi_path *path = best_of(channel);
    koshi_buffer *buffer = NULL;
    koshi_error *err = NULL;
    size_t len = 0;
    double costs[2];
    CHECK_OK(koshi_lattice_to_memory(lattice, KOSHI_LATTICE_BINARY, &buffer, &err), err);
    add(&result, koshi_buffer_data(buffer), (size_t)koshi_buffer_size(buffer));
    costs[0] = koshi_path_graph_cost(path);
    costs[1] = koshi_path_acoustic_cost(path);
    add(&result, costs, sizeof costs);
    add(&result, koshi_path_olabels(path, &len), 0);
    add(&result, koshi_path_olabels(path, NULL), len * sizeof(int32_t));
    add(&result, koshi_path_ilabels(path, &len), 0);
    add(&result, koshi_path_ilabels(path, NULL), len * sizeof(int32_t));
    CHECK(koshi_buffer_free(buffer) == KOSHI_OK);
    CHECK(koshi_path_free(path) == KOSHI_OK);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK);
    return result;
}

/* Frees both. */
static inline int same_bytes(struct bytes left, struct bytes right)
{
    int same = left.size == right.size && memcmp(left.data, right.data, left.size) == 0;
    free(left.data);
    free(right.data);
    return same;
}

/* A sequence of numbers that is the same everywhere. */
static inline unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* A graph of `num_states` states with words, epsilon arcs to higher states and some finals. */
static inline koshi_graph *random_graph(int num_states, int num_labels, unsigned seed)
{
    int state, arc, num_arcs = 0;
    struct fst_arc *arcs = (struct fst_arc *)malloc(sizeof(struct fst_arc) * 5 * (size_t)num_states);
    float *finals = (float *)malloc(sizeof(float) * (size_t)num_states);
    koshi_graph *graph;
    CHECK(arcs != NULL && finals != NULL);
    for (state = 0; state < num_states; ++state) {
        finals[state] = next_random(&seed) % 4 == 0 ? (float)(next_random(&seed) % 100) / 50.0f : INFINITY;
        for (arc = 0; arc < 5; ++arc) {
            int epsilon = arc == 4 && state + 1 < num_states;
            struct fst_arc *next = &arcs[num_arcs++];
            next->from = state;
            next->ilabel = epsilon ? 0 : 1 + (int)(next_random(&seed) % (unsigned)num_labels);
            next->olabel = next_random(&seed) % 3 == 0 ? 1 + (int)(next_random(&seed) % 1000) : 0;
            next->weight = (float)(next_random(&seed) % 1000) / 300.0f - (epsilon ? 0.5f : 0.0f);
            next->to = epsilon ? state + 1 + (int)(next_random(&seed) % (unsigned)(num_states - state - 1))
                     : arc == 0 ? state
                                : (int)(next_random(&seed) % (unsigned)num_states);
        }
    }
    finals[num_states - 1] = 0;
    graph = fst_graph(num_states, finals, arcs, num_arcs);
    free(arcs);
    free(finals);
    return graph;
}

/* `count` log-likelihoods. */
static inline float *random_rows(size_t count, unsigned seed)
{
    float *rows = (float *)malloc(sizeof(float) * count);
    size_t at;
    CHECK(rows != NULL);
    for (at = 0; at < count; ++at)
        rows[at] = -(float)(next_random(&seed) % 10000) / 1500.0f;
    return rows;
}

#endif
