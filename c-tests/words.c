/* Words of a lattice: alignment by both tables, confidences and times, and the forms of a result. */

#include <math.h>

#include "check.h"

/* Five phones of one emitting state: transition-ids 2p - 1 (loop) and 2p (on) of phone p. */
static const char model[] = "<TransitionModel>\n<Topology>\n<TopologyEntry>\n<ForPhones> 1 2 3 4 5 </ForPhones>\n"
                            "<State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.5 </State>\n"
                            "<State> 1 </State>\n</TopologyEntry>\n</Topology>\n"
                            "<Triples> 5\n1 0 0\n2 0 1\n3 0 2\n4 0 3\n5 0 4\n</Triples>\n"
                            "<LogProbs>\n [ 0 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 ]\n</LogProbs>\n"
                            "</TransitionModel>\n";
static const char kinds[] = "1 nonword\n2 begin\n3 internal\n4 end\n5 singleton\n";
static const char fewer_kinds[] = "1 nonword\n2 begin\n4 end\n5 singleton\n";
static const char pronunciations[] = "0 0 1\n10 20 2 3 4\n10 20 2 4\n11 11 5\n12 12 5\n";
static const char symbols_text[] = "<eps> 0\n\"ten\" 10\neleven 11\ntwelve 12\n";

/* Silence of two frames, word 10 of three, then word 11 or 12 of two: words early, a transition-id late. */
static const char unaligned[] = "\n0\t1\t10\t0.5,2,2_1_4\n1\t2\t11\t1,0,6_8\n1\t2\t12\t2,0,6_8\n2\t0,0,10_9\n\n";
static const char cut_off[] = "\n0\t1\t10\t0.5,2,2_1_4\n1\t0,0,6\n\n";

static koshi_transitions *transitions;
static koshi_word_boundary *boundary;
static koshi_align_lexicon *lexicon;
static koshi_symbols *symbols;

static const unsigned char *bytes(const char *text)
{
    return (const unsigned char *)text;
}

static koshi_lattice *lattice_of(const char *text)
{
    koshi_error *err = NULL;
    koshi_lattice *lattice = NULL;
    CHECK_OK(koshi_lattice_from_memory(bytes(text), strlen(text), &lattice, &err), err);
    return lattice;
}

static void check_text(koshi_buffer *buffer, const char *wanted)
{
    CHECK(koshi_buffer_size(buffer) == (int64_t)strlen(wanted));
    CHECK(memcmp(koshi_buffer_data(buffer), wanted, strlen(wanted)) == 0);
    CHECK(koshi_buffer_free(buffer) == KOSHI_OK);
}

static void check_contains(koshi_buffer *buffer, const char *part)
{
    size_t size = (size_t)koshi_buffer_size(buffer), at;
    const char *data = (const char *)koshi_buffer_data(buffer);
    for (at = 0; at + strlen(part) <= size; ++at)
        if (memcmp(data + at, part, strlen(part)) == 0)
            return;
    fprintf(stderr, "%s is not in %.*s\n", part, (int)size, data);
    exit(1);
}

static int same_lattice(koshi_lattice *one, koshi_lattice *two)
{
    koshi_error *err = NULL;
    koshi_buffer *first = NULL, *second = NULL;
    int same;
    CHECK_OK(koshi_lattice_to_memory(one, KOSHI_LATTICE_BINARY, &first, &err), err);
    CHECK_OK(koshi_lattice_to_memory(two, KOSHI_LATTICE_BINARY, &second, &err), err);
    same = koshi_buffer_size(first) == koshi_buffer_size(second) &&
           memcmp(koshi_buffer_data(first), koshi_buffer_data(second), (size_t)koshi_buffer_size(first)) == 0;
    CHECK(koshi_buffer_free(first) == KOSHI_OK && koshi_buffer_free(second) == KOSHI_OK);
    return same;
}

