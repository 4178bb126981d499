/* Phrases in a channel: a prompt of examples/data/prompts that is misheard without one. Runs in the root of the
 * repository. */

#include <math.h>

#include "speech.h"

static koshi_transitions *transitions;
static koshi_symbols *symbols;
static koshi_graph *graph;
static koshi_matrix *matrix;

static void load(void)
{
    koshi_matrix_reader *reader = NULL;
    const char *key = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_transitions_read(DATA "trans.mdl", &transitions, &err), err);
    CHECK_OK(koshi_symbols_read(DATA "words.txt", &symbols, &err), err);
    CHECK_OK(koshi_graph_read(DATA "HCLG.fst", transitions, &graph, &err), err);
    CHECK_OK(koshi_matrix_reader_open("ark:" DATA "loglikes.ark", &reader, &err), err);
    do {
        CHECK(koshi_matrix_free(matrix) == KOSHI_OK);
        CHECK_OK(koshi_matrix_reader_next(reader, &key, &matrix, &err), err);
        CHECK(key != NULL);
    } while (strcmp(key, "allison-confbridge-conf-end") != 0);
    CHECK(koshi_matrix_reader_free(reader) == KOSHI_OK);
}

static koshi_decoder *decoder_of(void)
{
    koshi_decoder_config config = speech_config();
    koshi_decoder *decoder = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_decoder_new(graph, &config, &decoder, &err), err);
    return decoder;
}

/* Decodes the prompt, whose best path is `words`; gives the lattice. */
static koshi_lattice *decode(koshi_channel *channel, const char *words, double bias_cost)
{
    size_t frames, dim;
    const float *rows = koshi_matrix_data(matrix, &frames, &dim);
    koshi_path *path = NULL;
    koshi_lattice *lattice = NULL;
    koshi_error *err = NULL;
    char text[256];
    CHECK_OK(koshi_channel_begin(channel, &err), err);
    CHECK_OK(koshi_channel_push(channel, rows, frames, dim, dim, &err), err);
    CHECK_OK(koshi_channel_finish(channel, &err), err);
    CHECK_OK(koshi_channel_best_path(channel, 1, &path, &err), err);
    CHECK_OK(koshi_path_text(path, symbols, text, sizeof text, NULL, &err), err);
    CHECK(strcmp(text, words) == 0);
    CHECK(fabs(koshi_path_bias_cost(path) - bias_cost) < 1e-5);
    CHECK(koshi_path_free(path) == KOSHI_OK);
    CHECK_OK(koshi_channel_lattice(channel, 1, &lattice, &err), err);
    return lattice;
}

/* The words of a lattice's best path. */
static void check_best(const koshi_lattice *lattice, const char *words)
{
    koshi_path *path = NULL;
    koshi_error *err = NULL;
    char text[256];
    CHECK_OK(koshi_lattice_best_path(lattice, ACOUSTIC_SCALE, &path, &err), err);
    CHECK_OK(koshi_path_text(path, symbols, text, sizeof text, NULL, &err), err);
    CHECK(strcmp(text, words) == 0);
    CHECK(koshi_path_free(path) == KOSHI_OK);
}

static void check_same(koshi_lattice *one, koshi_lattice *other)
{
    koshi_buffer *a = NULL, *b = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_lattice_to_memory(one, KOSHI_LATTICE_BINARY, &a, &err), err);
    CHECK_OK(koshi_lattice_to_memory(other, KOSHI_LATTICE_BINARY, &b, &err), err);
    CHECK(koshi_buffer_size(a) == koshi_buffer_size(b));
    CHECK(memcmp(koshi_buffer_data(a), koshi_buffer_data(b), (size_t)koshi_buffer_size(a)) == 0);
    CHECK(koshi_buffer_free(a) == KOSHI_OK && koshi_buffer_free(b) == KOSHI_OK);
}

