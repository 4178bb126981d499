/* What went wrong in other decoders, each as its smallest input. */

#include "fst.h"

#define INF INFINITY
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const int no_words[] = {0};
static const int word_1[] = {1, 0};

/* Nothing pushed: the results are empty, and the channel works afterwards. */
static void case_b01_no_frames(void)
{
    static const float row[] = {-1};
    koshi_channel *channel = channel_over(graph_a());
    koshi_lattice *lattice;
    koshi_lattice_summary info;
    koshi_error *err = NULL;
    CHECK_OK(koshi_channel_finish(channel, &err), err);
    CHECK(koshi_channel_num_frames(channel) == 0);
    CHECK(has_words(best_of(channel), no_words));
    lattice = lattice_of(channel);
    CHECK_OK(koshi_lattice_info(lattice, &info, sizeof info, &err), err);
    CHECK(info.num_frames == 0 && info.num_arcs == 0 && info.reached_final == 0 && info.is_compact == 0);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK);
    CHECK_OK(koshi_channel_begin(channel, &err), err);
    push(channel, row, 1, 1);
    CHECK(has_words(best_of(channel), word_1));
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
}

/* An utterance without rows in a batch is done like the others. */
static void case_b02_no_rows_in_a_batch(void)
{
    static const float rows[] = {-1, -2, -3};
    static const float finals[] = {0};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0.5f, 0}};
    koshi_decoder *decoder = decoder_over(fst_graph(1, finals, arcs, 1));
    koshi_channel *both[2], *solo = open_channel(decoder);
    koshi_decoder_item items[2];
    koshi_error *err = NULL;
    int at;
    memset(items, 0, sizeof items);
    for (at = 0; at < 2; ++at) {
        both[at] = open_channel(decoder);
        items[at].channel = both[at];
        items[at].dim = items[at].stride = 1;
        items[at].status = 77;
    }
    items[1].rows = rows;
    items[1].frames = 3;
    CHECK_OK(koshi_decoder_advance(decoder, items, 2, sizeof items[0], &err), err);
    CHECK(items[0].status == KOSHI_OK && items[1].status == KOSHI_OK);
    push(solo, rows, 3, 1);
    CHECK(koshi_channel_num_frames(both[0]) == 0 && koshi_channel_num_frames(both[1]) == 3);
    CHECK(same_bytes(result_of(both[1]), result_of(solo)));
    CHECK(has_words(best_of(both[0]), no_words));
    for (at = 0; at < 2; ++at)
        CHECK(koshi_channel_free(both[at]) == KOSHI_OK);
    CHECK(koshi_channel_free(solo) == KOSHI_OK && koshi_decoder_free(decoder) == KOSHI_OK);
}

/* The first arc is on the path. */
static void case_b03_first_arc(void)
{
    static const float row[] = {-2};
    koshi_channel *channel = channel_over(graph_a());
    koshi_path *path;
    koshi_lattice *lattice;
    const koshi_lattice_arc *arcs;
    const koshi_lattice_cost *finals;
    const uint32_t *offsets, *times;
    size_t len;
    push(channel, row, 1, 1);
    path = best_of(channel);
    CHECK(koshi_path_ilabels(path, &len)[0] == 1 && len == 1);
    CHECK(koshi_path_olabels(path, &len)[0] == 1 && len == 1);
    CHECK(koshi_path_frames(path, &len)[0] == 0 && len == 1);
    CHECK(koshi_path_graph_cost(path) == 0.5 && koshi_path_acoustic_cost(path) == 2.0);
    CHECK(koshi_path_free(path) == KOSHI_OK);
    lattice = lattice_of(channel);
    arcs = koshi_lattice_arcs(lattice, &len);
    CHECK(len == 1 && arcs[0].next == 1 && arcs[0].ilabel == 1 && arcs[0].olabel == 1);
    CHECK(arcs[0].graph_cost == 0.5f && arcs[0].acoustic_cost == 2.0f);
    offsets = koshi_lattice_arc_offsets(lattice, &len);
    CHECK(len == 3 && offsets[0] == 0 && offsets[1] == 1 && offsets[2] == 1);
    finals = koshi_lattice_final_costs(lattice, &len);
    CHECK(len == 2 && finals[0].graph_cost == INF && finals[1].graph_cost == 0 && finals[1].acoustic_cost == 0);
    times = koshi_lattice_times(lattice, &len);
    CHECK(len == 2 && times[0] == 0 && times[1] == 1);
    CHECK(koshi_lattice_string(lattice, 0, &len)[0] == 1 && len == 1);
    CHECK(koshi_lattice_string(lattice, 1, &len) == NULL && len == 0);
    CHECK(koshi_lattice_final_string(lattice, 1, &len) != NULL && len == 0);
    CHECK(koshi_lattice_final_string(lattice, 2, &len) == NULL && len == 0);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_channel_free(channel) == KOSHI_OK);
}