static void tables(void)
{
    koshi_error *err = NULL;
    koshi_word_boundary *bad_boundary = (koshi_word_boundary *)garbage(8);
    koshi_align_lexicon *bad_lexicon = (koshi_align_lexicon *)garbage(8);
    CHECK_OK(koshi_transitions_from_memory(bytes(model), strlen(model), &transitions, &err), err);
    CHECK_OK(koshi_word_boundary_from_memory(bytes(kinds), strlen(kinds), &boundary, &err), err);
    CHECK_OK(koshi_align_lexicon_from_memory(bytes(pronunciations), strlen(pronunciations), &lexicon, &err), err);
    CHECK_OK(koshi_symbols_from_memory(bytes(symbols_text), strlen(symbols_text), &symbols, &err), err);
    CHECK(koshi_word_boundary_from_memory(bytes("1 nonword\n2 x\n"), 14, &bad_boundary, &err) == KOSHI_E_FORMAT);
    CHECK(strstr(koshi_error_message(err), "line 2") != NULL && koshi_error_free(err) == KOSHI_OK);
    err = NULL;
    CHECK(koshi_align_lexicon_from_memory(bytes("5 5 2\n5\n"), 8, &bad_lexicon, &err) == KOSHI_E_FORMAT);
    CHECK(strstr(koshi_error_message(err), "line 2") != NULL && koshi_error_free(err) == KOSHI_OK);
    err = NULL;
    CHECK_STATUS(KOSHI_E_IO, koshi_word_boundary_read("/no/such/file", &bad_boundary, &err), err);
    CHECK_STATUS(KOSHI_E_IO, koshi_align_lexicon_read("/no/such/file", &bad_lexicon, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_word_boundary_from_memory(NULL, 3, &bad_boundary, &err), err);
    CHECK(bad_boundary == garbage(8) && bad_lexicon == garbage(8));
    CHECK(koshi_word_boundary_ref(boundary) == boundary && koshi_word_boundary_free(boundary) == KOSHI_OK);
    CHECK(koshi_align_lexicon_ref(lexicon) == lexicon && koshi_align_lexicon_free(lexicon) == KOSHI_OK);
    CHECK(koshi_word_boundary_ref(NULL) == NULL && koshi_align_lexicon_ref(NULL) == NULL);
    CHECK(koshi_word_boundary_free(NULL) == KOSHI_OK && koshi_align_lexicon_free(NULL) == KOSHI_OK);
}

/* Each arc of an aligned lattice has its word's transition-ids. */
static void check_aligned(koshi_lattice *aligned, int32_t ten)
{
    static const int32_t silence[] = {2, 1}, long_word[] = {4, 6, 8}, short_word[] = {10, 9};
    size_t arcs, at, len;
    const koshi_lattice_arc *arc = koshi_lattice_arcs(aligned, &arcs);
    /* Word 10 twice: costs stand where they were read, which is before it can be given out. */
    CHECK(arcs == 5);
    for (at = 0; at < arcs; ++at) {
        const int32_t *ids = koshi_lattice_string(aligned, at, &len);
        const int32_t *wanted = arc[at].olabel == 0 ? silence : arc[at].olabel == ten ? long_word : short_word;
        CHECK(arc[at].olabel == 0 || arc[at].olabel == ten || arc[at].olabel == 11 || arc[at].olabel == 12);
        CHECK(len == (wanted == long_word ? 3u : 2u) && memcmp(ids, wanted, len * sizeof *ids) == 0);
    }
}

static void alignment(void)
{
    koshi_error *err = NULL;
    koshi_lattice *lattice = lattice_of(unaligned), *cut = lattice_of(cut_off), *aligned = NULL;
    koshi_align_options options;
    int32_t how = -1;
    CHECK_OK(koshi_lattice_align_words(lattice, transitions, boundary, NULL, &aligned, &how, &err), err);
    CHECK(how == KOSHI_ALIGNMENT_COMPLETE);
    check_aligned(aligned, 10);
    CHECK(koshi_lattice_free(aligned) == KOSHI_OK);
    CHECK_OK(koshi_lattice_align_words_lexicon(lattice, transitions, lexicon, NULL, &aligned, NULL, &err), err);
    check_aligned(aligned, 20);
    CHECK(koshi_lattice_free(aligned) == KOSHI_OK);

    CHECK_STATUS(KOSHI_OK_PARTIAL, koshi_lattice_align_words(cut, transitions, boundary, NULL, &aligned, &how, &err), err);
    CHECK(how == KOSHI_ALIGNMENT_PARTIAL_WORDS && !same_lattice(cut, aligned));
    CHECK(koshi_lattice_free(aligned) == KOSHI_OK);

    CHECK_OK(koshi_align_options_init(&options, sizeof options, &err), err);
    CHECK(options.silence_label == 0 && options.reorder == 1 && options.max_expand == 1000);
    options.silence_label = -1;
    aligned = NULL;
    CHECK_STATUS(KOSHI_E_CONFIG, koshi_lattice_align_words(lattice, transitions, boundary, &options, &aligned, &how, &err),
                 err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_lattice_align_words(lattice, transitions, NULL, NULL, &aligned, &how, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_align_words(lattice, transitions, boundary, NULL, NULL, &how, &err), err);
    CHECK(aligned == NULL && how == KOSHI_ALIGNMENT_PARTIAL_WORDS);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_lattice_free(cut) == KOSHI_OK);
}

/* A table that lacks a phone: the lattice as it was, and a status. */
static void case_b57_missing_phone(void)
{
    koshi_error *err = NULL;
    koshi_lattice *lattice = lattice_of(unaligned), *aligned = NULL;
    koshi_word_boundary *fewer = NULL;
    int32_t how = -1;
    CHECK_OK(koshi_word_boundary_from_memory(bytes(fewer_kinds), strlen(fewer_kinds), &fewer, &err), err);
    CHECK_STATUS(KOSHI_OK_PARTIAL, koshi_lattice_align_words(lattice, transitions, fewer, NULL, &aligned, &how, &err), err);
    CHECK(how == KOSHI_ALIGNMENT_NONE && same_lattice(lattice, aligned));
    CHECK(koshi_word_boundary_free(fewer) == KOSHI_OK);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_lattice_free(aligned) == KOSHI_OK);
}

