/* Handles: freed in any order, freed twice, of the wrong type, counted; states of a channel. */

#include "fst.h"

enum { GRAPH, DECODER, CHANNEL, PATH, LATTICE, BUFFER, DECODABLE, KINDS };

static const float row[] = {-1};

/* One live handle of each type. */
static void make(void *handles[KINDS])
{
    koshi_graph *graph = graph_a();
    koshi_decoder *decoder = NULL;
    koshi_channel *channel;
    koshi_buffer *buffer = NULL;
    koshi_decodable *decodable = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_decoder_new(graph, NULL, &decoder, &err), err);
    channel = open_channel(decoder);
    push(channel, row, 1, 1);
    handles[GRAPH] = graph;
    handles[DECODER] = decoder;
    handles[CHANNEL] = channel;
    handles[PATH] = best_of(channel);
    handles[LATTICE] = lattice_of(channel);
    CHECK_OK(koshi_lattice_to_memory((koshi_lattice *)handles[LATTICE], KOSHI_LATTICE_TEXT, &buffer, &err), err);
    handles[BUFFER] = buffer;
    CHECK_OK(koshi_decodable_from_matrix(row, 1, 1, 1, &decodable, &err), err);
    handles[DECODABLE] = decodable;
}

static koshi_status free_as(int kind, void *handle)
{
    switch (kind) {
    case GRAPH: return koshi_graph_free((koshi_graph *)handle);
    case DECODER: return koshi_decoder_free((koshi_decoder *)handle);
    case CHANNEL: return koshi_channel_free((koshi_channel *)handle);
    case PATH: return koshi_path_free((koshi_path *)handle);
    case LATTICE: return koshi_lattice_free((koshi_lattice *)handle);
    case BUFFER: return koshi_buffer_free((koshi_buffer *)handle);
    default: return koshi_decodable_free((koshi_decodable *)handle);
    }
}

/* What is still alive works, whatever else was freed. */
static void use(int kind, void *handle)
{
    koshi_error *err = NULL;
    koshi_graph_summary info;
    koshi_channel *channel = NULL;
    size_t len;
    switch (kind) {
    case GRAPH:
        CHECK_OK(koshi_graph_info((koshi_graph *)handle, &info, sizeof info, &err), err);
        CHECK(info.num_states == 2);
        break;
    case DECODER:
        CHECK_OK(koshi_channel_new((koshi_decoder *)handle, &channel, &err), err);
        CHECK(koshi_channel_free(channel) == KOSHI_OK);
        break;
    case CHANNEL:
        CHECK_OK(koshi_channel_begin((koshi_channel *)handle, &err), err);
        push((koshi_channel *)handle, row, 1, 1);
        CHECK(koshi_path_free(best_of((koshi_channel *)handle)) == KOSHI_OK);
        break;
    case PATH:
        CHECK(koshi_path_olabels((koshi_path *)handle, &len)[0] == 1 && len == 1);
        break;
    case LATTICE:
        CHECK(koshi_lattice_arcs((koshi_lattice *)handle, &len)[0].olabel == 1 && len == 1);
        break;
    case BUFFER:
        CHECK(koshi_buffer_size((koshi_buffer *)handle) > 0);
        CHECK(koshi_buffer_data((koshi_buffer *)handle)[0] == '\n');
        break;
    default:
        channel = channel_over(graph_a());
        CHECK_OK(koshi_channel_advance(channel, (koshi_decodable *)handle, -1, NULL, &err), err);
        CHECK(koshi_channel_num_frames(channel) == 1);
        CHECK(koshi_channel_free(channel) == KOSHI_OK);
    }
}

static void any_order(void)
{
    unsigned seed = 1;
    int round, at, left;
    for (round = 0; round < 200; ++round) {
        void *handles[KINDS];
        int order[KINDS];
        make(handles);
        for (at = 0; at < KINDS; ++at)
            order[at] = at;
        for (at = KINDS - 1; at > 0; --at) {
            int other = (int)(next_random(&seed) % (unsigned)(at + 1)), kept = order[at];
            order[at] = order[other];
            order[other] = kept;
        }
        for (at = 0; at < KINDS; ++at) {
            CHECK(free_as(order[at], handles[order[at]]) == KOSHI_OK);
            for (left = 0; left < KINDS; ++left)
                CHECK(left > at || free_as(order[left], handles[order[left]]) == KOSHI_E_HANDLE);
            for (left = at + 1; left < KINDS; ++left)
                use(order[left], handles[order[left]]);
        }
    }
}