/* A start that is final and no frame: a lattice of one state. */
static void case_b07_one_state(void)
{
    static const float finals[] = {0.25f};
    koshi_channel *channel = channel_over(fst_graph(1, finals, NULL, 0));
    koshi_lattice *lattice = lattice_of(channel);
    koshi_lattice_summary info;
    koshi_path *path = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_lattice_info(lattice, &info, sizeof info, &err), err);
    CHECK(info.num_states == 1 && info.num_arcs == 0 && info.reached_final == 1 && info.best_graph_cost == 0.25);
    CHECK_OK(koshi_lattice_best_path(lattice, 1, &path, &err), err);
    CHECK(koshi_path_graph_cost(path) == 0.25);
    CHECK(has_words(path, no_words));
    CHECK(koshi_channel_reached_final(channel) == 1 && koshi_channel_final_relative_cost(channel) == 0.25f);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_channel_free(channel) == KOSHI_OK);
}

static koshi_lattice *lattice_from(const char *text)
{
    koshi_lattice *lattice = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_lattice_from_memory((const unsigned char *)text, strlen(text), &lattice, &err), err);
    return lattice;
}

/* Best paths of lattices without a state, without a way to a final state, and of a sound one. */
static void case_b08_no_path(void)
{
    static const char *const texts[] = {"\n\n", "\n0 1 1 7 0.5,2\n\n", "\n0 1 1 7 0.5,2\n1 0.25,0\n\n"};
    static const int word_7[] = {7, 0};
    size_t at;
    for (at = 0; at < 3; ++at) {
        koshi_lattice *lattice = lattice_from(texts[at]);
        koshi_lattice_summary info;
        koshi_path *path = NULL;
        koshi_error *err = NULL;
        CHECK_OK(koshi_lattice_info(lattice, &info, sizeof info, &err), err);
        CHECK(at == 2 ? info.best_graph_cost == 0.75 : info.best_graph_cost == INF && info.num_states == 0);
        CHECK_OK(koshi_lattice_best_path(lattice, 0.5f, &path, &err), err);
        CHECK(has_words(path, at == 2 ? word_7 : no_words));
        CHECK(koshi_lattice_free(lattice) == KOSHI_OK);
    }
}

/* Two utterances as one batch are those of two batches. */
static void case_b09_batches(void)
{
    koshi_decoder *decoder = decoder_over(random_graph(60, 20, 5));
    koshi_channel *pair[2], *solo[2];
    koshi_decoder_item items[2];
    koshi_error *err = NULL;
    float *rows[2];
    int at;
    memset(items, 0, sizeof items);
    for (at = 0; at < 2; ++at) {
        rows[at] = random_rows(20 * 30, 7u + (unsigned)at);
        pair[at] = open_channel(decoder);
        solo[at] = open_channel(decoder);
        items[at].channel = pair[at];
        items[at].rows = rows[at];
        items[at].frames = 30;
        items[at].dim = items[at].stride = 20;
        push(solo[at], rows[at], 30, 20);
    }
    CHECK_OK(koshi_decoder_advance(decoder, items, 2, sizeof items[0], &err), err);
    for (at = 0; at < 2; ++at) {
        CHECK(same_bytes(result_of(pair[at]), result_of(solo[at])));
        CHECK(koshi_channel_free(pair[at]) == KOSHI_OK && koshi_channel_free(solo[at]) == KOSHI_OK);
        free(rows[at]);
    }
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
}

