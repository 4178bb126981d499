/* A real model end to end: what a program does that decodes speech, on the twelve prompts of
 * examples/data/prompts. The words are Kaldi's; the lattices are the same bytes whichever way the frames
 * come in. Runs in the root of the repository. */

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif
#include <unistd.h>

#include "speech.h"
#include "ways.h"

enum { MOST = 20 };

static struct utterance {
    char key[64];
    koshi_matrix *matrix;
    struct scores scores;
    struct bytes wanted;
} utterances[MOST];

static size_t num_utterances;
static koshi_transitions *transitions;
static koshi_symbols *symbols;
static koshi_graph *graph;
static char folder[] = "/tmp/koshi-prompts-XXXXXX";

static void load(void)
{
    koshi_graph_summary info;
    koshi_error *err = NULL;
    CHECK_OK(koshi_transitions_read(DATA "trans.mdl", &transitions, &err), err);
    CHECK(koshi_transitions_num_ids(transitions) == 5002 && koshi_transitions_num_pdfs(transitions) == 601);
    CHECK(koshi_transitions_pdf(transitions, 0) == -1 && koshi_transitions_pdf(transitions, 5003) == -1);
    CHECK(koshi_transitions_pdf(transitions, 1) >= 0 && koshi_transitions_phone(transitions, 1) == 1);
    CHECK(koshi_transitions_hmm_state(transitions, 1) == 0 && koshi_transitions_is_self_loop(transitions, 1) == 1);
    CHECK(koshi_transitions_is_self_loop(transitions, 2) == 0 && koshi_transitions_is_self_loop(transitions, 0) == -1);
    CHECK_OK(koshi_symbols_read(DATA "words.txt", &symbols, &err), err);
    CHECK(koshi_symbols_find(symbols, "<eps>") == 0 && koshi_symbols_find(symbols, "no such word") == -1);
    CHECK(strcmp(koshi_symbols_name(symbols, 0), "<eps>") == 0 && koshi_symbols_name(symbols, -3) == NULL);
    CHECK(koshi_symbols_size(symbols) > 500 && koshi_symbols_name(symbols, 1 << 30) == NULL);
    CHECK_OK(koshi_graph_read(DATA "HCLG.fst", transitions, &graph, &err), err);
    CHECK_OK(koshi_graph_info(graph, &info, sizeof info, &err), err);
    CHECK(info.num_arcs == 42248 && info.num_columns <= 601 && info.max_ilabel <= 5002);
    CHECK_STATUS(KOSHI_E_IO, koshi_graph_read(DATA "no-such-file", transitions, &graph, &err), err);
    CHECK_STATUS(KOSHI_E_FORMAT, koshi_graph_read(DATA "words.txt", transitions, &graph, &err), err);
}

static void read_scores(void)
{
    koshi_matrix_reader *reader = NULL;
    const char *key;
    koshi_matrix *matrix;
    koshi_error *err = NULL;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_matrix_reader_open("nonsense", &reader, &err), err);
    CHECK_STATUS(KOSHI_E_IO, koshi_matrix_reader_open("ark:" DATA "nothing.ark", &reader, &err), err);
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, koshi_matrix_reader_open("ark:cat " DATA "loglikes.ark |", &reader, &err), err);
    CHECK(reader == NULL);
    CHECK_OK(koshi_matrix_reader_open("ark:" DATA "loglikes.ark", &reader, &err), err);
    for (;;) {
        struct utterance *next = &utterances[num_utterances];
        CHECK_OK(koshi_matrix_reader_next(reader, &key, &matrix, &err), err);
        CHECK((key == NULL) == (matrix == NULL));
        if (key == NULL)
            break;
        CHECK(num_utterances < MOST && strlen(key) < sizeof next->key);
        strcpy(next->key, key);
        next->matrix = matrix;
        next->scores.rows = koshi_matrix_data(matrix, &next->scores.frames, &next->scores.dim);
        CHECK(next->scores.rows != NULL && next->scores.dim == 601 && next->scores.frames > 20);
        ++num_utterances;
    }
    CHECK_OK(koshi_matrix_reader_next(reader, &key, &matrix, &err), err);
    CHECK(key == NULL && num_utterances == 12);
    CHECK(koshi_matrix_reader_free(reader) == KOSHI_OK);
}