/* Each function that frees refuses handles of each other type, and they live on. */
static void wrong_types(void)
{
    void *handles[KINDS];
    int kind, other;
    koshi_error *err = NULL;
    koshi_decoder *decoder = NULL;
    koshi_graph_summary info;
    make(handles);
    for (kind = 0; kind < KINDS; ++kind)
        for (other = 0; other < KINDS; ++other)
            CHECK(kind == other || free_as(kind, handles[other]) == KOSHI_E_HANDLE);
    CHECK(koshi_graph_info((koshi_graph *)handles[PATH], &info, sizeof info, &err) == KOSHI_E_HANDLE);
    CHECK(strstr(koshi_error_message(err), "koshi_path") != NULL);
    CHECK(strstr(koshi_error_message(err), "koshi_graph") != NULL);
    CHECK(koshi_error_free((koshi_error *)handles[PATH]) == KOSHI_E_HANDLE);
    CHECK(koshi_graph_free((koshi_graph *)err) == KOSHI_E_HANDLE);
    CHECK(koshi_error_free(err) == KOSHI_OK);
    err = NULL;
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_decoder_new((koshi_graph *)handles[CHANNEL], NULL, &decoder, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_channel_begin((koshi_channel *)handles[DECODER], &err), err);
    CHECK(koshi_channel_num_frames((koshi_channel *)handles[GRAPH]) == -1);
    CHECK(koshi_path_olabels((koshi_path *)handles[LATTICE], NULL) == NULL);
    CHECK(isnan(koshi_path_graph_cost((koshi_path *)handles[LATTICE])));
    CHECK(koshi_buffer_size((koshi_buffer *)handles[LATTICE]) == -1);
    for (kind = 0; kind < KINDS; ++kind) {
        use(kind, handles[kind]);
        CHECK(free_as(kind, handles[kind]) == KOSHI_OK);
        CHECK(free_as(kind, NULL) == KOSHI_OK);
        CHECK(free_as(kind, garbage(0x123456)) == KOSHI_E_HANDLE);
    }
}

static void counts(void)
{
    void *handles[KINDS];
    int kind;
    make(handles);
    CHECK(koshi_graph_ref((koshi_graph *)handles[GRAPH]) == handles[GRAPH]);
    CHECK(koshi_path_ref((koshi_path *)handles[PATH]) == handles[PATH]);
    CHECK(koshi_lattice_ref((koshi_lattice *)handles[LATTICE]) == handles[LATTICE]);
    CHECK(koshi_buffer_ref((koshi_buffer *)handles[BUFFER]) == handles[BUFFER]);
    CHECK(koshi_graph_ref((koshi_graph *)handles[PATH]) == NULL && koshi_graph_ref(NULL) == NULL);
    for (kind = 0; kind < KINDS; ++kind) {
        int counted = kind == GRAPH || kind == PATH || kind == LATTICE || kind == BUFFER;
        CHECK(free_as(kind, handles[kind]) == KOSHI_OK);
        if (counted)
            use(kind, handles[kind]);
        CHECK(free_as(kind, handles[kind]) == (counted ? KOSHI_OK : KOSHI_E_HANDLE));
        CHECK(free_as(kind, handles[kind]) == KOSHI_E_HANDLE);
    }
}