/* The only final state falls out of the beam of the last frame: all last tokens count then. */
static void case_b10_final_out_of_beam(void)
{
    static const float finals[] = {INF, INF, INF, 0};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0, 1}, {1, 1, 2, 0, 2}, {1, 1, 3, 100, 3}};
    static const float rows[] = {-1, -1};
    static const int words[] = {1, 2, 0};
    koshi_graph *graph = fst_graph(4, finals, arcs, COUNT(arcs));
    koshi_decoder_config config;
    koshi_decoder *decoder = NULL;
    koshi_channel *channel;
    koshi_error *err = NULL;
    CHECK_OK(koshi_decoder_config_init(&config, sizeof config, &err), err);
    config.min_active = 0; /* else few tokens are all kept */
    CHECK_OK(koshi_decoder_new(graph, &config, &decoder, &err), err);
    channel = open_channel(decoder);
    push(channel, rows, 2, 1);
    CHECK(koshi_channel_reached_final(channel) == 0);
    CHECK(has_words(best_of(channel), words));
    CHECK(koshi_channel_free(channel) == KOSHI_OK && koshi_decoder_free(decoder) == KOSHI_OK);
    CHECK(koshi_graph_free(graph) == KOSHI_OK);
}

/* An epsilon arc to a lower state number: the lattice is sorted all the same. */
static void case_b11_sorted(void)
{
    static const float finals[] = {INF, INF, INF, 0};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0, 2}, {2, 0, 2, 0, 1}, {1, 1, 3, 0, 3}, {2, 1, 4, 9, 3}};
    static const float rows[] = {-1, -1};
    koshi_channel *channel = channel_over(fst_graph(4, finals, arcs, COUNT(arcs)));
    koshi_lattice *lattice;
    const koshi_lattice_arc *found;
    const uint32_t *offsets;
    size_t state, states, arc, count;
    push(channel, rows, 2, 1);
    lattice = lattice_of(channel);
    found = koshi_lattice_arcs(lattice, &count);
    offsets = koshi_lattice_arc_offsets(lattice, &states);
    CHECK(count == 4 && states == 5);
    for (state = 0; state + 1 < states; ++state)
        for (arc = offsets[state]; arc < offsets[state + 1]; ++arc)
            CHECK(found[arc].next > state);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_channel_free(channel) == KOSHI_OK);
}

/* No final state is reached: all last tokens count, and that is told. */
static void case_b13_not_final(void)
{
    static const float finals[] = {INF, INF, 0};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0, 1}, {1, 1, 2, 0, 2}};
    static const float row[] = {-1};
    koshi_channel *channel = channel_over(fst_graph(3, finals, arcs, COUNT(arcs)));
    koshi_lattice *lattice;
    koshi_lattice_summary info;
    koshi_error *err = NULL;
    push(channel, row, 1, 1);
    CHECK(koshi_channel_reached_final(channel) == 0);
    CHECK(koshi_channel_final_relative_cost(channel) == INF);
    CHECK(has_words(best_of(channel), word_1));
    lattice = lattice_of(channel);
    CHECK_OK(koshi_lattice_info(lattice, &info, sizeof info, &err), err);
    CHECK(info.reached_final == 0 && info.num_arcs == 1 && info.num_frames == 1);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_channel_free(channel) == KOSHI_OK);
}