static koshi_decoder *decoder_with(unsigned threads, unsigned lanes)
{
    koshi_decoder_config config = speech_config();
    koshi_decoder *decoder = NULL;
    koshi_error *err = NULL;
    config.num_threads = threads;
    config.num_lanes = lanes;
    CHECK_OK(koshi_decoder_new(graph, &config, &decoder, &err), err);
    return decoder;
}

/* The line of the reference with this key: "key word word ...". */
static void check_words(const char *key, const koshi_path *path)
{
    FILE *file = fopen(DATA "expected.words.int", "r");
    char line[1024], wanted[1100];
    char text[1024];
    size_t len = 0;
    koshi_error *err = NULL;
    int found = 0;
    CHECK(file != NULL);
    CHECK_OK(koshi_path_text(path, NULL, text, sizeof text, &len, &err), err);
    CHECK(len == strlen(text));
    snprintf(wanted, sizeof wanted, "%s %s", key, text);
    while (fgets(line, sizeof line, file) != NULL) {
        size_t end = strcspn(line, "\n");
        while (end > 0 && line[end - 1] == ' ')
            --end;
        line[end] = '\0';
        if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ' ') {
            CHECK(strcmp(line, wanted) == 0);
            found = 1;
        }
    }
    CHECK(fclose(file) == 0 && found);
}

/* Texts: the length first, a buffer that is too small, words by the table. */
static void check_text(const koshi_path *path)
{
    char text[1024] = "untouched";
    size_t len = 0, words, at;
    const int32_t *ids = koshi_path_olabels(path, &words);
    const char *rest = text;
    koshi_error *err = NULL;
    CHECK_OK(koshi_path_text(path, symbols, NULL, 0, &len, &err), err);
    CHECK(len > 0 && len < sizeof text);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_path_text(path, symbols, text, len, &len, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_path_text(path, symbols, NULL, 9999, &len, &err), err);
    CHECK(strcmp(text, "untouched") == 0);
    CHECK_OK(koshi_path_text(path, symbols, text, len + 1, NULL, &err), err);
    CHECK(strlen(text) == len);
    for (at = 0; at < words; ++at) {
        const char *name = koshi_symbols_name(symbols, ids[at]);
        CHECK(name != NULL && strncmp(rest, name, strlen(name)) == 0 && koshi_symbols_find(symbols, name) == ids[at]);
        rest += strlen(name) + (at + 1 < words);
    }
    CHECK(*rest == '\0');
}

static void kaldis_words(void)
{
    koshi_decoder *decoder = decoder_with(1, 1);
    size_t at;
    for (at = 0; at < num_utterances; ++at) {
        struct utterance *next = &utterances[at];
        koshi_channel *channel = open_channel(decoder);
        koshi_path *path;
        size_t frames;
        push(channel, next->scores.rows, next->scores.frames, next->scores.dim);
        CHECK(koshi_channel_reached_final(channel) == 1);
        path = best_of(channel);
        check_words(next->key, path);
        check_text(path);
        CHECK(koshi_path_ilabels(path, &frames) != NULL && frames == next->scores.frames);
        CHECK(koshi_path_free(path) == KOSHI_OK);
        next->wanted = result_of(channel);
        CHECK(koshi_channel_free(channel) == KOSHI_OK);
    }
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
}