static void confidences(void)
{
    koshi_error *err = NULL;
    koshi_lattice *lattice = lattice_of(unaligned), *aligned = NULL;
    koshi_words *words = NULL;
    koshi_words_config config;
    koshi_ctm_format format;
    koshi_buffer *buffer = NULL;
    static const int32_t said[] = {10, 12};
    size_t len, bins, all;
    const koshi_word *word;
    const koshi_word_bin *bin;
    const koshi_word_alternative *other;
    /* Costs of 1 and 2. */
    double wanted = 1 / (1 + exp(-1));
    CHECK_OK(koshi_lattice_align_words(lattice, transitions, boundary, NULL, &aligned, NULL, &err), err);
    CHECK_OK(koshi_lattice_words(aligned, NULL, &words, &err), err);
    word = koshi_words_list(words, &len);
    CHECK(len == 2 && word[0].label == 10 && word[1].label == 11);
    CHECK(word[0].start == 2 && word[0].frames == 3 && word[0].confidence == 1);
    CHECK(word[1].start == 5 && word[1].frames == 2 && fabs(word[1].confidence - wanted) < 1e-6);
    bin = koshi_words_bins(words, &bins);
    other = koshi_words_alternatives(words, &all);
    CHECK(bins == 5 && bin[word[1].bin].len == 2 && bin[word[1].bin].first + 2 <= all);
    other += bin[word[1].bin].first;
    CHECK(other[0].label == 11 && other[1].label == 12 && fabs(other[0].posterior + other[1].posterior - 1) < 1e-6);
    CHECK(fabs(koshi_words_expected_errors(words) - (1 - wanted)) < 1e-4);

    CHECK_OK(koshi_words_to_ctm(words, "u", NULL, NULL, &buffer, &err), err);
    check_text(buffer, "u 1 0.02 0.03 10 1.00\nu 1 0.05 0.02 11 0.73\n");
    CHECK_OK(koshi_ctm_format_init(&format, sizeof format, &err), err);
    format.digits = 3;
    format.confidences = 0;
    format.frame_shift = 0.03f;
    CHECK_OK(koshi_words_to_ctm(words, "u", &format, symbols, &buffer, &err), err);
    check_text(buffer, "u 1 0.060 0.090 \"ten\"\nu 1 0.150 0.060 eleven\n");
    buffer = NULL;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_words_to_ctm(words, "two words", NULL, NULL, &buffer, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_words_to_ctm(words, NULL, NULL, NULL, &buffer, &err), err);
    format.frame_shift = 0;
    CHECK_STATUS(KOSHI_E_CONFIG, koshi_words_to_ctm(words, "u", &format, NULL, &buffer, &err), err);
    CHECK(buffer == NULL);
    CHECK_OK(koshi_words_to_json(words, "u", 0.01f, symbols, &buffer, &err), err);
    check_contains(buffer, "{\"utterance\":\"u\",\"words\":[{\"word\":10,\"text\":\"\\\"ten\\\"\",\"start\":0.02,");
    CHECK(koshi_buffer_free(buffer) == KOSHI_OK);
    CHECK(koshi_words_ref(words) == words && koshi_words_free(words) == KOSHI_OK && koshi_words_free(words) == KOSHI_OK);
    CHECK(koshi_words_free(words) == KOSHI_E_HANDLE && koshi_words_free(NULL) == KOSHI_OK);
    CHECK(koshi_words_list(words, &len) == NULL && len == 0 && isnan(koshi_words_expected_errors(words)));

    CHECK_OK(koshi_words_config_init(&config, sizeof config, &err), err);
    CHECK(config.decode_mbr == 1 && config.keep_silence == 0 && config.acoustic_scale == 1 && config.graph_scale == 1);
    config.decode_mbr = 0;
    config.keep_silence = 1;
    CHECK_OK(koshi_lattice_words_of(aligned, said, 2, &config, &words, &err), err);
    word = koshi_words_list(words, &len);
    CHECK(len == 5 && word[3].label == 12 && fabs(word[3].confidence - (1 - wanted)) < 1e-6);
    CHECK(koshi_words_free(words) == KOSHI_OK);
    CHECK_OK(koshi_lattice_best_words(aligned, 1, 1, &words, &err), err);
    word = koshi_words_list(words, &len);
    CHECK(len == 3 && word[0].label == 0 && word[0].frames == 2 && word[2].label == 11 && word[2].start == 5);
    CHECK(koshi_words_free(words) == KOSHI_OK);
    words = NULL;
    config.acoustic_scale = NAN;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_words(aligned, &config, &words, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_lattice_words(NULL, NULL, &words, &err), err);
    CHECK(words == NULL);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_lattice_free(aligned) == KOSHI_OK);
}