/* If any final state is active only final ones end a path. */
static void case_b14_finals_only(void)
{
    static const float finals[] = {INF, 1, INF};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0.5f, 1}, {0, 1, 2, 0, 2}};
    static const float row[] = {-1};
    static const int word_2[] = {2, 0};
    koshi_channel *channel = channel_over(fst_graph(3, finals, arcs, COUNT(arcs)));
    koshi_lattice *lattice = NULL;
    koshi_path *path = NULL;
    koshi_error *err = NULL;
    size_t len;
    push(channel, row, 1, 1);
    CHECK(koshi_channel_reached_final(channel) == 1);
    CHECK(koshi_channel_final_relative_cost(channel) == 1.5f);
    CHECK(has_words(best_of(channel), word_1));
    lattice = lattice_of(channel);
    CHECK(koshi_lattice_arcs(lattice, &len)[0].olabel == 1 && len == 1);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK);
    CHECK_OK(koshi_channel_best_path(channel, 0, &path, &err), err);
    CHECK(has_words(path, word_2));
    CHECK_OK(koshi_channel_lattice(channel, 0, &lattice, &err), err);
    CHECK(koshi_lattice_arcs(lattice, &len) != NULL && len == 2);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_channel_free(channel) == KOSHI_OK);
}

/* Epsilon arcs that leave the start state keep their labels, in every channel. */
static void case_b18_epsilon_from_start(void)
{
    static const float finals[] = {INF, INF, 0, INF};
    static const struct fst_arc arcs[] = {{0, 0, 0, 0, 1}, {1, 1, 1, 0, 2}, {0, 0, 2, 0, 3}, {3, 2, 0, 0, 2}};
    static const float row[] = {-1, -1};
    koshi_decoder *decoder = decoder_over(fst_graph(4, finals, arcs, COUNT(arcs)));
    int channel_number;
    for (channel_number = 0; channel_number < 2; ++channel_number) {
        koshi_channel *channel = open_channel(decoder);
        koshi_lattice *lattice;
        const koshi_lattice_arc *found;
        size_t len, arc;
        int seen = 0;
        push(channel, row, 1, 2);
        lattice = lattice_of(channel);
        found = koshi_lattice_arcs(lattice, &len);
        CHECK(len == 4);
        for (arc = 0; arc < len; ++arc) {
            if (found[arc].ilabel == 0 && found[arc].olabel == 0)
                seen |= 1;
            else if (found[arc].ilabel == 1 && found[arc].olabel == 1)
                seen |= 2;
            else if (found[arc].ilabel == 0 && found[arc].olabel == 2)
                seen |= 4;
            else if (found[arc].ilabel == 2 && found[arc].olabel == 0)
                seen |= 8;
        }
        CHECK(seen == 15);
        CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_channel_free(channel) == KOSHI_OK);
    }
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
}

/* The string of a compact lattice keeps its order. */
static void case_b20_strings(void)
{
    koshi_lattice *lattice = lattice_from("\n0 1 5 0.5,2,1_2\n1 2 6 0,0,3\n2 0,0,4\n\n");
    koshi_lattice_summary info;
    koshi_path *path = NULL;
    koshi_error *err = NULL;
    const int32_t *string;
    size_t len;
    CHECK_OK(koshi_lattice_info(lattice, &info, sizeof info, &err), err);
    CHECK(info.is_compact == 1 && info.num_frames == 4);
    string = koshi_lattice_string(lattice, 0, &len);
    CHECK(len == 2 && string[0] == 1 && string[1] == 2);
    CHECK(koshi_lattice_final_string(lattice, 2, &len)[0] == 4 && len == 1);
    CHECK_OK(koshi_lattice_best_path(lattice, 1, &path, &err), err);
    string = koshi_path_ilabels(path, &len);
    CHECK(len == 4 && string[0] == 1 && string[1] == 2 && string[2] == 3 && string[3] == 4);
    CHECK(koshi_path_free(path) == KOSHI_OK && koshi_lattice_free(lattice) == KOSHI_OK);
}