static void same_either_way(void)
{
    static const size_t chunks[] = {1, 7, 50, 1000000};
    static const unsigned threads[] = {1, 2}, lanes[] = {1, 8};
    size_t thread, lane, chunk, at, step = under_valgrind() ? 5 : 1;
    for (thread = 0; thread < 2; ++thread) {
        for (lane = 0; lane < 2; ++lane) {
            koshi_decoder *decoder = decoder_with(threads[thread], lanes[lane]);
            for (chunk = 0; chunk < 4; ++chunk) {
                for (at = 0; at < num_utterances; at += step) {
                    const struct utterance *next = &utterances[at];
                    size_t size = chunks[chunk];
                    CHECK(same_bytes(copy(next->wanted), pushed(decoder, &next->scores, size)));
                    CHECK(same_bytes(copy(next->wanted), pushed(decoder, &next->scores, size)));
                    if (at % 4 != chunk)
                        continue;
                    CHECK(same_bytes(copy(next->wanted), pulled(decoder, &next->scores, MATRIX, (int64_t)size)));
                    CHECK(same_bytes(copy(next->wanted), pulled(decoder, &next->scores, ROWS, (int64_t)size)));
                    CHECK(same_bytes(copy(next->wanted), pulled(decoder, &next->scores, COLUMNS, (int64_t)size)));
                    CHECK(same_bytes(copy(next->wanted), among_others(decoder, &next->scores, size)));
                }
            }
#if defined(__SSE2__)
            {
                unsigned before = _mm_getcsr();
                _mm_setcsr(before | 0x8040); /* flush to zero, denormals are zero */
                for (at = 0; at < num_utterances; at += step) {
                    const struct utterance *next = &utterances[at];
                    CHECK(same_bytes(copy(next->wanted), pushed(decoder, &next->scores, 50)));
                    CHECK(same_bytes(copy(next->wanted), pulled(decoder, &next->scores, ROWS, -1)));
                }
                CHECK((_mm_getcsr() & 0x8040) == flush_bits());
                _mm_setcsr(before);
            }
#endif
            CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
        }
    }
}

static void name_of(char *name, size_t size, const char *before, const char *file)
{
    CHECK((size_t)snprintf(name, size, "%s%s/%s", before, folder, file) < size);
}