static void misheard(koshi_channel *channel)
{
    static const char wrong[] = "the conference as and it", right[] = "the conference has ended";
    int32_t labels[2];
    koshi_phrase phrase = {labels, 2, 14.0f, 0};
    koshi_lattice *before, *biased, *after, *other = NULL;
    koshi_lattice_summary info;
    koshi_determinize_config config;
    koshi_error *err = NULL;
    const koshi_lattice_arc *arcs;
    const float *costs;
    size_t num_arcs, num_costs, num_states, at;
    double held = 0;

    labels[0] = koshi_symbols_find(symbols, "has");
    labels[1] = koshi_symbols_find(symbols, "ended");
    before = decode(channel, wrong, 0);
    CHECK(koshi_lattice_bias_costs(before, &num_costs) != NULL || num_costs == 0);
    CHECK(num_costs == 0);

    CHECK_OK(koshi_channel_set_bias(channel, &phrase, 1, &err), err);
    labels[0] = labels[1] = 1; /* they were copied */
    biased = decode(channel, right, -14);
    labels[0] = koshi_symbols_find(symbols, "has");
    labels[1] = koshi_symbols_find(symbols, "ended");
    arcs = koshi_lattice_arcs(biased, &num_arcs);
    costs = koshi_lattice_bias_costs(biased, &num_costs);
    CHECK(num_arcs > 0 && num_costs == num_arcs);
    for (at = 0; at < num_arcs; ++at) {
        CHECK(costs[at] == 0 || arcs[at].olabel != 0);
        CHECK(arcs[at].olabel != labels[0] || costs[at] == -7);
        CHECK(arcs[at].olabel != labels[1] || costs[at] == -7 || costs[at] == 0);
    }
    costs = koshi_lattice_final_bias_costs(biased, &num_costs);
    CHECK(koshi_lattice_final_costs(biased, &num_states) != NULL && num_costs == num_states);
    for (at = 0; at < num_costs; ++at)
        held += costs[at];
    CHECK(held >= 0);
    CHECK_OK(koshi_lattice_info(biased, &info, sizeof info, &err), err);
    CHECK(fabs(info.best_bias_cost + 14) < 1e-5 && info.struct_size == sizeof info);
    memset(&info, 0, sizeof info);
    CHECK_OK(koshi_lattice_info(biased, &info, 48, &err), err);
    CHECK(info.struct_size == 48 && info.best_bias_cost == 0); /* a caller from before that field */

    /* What is chosen from the lattice, and made of it, goes by the biased costs. */
    check_best(biased, right);
    CHECK_OK(koshi_determinize_config_init(&config, sizeof config, &err), err);
    config.acoustic_scale = ACOUSTIC_SCALE;
    CHECK_OK(koshi_lattice_determinize(biased, transitions, &config, &other, NULL, &err), err);
    check_best(other, right);
    CHECK(koshi_lattice_bias_costs(other, &num_costs) != NULL || num_costs == 0);
    CHECK(num_costs == 0 && koshi_lattice_free(other) == KOSHI_OK);
    CHECK_OK(koshi_lattice_apply_bias(biased, 1, &other, &err), err);
    check_best(other, right);
    CHECK(koshi_lattice_free(other) == KOSHI_OK);
    CHECK_OK(koshi_lattice_apply_bias(biased, 0, &other, &err), err);
    check_same(biased, other); /* written lattices have the graph costs alone */
    CHECK_OK(koshi_lattice_info(other, &info, sizeof info, &err), err);
    CHECK(info.best_bias_cost == 0);
    CHECK(koshi_lattice_free(other) == KOSHI_OK);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_apply_bias(biased, NAN, &other, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_lattice_apply_bias((koshi_lattice *)channel, 1, &other, &err), err);

    CHECK_OK(koshi_channel_set_bias(channel, NULL, 0, &err), err);
    after = decode(channel, wrong, 0);
    check_same(before, after);
    CHECK(koshi_lattice_free(before) == KOSHI_OK && koshi_lattice_free(biased) == KOSHI_OK);
    CHECK(koshi_lattice_free(after) == KOSHI_OK);
}

static void refused(koshi_channel *channel)
{
    static const int32_t labels[] = {1, 2}, zero[] = {1, 0};
    koshi_phrase phrase = {labels, 2, 1.0f, 0};
    koshi_error *err = NULL;
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_channel_set_bias(NULL, &phrase, 1, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_set_bias(channel, NULL, 1, &err), err);
    phrase.len = 0;
    CHECK_STATUS(KOSHI_E_CONFIG, koshi_channel_set_bias(channel, &phrase, 1, &err), err);
    phrase.len = 2;
    phrase.labels = NULL;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_set_bias(channel, &phrase, 1, &err), err);
    phrase.labels = zero;
    CHECK_STATUS(KOSHI_E_CONFIG, koshi_channel_set_bias(channel, &phrase, 1, &err), err);
    phrase.labels = labels;
    phrase.bonus = INFINITY;
    CHECK_STATUS(KOSHI_E_CONFIG, koshi_channel_set_bias(channel, &phrase, 1, &err), err);
    phrase.bonus = -1;
    CHECK_OK(koshi_channel_set_bias(channel, &phrase, 1, &err), err);
    phrase.reserved = 7;
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, koshi_channel_set_bias(channel, &phrase, 1, &err), err);
    CHECK(isnan(koshi_path_bias_cost(NULL)) && koshi_lattice_bias_costs(NULL, NULL) == NULL);
    CHECK(koshi_lattice_final_bias_costs(NULL, NULL) == NULL);
}

int main(void)
{
    koshi_decoder *decoder;
    koshi_channel *channel = NULL;
    koshi_error *err = NULL;
    load();
    decoder = decoder_of();
    CHECK_OK(koshi_channel_new(decoder, &channel, &err), err);
    misheard(channel);
    refused(channel);
    CHECK(koshi_channel_free(channel) == KOSHI_OK && koshi_decoder_free(decoder) == KOSHI_OK);
    CHECK(koshi_matrix_free(matrix) == KOSHI_OK && koshi_graph_free(graph) == KOSHI_OK);
    CHECK(koshi_symbols_free(symbols) == KOSHI_OK && koshi_transitions_free(transitions) == KOSHI_OK);
    return 0;
}