/* A lattice in another order than ours is sorted when it is read. */
static void case_b22_unsorted(void)
{
    koshi_lattice *lattice = lattice_from("\n2 1 1 8 0,1\n1 0 2 9 0,1\n0 0.5,0\n\n");
    const koshi_lattice_arc *arcs;
    koshi_path *path = NULL;
    koshi_error *err = NULL;
    static const int words[] = {8, 9, 0};
    size_t len;
    arcs = koshi_lattice_arcs(lattice, &len);
    CHECK(len == 2 && arcs[0].next == 1 && arcs[1].next == 2);
    CHECK_OK(koshi_lattice_best_path(lattice, 1, &path, &err), err);
    CHECK(has_words(path, words));
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK);
}

/* -inf: that arc does not exist in that frame. */
static void case_b23_minus_infinity(void)
{
    static const float finals[] = {INF, 0};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0, 1}, {0, 2, 2, 0, 1}};
    static const float row[] = {-INF, -1};
    koshi_channel *channel = channel_over(fst_graph(2, finals, arcs, COUNT(arcs)));
    koshi_lattice *lattice;
    size_t len;
    push(channel, row, 1, 2);
    lattice = lattice_of(channel);
    CHECK(koshi_lattice_arcs(lattice, &len)[0].ilabel == 2 && len == 1);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_channel_free(channel) == KOSHI_OK);
}

/* Cut into pushes the result is the same; NaN and +inf are named by frame and column. */
static void case_b24_chunks_and_nan(void)
{
    static const float finals[] = {0};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0.5f, 0}, {0, 2, 2, 0.25f, 0}};
    static const float rows[] = {-1, -2, -3, -1};
    static const float bad[][4] = {{-1, -2, -3, NAN}, {-1, -2, INF, NAN}, {NAN, -2, 1, 1}};
    static const char *const places[] = {"frame 1, column 1", "frame 1, column 0", "frame 0, column 0"};
    koshi_decoder *decoder = decoder_over(fst_graph(1, finals, arcs, COUNT(arcs)));
    koshi_channel *whole = open_channel(decoder), *cut = open_channel(decoder);
    koshi_error *err = NULL;
    int at;
    push(whole, rows, 2, 2);
    push(cut, rows, 1, 2);
    push(cut, rows + 2, 1, 2);
    CHECK(same_bytes(result_of(whole), result_of(cut)));
    for (at = 0; at < 3; ++at) {
        CHECK_OK(koshi_channel_begin(cut, &err), err);
        CHECK(koshi_channel_push(cut, bad[at], 2, 2, 2, &err) == KOSHI_E_SCORES);
        CHECK(strstr(koshi_error_message(err), places[at]) != NULL);
        CHECK(koshi_error_free(err) == KOSHI_OK);
        err = NULL;
        CHECK(koshi_channel_num_frames(cut) == (at < 2 ? 1 : 0));
        CHECK_STATUS(KOSHI_E_SCORES, koshi_channel_push(cut, rows, 1, 2, 2, &err), err);
        CHECK_OK(koshi_channel_finish(cut, &err), err);
        CHECK(koshi_path_free(best_of(cut)) == KOSHI_OK);
    }
    CHECK(koshi_channel_free(whole) == KOSHI_OK && koshi_channel_free(cut) == KOSHI_OK);
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
}

/* No token survives a frame: told with the frame, and what came before can be fetched. */
static void case_b25_no_tokens(void)
{
    static const float finals[] = {0};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0.5f, 0}};
    static const float rows[] = {-1, -INF, -1};
    koshi_channel *channel = channel_over(fst_graph(1, finals, arcs, 1));
    koshi_error *err = NULL;
    CHECK(koshi_channel_push(channel, rows, 3, 1, 1, &err) == KOSHI_E_NO_TOKENS);
    CHECK(strstr(koshi_error_message(err), "frame 1") != NULL);
    CHECK(koshi_error_free(err) == KOSHI_OK);
    err = NULL;
    CHECK(koshi_channel_num_frames(channel) == 1);
    CHECK(has_words(best_of(channel), word_1));
    CHECK_OK(koshi_channel_finish(channel, &err), err);
    CHECK(has_words(best_of(channel), word_1));
    CHECK_OK(koshi_channel_begin(channel, &err), err);
    push(channel, rows, 1, 1);
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
}