/* The graph from a file that is mapped: the same results, before its check has ended too. */
static void mapped(void)
{
    koshi_graph *read = graph, *other = NULL;
    koshi_decoder *decoder;
    char file[256];
    koshi_error *err = NULL;
    size_t at, step = under_valgrind() ? 5 : 1;
    name_of(file, sizeof file, "", "graph");
    CHECK_OK(koshi_graph_check(read, &err), err);
    CHECK_OK(koshi_graph_write_cache(read, file, &err), err);
    graph = NULL;
    CHECK_OK(koshi_graph_read(file, transitions, &graph, &err), err);
    decoder = decoder_with(2, 2);
    for (at = 0; at < num_utterances; at += step)
        CHECK(same_bytes(copy(utterances[at].wanted), pushed(decoder, &utterances[at].scores, 50)));
    CHECK_OK(koshi_graph_check(graph, &err), err);
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK && koshi_graph_free(graph) == KOSHI_OK);
    graph = read;
    CHECK_STATUS(KOSHI_E_GRAPH, koshi_graph_read(file, NULL, &other, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_graph_write_cache(NULL, file, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_graph_check(NULL, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_graph_write_cache(graph, NULL, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_graph_write_cache(graph, folder, &err), err);
    CHECK_STATUS(KOSHI_E_IO, koshi_graph_write_cache(graph, "/no/such/folder/graph", &err), err);
    CHECK(other == NULL && remove(file) == 0);
}

/* All utterances as one batch, their lattices and words to tables, and read back. */
static void tables(int text)
{
    koshi_decoder *decoder = decoder_with(2, 8);
    koshi_channel *channels[MOST];
    koshi_decoder_item items[MOST];
    koshi_lattice *lattices[MOST];
    koshi_lattice_writer *writer = NULL;
    koshi_int_writer *words = NULL;
    koshi_lattice_reader *reader = NULL;
    koshi_lattice *read;
    const char *key;
    char name[256], file[256];
    koshi_error *err = NULL;
    size_t at;
    name_of(name, sizeof name, text ? "ark,t:" : "ark:", "lattices");
    CHECK_STATUS(KOSHI_E_IO, koshi_lattice_writer_open("ark:/no/such/folder/l", &writer, &err), err);
    CHECK_OK(koshi_lattice_writer_open(name, &writer, &err), err);
    name_of(name, sizeof name, "ark,t:", "words");
    CHECK_OK(koshi_int_writer_open(name, &words, &err), err);
    memset(items, 0, sizeof items);
    for (at = 0; at < num_utterances; ++at) {
        items[at].channel = channels[at] = open_channel(decoder);
        items[at].rows = utterances[at].scores.rows;
        items[at].frames = utterances[at].scores.frames;
        items[at].dim = items[at].stride = utterances[at].scores.dim;
    }
    CHECK_OK(koshi_decoder_advance(decoder, items, num_utterances, sizeof items[0], &err), err);
    for (at = 0; at < num_utterances; ++at) {
        koshi_path *path = best_of(channels[at]);
        size_t len;
        const int32_t *ids = koshi_path_olabels(path, &len);
        CHECK(same_bytes(copy(utterances[at].wanted), result_of(channels[at])));
        CHECK_OK(koshi_int_writer_write(words, utterances[at].key, ids, len, &err), err);
        CHECK(koshi_path_free(path) == KOSHI_OK);
        lattices[at] = lattice_of(channels[at]);
        CHECK_OK(koshi_lattice_writer_write(writer, utterances[at].key, lattices[at], &err), err);
        CHECK(koshi_channel_free(channels[at]) == KOSHI_OK);
    }
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_writer_write(writer, "two words", lattices[0], &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_lattice_writer_write(writer, "key", NULL, &err), err);
    CHECK_OK(koshi_lattice_writer_close(writer, &err), err);
    CHECK_STATUS(KOSHI_E_STATE, koshi_lattice_writer_close(writer, &err), err);
    CHECK_STATUS(KOSHI_E_STATE, koshi_lattice_writer_write(writer, "key", lattices[0], &err), err);
    CHECK(koshi_lattice_writer_free(writer) == KOSHI_OK);
    CHECK_OK(koshi_int_writer_close(words, &err), err);
    CHECK(koshi_int_writer_free(words) == KOSHI_OK && koshi_int_writer_free(words) == KOSHI_E_HANDLE);

    name_of(name, sizeof name, "ark:", "lattices");
    CHECK_OK(koshi_lattice_reader_open(name, &reader, &err), err);
    for (at = 0; at < num_utterances; ++at) {
        koshi_buffer *left = NULL, *right = NULL;
        CHECK_OK(koshi_lattice_reader_next(reader, &key, &read, &err), err);
        CHECK(strcmp(key, utterances[at].key) == 0);
        CHECK_OK(koshi_lattice_to_memory(lattices[at], KOSHI_LATTICE_TEXT, &left, &err), err);
        CHECK_OK(koshi_lattice_to_memory(read, KOSHI_LATTICE_TEXT, &right, &err), err);
        CHECK(koshi_buffer_size(left) == koshi_buffer_size(right));
        CHECK(memcmp(koshi_buffer_data(left), koshi_buffer_data(right), (size_t)koshi_buffer_size(left)) == 0);
        CHECK(koshi_buffer_free(left) == KOSHI_OK && koshi_buffer_free(right) == KOSHI_OK);
        CHECK(koshi_lattice_free(read) == KOSHI_OK && koshi_lattice_free(lattices[at]) == KOSHI_OK);
    }
    CHECK_OK(koshi_lattice_reader_next(reader, &key, &read, &err), err);
    CHECK(key == NULL && read == NULL);
    CHECK(koshi_lattice_reader_free(reader) == KOSHI_OK);

    name_of(file, sizeof file, "", "lattices");
    CHECK(remove(file) == 0);
    name_of(file, sizeof file, "", "words");
    CHECK(remove(file) == 0);
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
}

/* What a lattice can do before it is determinized. */
static void lattices(void)
{
    koshi_decoder *decoder = decoder_with(1, 1);
    const struct utterance *one = &utterances[0];
    koshi_channel *channel = open_channel(decoder);
    koshi_lattice *whole, *narrow = NULL, *scaled = NULL;
    koshi_lattice_summary info, less;
    koshi_path *path = NULL;
    koshi_error *err = NULL;
    push(channel, one->scores.rows, one->scores.frames, one->scores.dim);
    whole = lattice_of(channel);
    CHECK_OK(koshi_lattice_info(whole, &info, sizeof info, &err), err);
    CHECK(info.num_frames == one->scores.frames && info.reached_final == 1 && info.acoustic_scale == ACOUSTIC_SCALE);
    CHECK_OK(koshi_lattice_prune(whole, 2, info.acoustic_scale, &narrow, &err), err);
    CHECK_OK(koshi_lattice_info(narrow, &less, sizeof less, &err), err);
    CHECK(less.num_arcs < info.num_arcs && less.num_arcs >= one->scores.frames);
    CHECK(less.best_graph_cost == info.best_graph_cost && less.best_acoustic_cost == info.best_acoustic_cost);
    CHECK_OK(koshi_lattice_best_path(narrow, info.acoustic_scale, &path, &err), err);
    check_words(one->key, path);
    CHECK(koshi_path_graph_cost(path) == info.best_graph_cost);
    CHECK(koshi_path_free(path) == KOSHI_OK);
    CHECK_OK(koshi_lattice_scale(whole, 2, 0.5f, &scaled, &err), err);
    CHECK_OK(koshi_lattice_best_path(scaled, 4 * info.acoustic_scale, &path, &err), err);
    check_words(one->key, path);
    CHECK(koshi_path_free(path) == KOSHI_OK && koshi_lattice_free(scaled) == KOSHI_OK);
    scaled = NULL;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_scale(whole, NAN, 1, &scaled, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_prune(whole, -1, 1, &scaled, &err), err);
    CHECK(scaled == NULL);
    CHECK(koshi_lattice_free(whole) == KOSHI_OK && koshi_lattice_free(narrow) == KOSHI_OK);
    CHECK(koshi_channel_free(channel) == KOSHI_OK && koshi_decoder_free(decoder) == KOSHI_OK);
}

/* The words behind the first `from` are those of the whole partial path. */
static void new_words(const koshi_channel *channel, const koshi_path *whole, size_t from, size_t stable)
{
    koshi_path *rest = NULL;
    koshi_error *err = NULL;
    size_t again = 0, all, len, frames, num_frames, first;
    CHECK_OK(koshi_channel_partial_words(channel, from, &rest, &again, &err), err);
    koshi_path_olabels(whole, &all);
    koshi_path_olabels(rest, &len);
    CHECK(again == stable && len == all - from);
    CHECK(memcmp(koshi_path_olabels(rest, NULL), koshi_path_olabels(whole, NULL) + from, len * sizeof(int32_t)) == 0);
    CHECK(memcmp(koshi_path_frames(rest, NULL), koshi_path_frames(whole, NULL) + from, len * sizeof(uint32_t)) == 0);
    koshi_path_ilabels(whole, &frames);
    koshi_path_ilabels(rest, &num_frames);
    first = from == 0 ? 0 : len > 0 ? koshi_path_frames(rest, NULL)[0] : frames;
    CHECK(num_frames == frames - first);
    CHECK(koshi_path_acoustic_cost(rest) == koshi_path_acoustic_cost(whole));
    CHECK(koshi_path_free(rest) == KOSHI_OK);
    CHECK_OK(koshi_channel_partial_words(channel, SIZE_MAX, &rest, NULL, &err), err);
    koshi_path_olabels(rest, &len);
    CHECK(len == 0 && koshi_path_free(rest) == KOSHI_OK);
}

/* Partial results: words that are called stable stay. */
static void partials(void)
{
    koshi_decoder *decoder = decoder_with(1, 1);
    size_t number, at;
    for (number = 0; number < num_utterances; ++number) {
        const struct scores *scores = &utterances[number].scores;
        koshi_channel *channel = open_channel(decoder);
        koshi_error *err = NULL;
        koshi_path *path = NULL;
        int32_t kept[64];
        size_t num_kept = 0, frame;
        for (frame = 0; frame < scores->frames; frame += 10) {
            size_t now = scores->frames - frame < 10 ? scores->frames - frame : 10, stable = 0, len = 0;
            const int32_t *words;
            push(channel, scores->rows + scores->dim * frame, now, scores->dim);
            CHECK_OK(koshi_channel_partial(channel, &path, &stable, &err), err);
            words = koshi_path_olabels(path, &len);
            CHECK(stable <= len && stable >= num_kept && len < 64);
            for (at = 0; at < num_kept; ++at)
                CHECK(words[at] == kept[at]);
            new_words(channel, path, num_kept, stable);
            for (; num_kept < stable; ++num_kept)
                kept[num_kept] = words[num_kept];
            CHECK(koshi_path_free(path) == KOSHI_OK);
        }
        CHECK(koshi_channel_free(channel) == KOSHI_OK);
    }
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
}

/* The compact lattice of a call that was determinized while it grew, against that of the whole. */
static void same_compact(koshi_channel *channel, const koshi_determinize_config *config)
{
    koshi_lattice *raw = lattice_of(channel), *whole = NULL, *grown = NULL;
    koshi_lattice_summary wanted, found;
    koshi_path *best = NULL, *other = NULL;
    koshi_error *err = NULL;
    size_t len = 0, other_len = 0;
    float beam = 0;
    CHECK_OK(koshi_lattice_determinize(raw, transitions, config, &whole, NULL, &err), err);
    CHECK_OK(koshi_channel_compact_lattice(channel, 1, &grown, &beam, &err), err);
    CHECK(beam == config->beam);
    CHECK_OK(koshi_lattice_info(whole, &wanted, sizeof wanted, &err), err);
    CHECK_OK(koshi_lattice_info(grown, &found, sizeof found, &err), err);
    CHECK(found.is_compact == 1 && found.num_frames == wanted.num_frames && found.num_arcs > 0);
    CHECK(found.reached_final == wanted.reached_final && found.acoustic_scale == wanted.acoustic_scale);
    CHECK(fabs(found.best_graph_cost - wanted.best_graph_cost) < 1e-3);
    CHECK(fabs(found.best_acoustic_cost - wanted.best_acoustic_cost) < 0.1);
    CHECK_OK(koshi_lattice_best_path(whole, config->acoustic_scale, &best, &err), err);
    CHECK_OK(koshi_lattice_best_path(grown, config->acoustic_scale, &other, &err), err);
    CHECK(koshi_path_olabels(best, &len) != NULL && koshi_path_olabels(other, &other_len) != NULL && len == other_len);
    CHECK(memcmp(koshi_path_olabels(best, NULL), koshi_path_olabels(other, NULL), len * sizeof(int32_t)) == 0);
    CHECK(koshi_path_free(best) == KOSHI_OK && koshi_path_free(other) == KOSHI_OK);
    CHECK(koshi_lattice_free(raw) == KOSHI_OK && koshi_lattice_free(whole) == KOSHI_OK);
    CHECK(koshi_lattice_free(grown) == KOSHI_OK);
}

static void grows(void)
{
    koshi_decoder *decoder = decoder_with(1, 1);
    koshi_channel *channel = open_channel(decoder);
    koshi_determinize_config config;
    koshi_lattice *lattice = NULL;
    koshi_error *err = NULL;
    size_t number, frame;
    CHECK_OK(koshi_determinize_config_init(&config, sizeof config, &err), err);
    config.beam = 6;
    CHECK_STATUS(KOSHI_E_STATE, koshi_channel_settle(channel, &err), err);
    CHECK_STATUS(KOSHI_E_STATE, koshi_channel_compact_lattice(channel, 1, &lattice, NULL, &err), err);
    CHECK_STATUS(KOSHI_E_CONFIG, koshi_channel_set_determinize(channel, transitions, &config, &err), err);
    config.acoustic_scale = ACOUSTIC_SCALE;
    config.word_determinize = 0;
    CHECK_STATUS(KOSHI_E_CONFIG, koshi_channel_set_determinize(channel, transitions, &config, &err), err);
    config.word_determinize = 1;
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_channel_set_determinize(NULL, transitions, &config, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_channel_settle(NULL, &err), err);
    for (number = 0; number < num_utterances; ++number) {
        const struct scores *scores = &utterances[number].scores;
        /* NULL: the same options. */
        CHECK_OK(koshi_channel_set_determinize(channel, transitions, number % 2 ? NULL : &config, &err), err);
        CHECK_OK(koshi_channel_begin(channel, &err), err);
        for (frame = 0; frame < scores->frames; frame += 40) {
            size_t now = scores->frames - frame < 40 ? scores->frames - frame : 40;
            push(channel, scores->rows + scores->dim * frame, now, scores->dim);
            CHECK_OK(koshi_channel_settle(channel, &err), err);
            if (frame == 120)
                same_compact(channel, &config);
        }
        CHECK_OK(koshi_channel_finish(channel, &err), err);
        same_compact(channel, &config);
    }
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_compact_lattice(channel, 1, NULL, NULL, &err), err);
    CHECK(lattice == NULL && koshi_channel_free(channel) == KOSHI_OK && koshi_decoder_free(decoder) == KOSHI_OK);
}

/* A call without an end: the prompts three times over. Lattices of what is committed join, and words stay. */
static void streams(void)
{
    koshi_decoder *decoder = decoder_with(1, 1);
    koshi_channel *channel = open_channel(decoder);
    koshi_lattice *lattice = (koshi_lattice *)garbage(8);
    koshi_lattice_summary info;
    koshi_search_stats stats;
    koshi_path *path = NULL;
    koshi_error *err = NULL;
    uint64_t first = 0, next = 0, frames = 0;
    size_t number, stable = 0, before = 0, len, rounds = under_valgrind() ? 1 : 3;
    CHECK_STATUS(KOSHI_E_CONFIG, koshi_channel_set_commit(channel, 255, 0, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_channel_set_commit(NULL, 256, 0, &err), err);
    CHECK_OK(koshi_channel_set_commit(channel, 600, 1000000, &err), err);
    CHECK_OK(koshi_channel_begin(channel, &err), err);
    CHECK(koshi_channel_committed_frames(channel) == 0 && koshi_channel_committed_frames(NULL) == -1);
    CHECK_OK(koshi_channel_committed_lattice(channel, &lattice, NULL, &err), err);
    CHECK(lattice == NULL);
    for (number = 0; number < rounds * num_utterances; ++number) {
        const struct scores *scores = &utterances[number % num_utterances].scores;
        push(channel, scores->rows, scores->frames, scores->dim);
        frames += scores->frames;
        CHECK_OK(koshi_channel_partial(channel, &path, &stable, &err), err);
        CHECK(koshi_path_olabels(path, &len) != NULL && stable <= len && stable >= before);
        CHECK(koshi_path_ilabels(path, &len) != NULL);
        CHECK(len + (uint64_t)koshi_channel_committed_frames(channel) == frames);
        CHECK(koshi_path_free(path) == KOSHI_OK);
        before = stable;
        for (;;) {
            CHECK_OK(koshi_channel_committed_lattice(channel, &lattice, &first, &err), err);
            if (lattice == NULL)
                break;
            CHECK_OK(koshi_lattice_info(lattice, &info, sizeof info, &err), err);
            CHECK(first == next && info.num_frames > 0 && info.is_compact == 0);
            next += info.num_frames;
            CHECK(koshi_lattice_free(lattice) == KOSHI_OK);
        }
        CHECK(next == (uint64_t)koshi_channel_committed_frames(channel));
    }
    CHECK(next > 500 && koshi_channel_num_frames(channel) == (int64_t)frames);
    CHECK_OK(koshi_channel_stats(channel, &stats, sizeof stats, &err), err);
    CHECK(stats.committed_frames == next && stats.frames == frames && frames - next < 600 + 64 + 128);
    lattice = lattice_of(channel);
    CHECK_OK(koshi_lattice_info(lattice, &info, sizeof info, &err), err);
    CHECK(next + info.num_frames == frames);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_committed_lattice(channel, NULL, &first, &err), err);
    CHECK_OK(koshi_channel_set_commit(channel, 0, 0, &err), err);
    CHECK(koshi_channel_free(channel) == KOSHI_OK && koshi_decoder_free(decoder) == KOSHI_OK);
}

int main(void)
{
    size_t at;
    CHECK(mkdtemp(folder) != NULL);
    load();
    read_scores();
    kaldis_words();
    same_either_way();
    mapped();
    tables(0);
    tables(1);
    lattices();
    partials();
    grows();
    streams();
    for (at = 0; at < num_utterances; ++at) {
        CHECK(koshi_matrix_free(utterances[at].matrix) == KOSHI_OK);
        free(utterances[at].wanted.data);
    }
    CHECK(koshi_graph_free(graph) == KOSHI_OK && koshi_symbols_free(symbols) == KOSHI_OK);
    CHECK(koshi_transitions_free(transitions) == KOSHI_OK);
    CHECK(rmdir(folder) == 0);
    return 0;
}