static void states_of_a_channel(void)
{
    koshi_decoder *decoder = decoder_over(graph_a());
    koshi_channel *channel = NULL;
    koshi_path *path = (koshi_path *)garbage(8);
    koshi_lattice *lattice = (koshi_lattice *)garbage(8);
    koshi_search_stats stats;
    koshi_error *err = NULL;
    size_t words = 77;
    CHECK_OK(koshi_channel_new(decoder, &channel, &err), err);
    CHECK_STATUS(KOSHI_E_STATE, koshi_channel_push(channel, row, 1, 1, 1, &err), err);
    CHECK_STATUS(KOSHI_E_STATE, koshi_channel_finish(channel, &err), err);
    CHECK_STATUS(KOSHI_E_STATE, koshi_channel_best_path(channel, 1, &path, &err), err);
    CHECK_STATUS(KOSHI_E_STATE, koshi_channel_partial(channel, &path, &words, &err), err);
    CHECK_STATUS(KOSHI_E_STATE, koshi_channel_lattice(channel, 1, &lattice, &err), err);
    CHECK_STATUS(KOSHI_E_STATE, koshi_channel_stats(channel, &stats, sizeof stats, &err), err);
    CHECK(koshi_channel_num_frames(channel) == 0 && koshi_channel_reached_final(channel) == -1);
    CHECK(isnan(koshi_channel_final_relative_cost(channel)));
    CHECK(path == (koshi_path *)garbage(8) && lattice == (koshi_lattice *)garbage(8) && words == 77);

    CHECK_OK(koshi_channel_begin(channel, &err), err);
    push(channel, row, 1, 1);
    CHECK_OK(koshi_channel_partial(channel, &path, &words, &err), err);
    CHECK(koshi_path_free(path) == KOSHI_OK && words <= 1);
    CHECK_OK(koshi_channel_stats(channel, &stats, sizeof stats, &err), err);
    CHECK(stats.struct_size == sizeof stats && stats.frames == 1 && stats.arcs >= 1 && stats.tokens >= 1);
    CHECK_OK(koshi_channel_finish(channel, &err), err);
    CHECK_STATUS(KOSHI_E_STATE, koshi_channel_push(channel, row, 1, 1, 1, &err), err);

    CHECK_OK(koshi_channel_begin(channel, &err), err);
    push(channel, row, 0, 1);
    CHECK_OK(koshi_channel_push(channel, NULL, 0, 1, 1, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_push(channel, NULL, 1, 1, 1, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_push(channel, (const float *)garbage((uintptr_t)row + 1), 1, 1, 1, &err),
                 err);
    CHECK_STATUS(KOSHI_E_SHAPE, koshi_channel_push(channel, row, (size_t)-1, 1, (size_t)-1, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_push(channel, row, (size_t)-1 / 2, 1, 1, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_best_path(channel, 1, NULL, &err), err);
    push(channel, row, 1, 1);

    CHECK_OK(koshi_channel_begin(channel, &err), err);
    CHECK_OK(koshi_channel_cancel(channel, &err), err);
    CHECK_STATUS(KOSHI_E_CANCELLED, koshi_channel_push(channel, row, 1, 1, 1, &err), err);
    CHECK_OK(koshi_channel_finish(channel, &err), err);
    CHECK_OK(koshi_channel_begin(channel, &err), err);
    push(channel, row, 1, 1);
    CHECK(koshi_channel_free(channel) == KOSHI_OK && koshi_decoder_free(decoder) == KOSHI_OK);
}

/* Items of a batch that are wrong do not touch the others. */
static void batches(void)
{
    koshi_decoder *decoder = decoder_over(graph_a()), *other = decoder_over(graph_a());
    koshi_channel *good = open_channel(decoder), *foreign = open_channel(other), *fresh = NULL, *gone;
    koshi_decoder_item items[8];
    koshi_error *err = NULL;
    int at;
    CHECK_OK(koshi_channel_new(decoder, &fresh, &err), err);
    gone = open_channel(decoder);
    CHECK(koshi_channel_free(gone) == KOSHI_OK);
    memset(items, 0, sizeof items);
    for (at = 0; at < 8; ++at) {
        items[at].rows = row;
        items[at].frames = items[at].dim = items[at].stride = 1;
        items[at].status = 77;
    }
    items[0].channel = NULL;
    items[1].channel = gone;
    items[2].channel = good;
    items[3].channel = good;
    items[4].channel = foreign;
    items[5].channel = fresh;
    items[6].channel = (koshi_channel *)decoder;
    items[7].channel = good;
    items[7].stride = 0;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decoder_advance(decoder, items, 8, sizeof items[0] - 8, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decoder_advance(decoder, NULL, 8, sizeof items[0], &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decoder_advance(decoder, items, (size_t)-1, sizeof items[0], &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_decoder_advance(NULL, items, 8, sizeof items[0], &err), err);
    items[5].reserved = 1;
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, koshi_decoder_advance(decoder, items, 8, sizeof items[0], &err), err);
    items[5].reserved = 0;
    for (at = 0; at < 8; ++at)
        CHECK(items[at].status == 77);
    CHECK_OK(koshi_decoder_advance(decoder, NULL, 0, sizeof items[0], &err), err);
    CHECK_STATUS(KOSHI_OK_PARTIAL, koshi_decoder_advance(decoder, items, 8, sizeof items[0], &err), err);
    CHECK(items[0].status == KOSHI_E_HANDLE && items[1].status == KOSHI_E_HANDLE);
    CHECK(items[2].status == KOSHI_OK && items[3].status == KOSHI_E_BUSY);
    CHECK(items[4].status == KOSHI_E_ARGUMENT && items[5].status == KOSHI_E_STATE);
    CHECK(items[6].status == KOSHI_E_HANDLE && items[7].status == KOSHI_E_SHAPE);
    CHECK(koshi_channel_num_frames(good) == 1 && koshi_channel_num_frames(foreign) == 0);
    CHECK(koshi_channel_free(good) == KOSHI_OK && koshi_channel_free(foreign) == KOSHI_OK);
    CHECK(koshi_channel_free(fresh) == KOSHI_OK);
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK && koshi_decoder_free(other) == KOSHI_OK);
}

int main(void)
{
    any_order();
    wrong_types();
    counts();
    states_of_a_channel();
    batches();
    return 0;
}