/* A graph without epsilon arcs, and a channel begun anew after all its tokens were gone. */
static void case_b26_begin_after_nothing(void)
{
    static const float gone[] = {-INF}, row[] = {-1};
    koshi_channel *channel = channel_over(graph_a());
    koshi_error *err = NULL;
    CHECK_STATUS(KOSHI_E_NO_TOKENS, koshi_channel_push(channel, gone, 1, 1, 1, &err), err);
    CHECK_OK(koshi_channel_begin(channel, &err), err);
    push(channel, row, 1, 1);
    CHECK(koshi_channel_num_frames(channel) == 1);
    CHECK(has_words(best_of(channel), word_1));
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
}

/* What lies between rows is never read. */
static void case_b28_padding(void)
{
    static const float finals[] = {0};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0.5f, 0}, {0, 3, 3, 0, 0}};
    static const float dense[] = {-1, -2, -3, -3, -2, -1};
    static const float padded[] = {-1, -2, -3, 1e30f, NAN, -3, -2, -1};
    koshi_decoder *decoder = decoder_over(fst_graph(1, finals, arcs, COUNT(arcs)));
    koshi_channel *left = open_channel(decoder), *right = open_channel(decoder);
    koshi_error *err = NULL;
    push(left, dense, 2, 3);
    CHECK_OK(koshi_channel_push(right, padded, 2, 3, 5, &err), err);
    CHECK(same_bytes(result_of(left), result_of(right)));
    CHECK_STATUS(KOSHI_E_SHAPE, koshi_channel_push(right, padded, 2, 3, 2, &err), err);
    CHECK(koshi_channel_free(left) == KOSHI_OK && koshi_channel_free(right) == KOSHI_OK);
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
}

/* Of two paths of equal cost the same one wins each time, in each channel. */
static void case_b30_ties(void)
{
    static const float finals[] = {INF, INF, INF, 0};
    static const struct fst_arc arcs[] = {{0, 1, 5, 1, 2}, {0, 1, 6, 1, 1}, {1, 1, 0, 1, 3}, {2, 1, 0, 1, 3}};
    static const float rows[] = {-1, -1};
    koshi_decoder *decoder = decoder_over(fst_graph(4, finals, arcs, COUNT(arcs)));
    koshi_channel *channels[4];
    int at, first = 0;
    for (at = 0; at < 4; ++at)
        channels[at] = open_channel(decoder);
    for (at = 0; at < 100; ++at) {
        koshi_channel *channel = channels[at % 4];
        koshi_error *err = NULL;
        koshi_path *path;
        int word;
        CHECK_OK(koshi_channel_begin(channel, &err), err);
        push(channel, rows, 2, 1);
        path = best_of(channel);
        word = koshi_path_olabels(path, NULL)[0];
        CHECK(word == 5 || word == 6);
        CHECK(first == 0 || word == first);
        first = word;
        CHECK(koshi_path_free(path) == KOSHI_OK);
    }
    for (at = 0; at < 4; ++at)
        CHECK(koshi_channel_free(channels[at]) == KOSHI_OK);
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
}

/* Rows that are too narrow for the graph: told with arc, label and width, and nothing is lost. */
static void case_b31_narrow_rows(void)
{
    static const float finals[] = {INF, 0};
    static const struct fst_arc arcs[] = {{0, 5, 1, 0, 1}};
    static const float row[] = {-1, -1, -1, -1, -1};
    koshi_channel *channel = channel_over(fst_graph(2, finals, arcs, 1));
    koshi_error *err = NULL;
    CHECK(koshi_channel_push(channel, row, 1, 3, 3, &err) == KOSHI_E_SHAPE);
    CHECK(strstr(koshi_error_message(err), "arc 0") != NULL && strstr(koshi_error_message(err), "ilabel 5") != NULL);
    CHECK(strstr(koshi_error_message(err), "3 columns") != NULL);
    CHECK(koshi_error_free(err) == KOSHI_OK);
    push(channel, row, 1, 5);
    CHECK(has_words(best_of(channel), word_1));
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
}