static void forms(void)
{
    koshi_error *err = NULL;
    koshi_lattice *lattice = lattice_of(unaligned);
    koshi_buffer *buffer = NULL;
    CHECK_OK(koshi_lattice_to_dot(lattice, symbols, &buffer, &err), err);
    check_contains(buffer, "digraph lattice {");
    check_contains(buffer, "0 -> 1 [label = \"\\\"ten\\\"\\n0.5, 2\\n3 frames\"];");
    CHECK(koshi_buffer_free(buffer) == KOSHI_OK);
    CHECK_OK(koshi_lattice_to_dot(lattice, NULL, &buffer, &err), err);
    check_contains(buffer, "0 -> 1 [label = \"10\\n0.5, 2\\n3 frames\"];");
    CHECK(koshi_buffer_free(buffer) == KOSHI_OK);
    CHECK_OK(koshi_lattice_to_json(lattice, symbols, &buffer, &err), err);
    check_contains(buffer, "{\"from\":0,\"to\":1,\"word\":10,\"text\":\"\\\"ten\\\"\",\"graph\":0.5,\"acoustic\":2.0,"
                           "\"transition_ids\":[2,1,4]}");
    CHECK(koshi_buffer_free(buffer) == KOSHI_OK);
    buffer = NULL;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_to_json(lattice, NULL, NULL, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_lattice_to_dot(NULL, NULL, &buffer, &err), err);
    CHECK(buffer == NULL && koshi_lattice_free(lattice) == KOSHI_OK);
}

int main(void)
{
    tables();
    alignment();
    case_b57_missing_phone();
    confidences();
    forms();
    CHECK(koshi_transitions_free(transitions) == KOSHI_OK && koshi_word_boundary_free(boundary) == KOSHI_OK);
    CHECK(koshi_align_lexicon_free(lexicon) == KOSHI_OK && koshi_symbols_free(symbols) == KOSHI_OK);
    return 0;
}