static void refused(struct bytes file, koshi_status wanted, const char *word)
{
    koshi_graph *graph = (koshi_graph *)garbage(64);
    koshi_error *err = NULL;
    koshi_status status = koshi_graph_from_memory(file.data, file.size, NULL, &graph, &err);
    if (status != wanted || strstr(koshi_error_message(err), word) == NULL) {
        fprintf(stderr, "%s, %s where %s with %s was expected\n", koshi_status_name(status),
                err != NULL ? koshi_error_message(err) : "no error", koshi_status_name(wanted), word);
        exit(1);
    }
    CHECK(graph == (koshi_graph *)garbage(64));
    CHECK(koshi_error_free(err) == KOSHI_OK);
    free(file.data);
}

/* No start state. */
static void case_b32_no_start(void)
{
    static const float finals[] = {0, 0};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0, 1}};
    refused(fst_bytes(-1, 0, NULL, NULL, 0), KOSHI_E_GRAPH, "no start state");
    refused(fst_bytes(-1, 2, finals, arcs, 1), KOSHI_E_GRAPH, "no start state");
    refused(fst_bytes(2, 2, finals, arcs, 1), KOSHI_E_GRAPH, "start");
}

/* Epsilon cycles, of whatever cost. */
static void case_b33_epsilon_cycles(void)
{
    static const float finals[] = {0, 0, 0};
    static const struct fst_arc loop[] = {{0, 0, 0, 0, 0}};
    static const struct fst_arc pair[] = {{0, 0, 0, 0, 1}, {1, 0, 0, 0, 0}};
    static const struct fst_arc negative[] = {{0, 1, 1, 0, 1}, {1, 0, 0, -1, 2}, {2, 0, 0, 0.5f, 1}};
    refused(fst_bytes(0, 1, finals, loop, COUNT(loop)), KOSHI_E_GRAPH, "epsilon");
    refused(fst_bytes(0, 2, finals, pair, COUNT(pair)), KOSHI_E_GRAPH, "epsilon");
    refused(fst_bytes(0, 3, finals, negative, COUNT(negative)), KOSHI_E_GRAPH, "epsilon");
}

/* Text without weights: they are 0. */
static void case_b35_text_without_weights(void)
{
    koshi_lattice *lattice = lattice_from("\n0 1 1 1\n1\n\n");
    const koshi_lattice_arc *arcs;
    size_t len;
    arcs = koshi_lattice_arcs(lattice, &len);
    CHECK(len == 1 && arcs[0].graph_cost == 0 && arcs[0].acoustic_cost == 0);
    CHECK(koshi_lattice_final_costs(lattice, &len)[1].graph_cost == 0 && len == 2);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK);
}

/* Counts that lie are not believed, and cost no memory. */
static void case_b38_lying_counts(void)
{
    static const float finals[] = {0};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0, 0}};
    static const int64_t many[] = {(int64_t)1 << 31, (int64_t)1 << 62, INT64_MAX, -5};
    size_t at;
    for (at = 0; at < 4; ++at) {
        struct bytes file = fst_bytes(0, 1, finals, arcs, 1);
        memcpy(file.data + file.size - 24, &many[at], sizeof many[at]); /* the arcs of state 0 */
        refused(file, KOSHI_E_FORMAT, "byte");
    }
}

/* A file cut anywhere. */
static void case_b39_cut_anywhere(void)
{
    static const float finals[] = {0, INF};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0, 1}, {1, 1, 1, 0, 0}};
    struct bytes whole = fst_bytes(0, 2, finals, arcs, COUNT(arcs));
    size_t size;
    for (size = 0; size < whole.size; ++size) {
        koshi_graph *graph = NULL;
        koshi_error *err = NULL;
        CHECK_STATUS(KOSHI_E_FORMAT, koshi_graph_from_memory(whole.data, size, NULL, &graph, &err), err);
        CHECK(graph == NULL);
    }
    free(whole.data);
}

/* A channel is used again and again; nothing old is seen. */
static void case_b48_again(void)
{
    static const float finals[] = {0};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0, 0}, {0, 2, 2, 0, 0}, {0, 3, 3, 0, 0}};
    koshi_channel *channel = channel_over(fst_graph(1, finals, arcs, COUNT(arcs)));
    koshi_error *err = NULL;
    int round;
    for (round = 1; round <= 3; ++round) {
        float row[3] = {-9, -9, -9};
        int words[2] = {0, 0};
        row[round - 1] = -1;
        words[0] = round;
        push(channel, row, 1, 3);
        CHECK_OK(koshi_channel_finish(channel, &err), err);
        CHECK(koshi_channel_num_frames(channel) == 1);
        CHECK(has_words(best_of(channel), words));
        CHECK_STATUS(KOSHI_E_STATE, koshi_channel_push(channel, row, 1, 3, 3, &err), err);
        CHECK_OK(koshi_channel_begin(channel, &err), err);
        CHECK(koshi_channel_num_frames(channel) == 0);
        CHECK(has_words(best_of(channel), no_words));
    }
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
}

/* Make, use, free, three times. */
static void case_b51_make_and_free(void)
{
    static const float row[] = {-1};
    int round;
    for (round = 0; round < 3; ++round) {
        koshi_decoder *decoder = decoder_over(graph_a());
        koshi_channel *channel = open_channel(decoder);
        push(channel, row, 1, 1);
        CHECK(has_words(best_of(channel), word_1));
        CHECK(koshi_channel_free(channel) == KOSHI_OK && koshi_decoder_free(decoder) == KOSHI_OK);
    }
}

/* The caller's rows are not needed after the call. */
static void case_b54_rows_are_copied(void)
{
    koshi_decoder *decoder = decoder_over(random_graph(40, 10, 3));
    koshi_channel *left = open_channel(decoder), *right = open_channel(decoder);
    float *rows = random_rows(10 * 20, 9), *shared = (float *)malloc(10 * sizeof(float));
    int frame;
    CHECK(shared != NULL);
    push(left, rows, 20, 10);
    for (frame = 0; frame < 20; ++frame) {
        memcpy(shared, rows + 10 * frame, 10 * sizeof(float));
        push(right, shared, 1, 10);
        memset(shared, 0xff, 10 * sizeof(float));
    }
    free(shared);
    CHECK(same_bytes(result_of(left), result_of(right)));
    free(rows);
    CHECK(koshi_channel_free(left) == KOSHI_OK && koshi_channel_free(right) == KOSHI_OK);
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
}

int main(void)
{
    case_b01_no_frames();
    case_b02_no_rows_in_a_batch();
    case_b03_first_arc();
    case_b07_one_state();
    case_b08_no_path();
    case_b09_batches();
    case_b10_final_out_of_beam();
    case_b11_sorted();
    case_b13_not_final();
    case_b14_finals_only();
    case_b18_epsilon_from_start();
    case_b20_strings();
    case_b22_unsorted();
    case_b23_minus_infinity();
    case_b24_chunks_and_nan();
    case_b25_no_tokens();
    case_b26_begin_after_nothing();
    case_b28_padding();
    case_b30_ties();
    case_b31_narrow_rows();
    case_b32_no_start();
    case_b33_epsilon_cycles();
    case_b35_text_without_weights();
    case_b38_lying_counts();
    case_b39_cut_anywhere();
    case_b48_again();
    case_b51_make_and_free();
    case_b54_rows_are_copied();
    return 0;
}
