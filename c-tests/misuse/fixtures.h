/* One live object of each kind, small files of each form, and values that are no handles: what the program of
 * tests/null_arguments.rs calls every function of the library with. */

#ifndef FIXTURES_H
#define FIXTURES_H

#include <unistd.h>

#include "../fst.h"

/* Five phones of one emitting state: transition-ids 2p - 1 (loop) and 2p (on) of phone p. */
static const char MODEL[] = "<TransitionModel>\n<Topology>\n<TopologyEntry>\n<ForPhones> 1 2 3 4 5 </ForPhones>\n"
                            "<State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.5 </State>\n"
                            "<State> 1 </State>\n</TopologyEntry>\n</Topology>\n"
                            "<Triples> 5\n1 0 0\n2 0 1\n3 0 2\n4 0 3\n5 0 4\n</Triples>\n"
                            "<LogProbs>\n [ 0 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 ]\n</LogProbs>\n"
                            "</TransitionModel>\n";
static const char SYMBOLS[] = "<eps> 0\none 1\nten 10\neleven 11\ntwelve 12\n";
static const char BOUNDARY[] = "1 nonword\n2 begin\n3 internal\n4 end\n5 singleton\n";
static const char LEXICON[] = "0 0 1\n10 10 2 3 4\n11 11 5\n12 12 5\n";
static const char LATTICE[] = "\n0\t1\t10\t0.5,2,2_1_4\n1\t2\t11\t1,0,6_8\n1\t2\t12\t2,0,6_8\n2\t0,0,10_9\n\n";
static const char SUPERVISION[] = "<Supervision> <Weight> 0.5 <NumSequences> 2 <FramesPerSeq> 2 <LabelDim> 2 <End2End> F \n"
                                  "0 1 1 1 0.5\n1 2 2 2\n2 3 1 1\n2 3 2 2 1\n3 4 2 2\n4 0.25\n\n</Supervision> ";
static const char MATRICES[] = "a  [\n  1 2\n  3 4 ]\nb  [\n  5 6 ]\n";

/* Scores of a graph of one column, encoder rows of a transducer, output of a network: all may be 0. */
static const float ZEROS[64] = {0};
static const int32_t COLUMNS[2] = {0, 0}, WORDS[2] = {10, 11}, SILENCE[1] = {1};
static const uint32_t LENGTHS[2] = {2, 2};

#define MADE(call) CHECK((call) == KOSHI_OK)

/* A graph of one state, which is final, with a loop of label 1 and word 1. */
static inline struct bytes loop_bytes(float final_cost)
{
    const struct fst_arc arcs[1] = {{0, 1, 1, 0.5f, 0}};
    return fst_bytes(0, 1, &final_cost, arcs, 1);
}

/* A den.fst of two pdfs. */
static inline struct bytes den_bytes(void)
{
    static const float finals[1] = {INFINITY};
    const struct fst_arc arcs[2] = {{0, 1, 1, 0.7f, 0}, {0, 2, 2, 1.4f, 0}};
    return fst_bytes(0, 1, finals, arcs, 2);
}

static inline koshi_error *make_error(void)
{
    koshi_error *err = NULL;
    CHECK(koshi_log_set(NULL, NULL, NULL, 99, &err) == KOSHI_E_ARGUMENT && err != NULL);
    return err;
}

/* Objects that are read from bytes. */
#define FROM_TEXT(kind, text)                                                                        \
    static inline koshi_##kind *make_##kind(void)                                                    \
    {                                                                                                \
        koshi_##kind *made = NULL;                                                                   \
        MADE(koshi_##kind##_from_memory((const uint8_t *)(text), strlen(text), &made, NULL));        \
        return made;                                                                                 \
    }
FROM_TEXT(transitions, MODEL)
FROM_TEXT(symbols, SYMBOLS)
FROM_TEXT(word_boundary, BOUNDARY)
FROM_TEXT(align_lexicon, LEXICON)
FROM_TEXT(lattice, LATTICE)
FROM_TEXT(supervision, SUPERVISION)

static inline koshi_graph *make_graph(void)
{
    struct bytes file = loop_bytes(0);
    koshi_graph *graph = NULL;
    MADE(koshi_graph_from_memory(file.data, file.size, NULL, &graph, NULL));
    free(file.data);
    return graph;
}

static inline koshi_language_model *make_language_model(void)
{
    struct bytes file = loop_bytes(0);
    koshi_language_model *model = NULL;
    MADE(koshi_language_model_from_memory(file.data, file.size, NULL, &model, NULL));
    free(file.data);
    return model;
}

static inline koshi_den_graph *make_den_graph(void)
{
    struct bytes file = den_bytes();
    koshi_den_graph *graph = NULL;
    MADE(koshi_den_graph_from_memory(file.data, file.size, 2, &graph, NULL));
    free(file.data);
    return graph;
}

static inline koshi_decoder *make_decoder(void)
{
    koshi_graph *graph = make_graph();
    koshi_decoder_config config;
    koshi_decoder *decoder = NULL;
    MADE(koshi_decoder_config_init(&config, sizeof config, NULL));
    config.backend = KOSHI_BACKEND_CPU;
    config.num_lanes = config.num_threads = 1;
    MADE(koshi_decoder_new(graph, &config, &decoder, NULL));
    MADE(koshi_graph_free(graph));
    return decoder;
}

/* Open, with three frames. */
static inline koshi_channel *channel_of(koshi_decoder *decoder)
{
    koshi_channel *channel = open_channel(decoder);
    push(channel, ZEROS, 3, 1);
    return channel;
}

static inline koshi_channel *make_channel(void)
{
    koshi_decoder *decoder = make_decoder();
    koshi_channel *channel = channel_of(decoder);
    MADE(koshi_decoder_free(decoder));
    return channel;
}

/* One with a closed segment. */
static inline koshi_channel *segmented_channel(void)
{
    koshi_decoder *decoder = make_decoder();
    koshi_endpoint_config config;
    koshi_channel *channel;
    MADE(koshi_endpoint_config_init(&config, sizeof config, NULL));
    config.silence = KOSHI_SILENCE_ILABELS;
    config.action = KOSHI_ENDPOINT_SEGMENT;
    config.rules[0].min_trailing_silence = 0.02;
    MADE(koshi_decoder_set_endpoint_rules(decoder, &config, SILENCE, 1, NULL));
    channel = channel_of(decoder);
    CHECK(koshi_channel_num_segments(channel) == 1);
    MADE(koshi_decoder_free(decoder));
    return channel;
}

/* One whose lattice is determinized while it grows. */
static inline koshi_channel *determinized_channel(void)
{
    koshi_channel *channel = make_channel();
    MADE(koshi_channel_set_determinize(channel, NULL, NULL, NULL));
    return channel;
}

static inline koshi_decodable *make_decodable(void)
{
    koshi_decodable *decodable = NULL;
    MADE(koshi_decodable_from_matrix(ZEROS, 64, 1, 1, &decodable, NULL));
    return decodable;
}

static inline koshi_status no_score(void *user_data, int64_t frame, int32_t index, float *out)
{
    (void)user_data, (void)frame, (void)index;
    *out = 0;
    return KOSHI_OK;
}

static inline koshi_status no_scores(void *user_data, int64_t frame, float *row, size_t dim)
{
    (void)user_data, (void)frame;
    memset(row, 0, dim * sizeof *row);
    return KOSHI_OK;
}

static inline int64_t two_ready(void *user_data)
{
    (void)user_data;
    return 2;
}

static inline int32_t second_is_last(void *user_data, int64_t frame)
{
    (void)user_data;
    return frame == 1;
}

static inline int32_t one_column(void *user_data)
{
    (void)user_data;
    return 1;
}

static inline void fill_decodable_ops(koshi_decodable_ops *ops)
{
    memset(ops, 0, sizeof *ops);
    ops->struct_size = sizeof *ops;
    ops->log_likelihood = no_score;
    ops->frame_log_likelihoods = no_scores;
    ops->num_frames_ready = two_ready;
    ops->is_last_frame = second_is_last;
    ops->num_indices = one_column;
}

static inline koshi_path *make_path(void)
{
    koshi_lattice *lattice = make_lattice();
    koshi_path *path = NULL;
    MADE(koshi_lattice_best_path(lattice, 1, &path, NULL));
    MADE(koshi_lattice_free(lattice));
    return path;
}

static inline koshi_paths *make_paths(void)
{
    koshi_lattice *lattice = make_lattice();
    koshi_paths *paths = NULL;
    MADE(koshi_lattice_nbest(lattice, 2, 1, &paths, NULL));
    MADE(koshi_lattice_free(lattice));
    return paths;
}

static inline koshi_words *make_words(void)
{
    koshi_lattice *lattice = make_lattice();
    koshi_words *words = NULL;
    MADE(koshi_lattice_words(lattice, NULL, &words, NULL));
    MADE(koshi_lattice_free(lattice));
    return words;
}

static inline koshi_buffer *make_buffer(void)
{
    koshi_lattice *lattice = make_lattice();
    koshi_buffer *buffer = NULL;
    MADE(koshi_lattice_to_memory(lattice, KOSHI_LATTICE_BINARY, &buffer, NULL));
    MADE(koshi_lattice_free(lattice));
    return buffer;
}

static const koshi_label LABELS[2] = {{1, 1}, {0, 1}};
static const uint32_t LABEL_COUNTS[2] = {1, 1};
static const int32_t ALIGNMENT[7] = {2, 1, 4, 6, 8, 10, 9};

static inline void fill_example_parts(koshi_example_parts *parts)
{
    MADE(koshi_example_parts_init(parts, sizeof *parts, NULL));
    parts->labels = LABELS;
    parts->label_counts = LABEL_COUNTS;
    parts->num_frames = 2;
    parts->rows = ZEROS;
    parts->num_rows = 2;
    parts->dim = parts->stride = 3;
    parts->speaker = ZEROS;
    parts->speaker_dim = 1;
}

static inline koshi_example *make_example(void)
{
    koshi_example_parts parts;
    koshi_example *example = NULL;
    fill_example_parts(&parts);
    MADE(koshi_example_new(&parts, &example, NULL));
    return example;
}

static inline void fill_degs_parts(koshi_degs_parts *parts, koshi_lattice *lattice)
{
    MADE(koshi_degs_parts_init(parts, sizeof *parts, NULL));
    parts->alignment = ALIGNMENT;
    parts->num_frames = 7;
    parts->lattice = lattice;
    parts->rows = ZEROS;
    parts->num_rows = 7;
    parts->dim = parts->stride = 3;
    parts->speaker = ZEROS;
    parts->speaker_dim = 1;
}

static inline koshi_degs *make_degs(void)
{
    koshi_degs_parts parts;
    koshi_lattice *lattice = make_lattice();
    koshi_degs *degs = NULL;
    fill_degs_parts(&parts, lattice);
    MADE(koshi_degs_new(&parts, &degs, NULL));
    MADE(koshi_lattice_free(lattice));
    return degs;
}

/* Tables of the folder that the program runs in. */
#define TABLE(kind, verb, specifier)                                                        \
    static inline koshi_##kind *make_##kind(void)                                           \
    {                                                                                       \
        koshi_##kind *made = NULL;                                                          \
        MADE(koshi_##kind##_open(specifier, &made, NULL));                                  \
        return made;                                                                        \
    }
TABLE(matrix_reader, open, "ark:matrices")
TABLE(lattice_reader, open, "ark:lattices")
TABLE(lattice_writer, open, "ark:written_lattices")
TABLE(int_writer, open, "ark:written_integers")

#define EGS_TABLE(name, kind, specifier, holds)                                             \
    static inline koshi_##kind *name(void)                                                  \
    {                                                                                       \
        koshi_##kind *made = NULL;                                                          \
        MADE(koshi_##kind##_open(specifier, holds, &made, NULL));                           \
        return made;                                                                        \
    }
EGS_TABLE(make_egs_reader, egs_reader, "ark:examples", KOSHI_EGS_NNET)
EGS_TABLE(make_egs_table, egs_table, "ark:examples", KOSHI_EGS_NNET)
EGS_TABLE(make_egs_writer, egs_writer, "ark:written_examples", KOSHI_EGS_NNET)
EGS_TABLE(degs_reader, egs_reader, "ark:degs", KOSHI_EGS_DISCRIMINATIVE)
EGS_TABLE(degs_table, egs_table, "ark:degs", KOSHI_EGS_DISCRIMINATIVE)
EGS_TABLE(degs_writer, egs_writer, "ark:written_degs", KOSHI_EGS_DISCRIMINATIVE)

static inline koshi_matrix *make_matrix(void)
{
    koshi_matrix_reader *reader = make_matrix_reader();
    const char *key = NULL;
    koshi_matrix *matrix = NULL;
    MADE(koshi_matrix_reader_next(reader, &key, &matrix, NULL));
    MADE(koshi_matrix_reader_free(reader));
    return matrix;
}

static inline koshi_examples_repository *make_examples_repository(void)
{
    koshi_examples_repository *repository = NULL;
    koshi_example *example = make_example();
    MADE(koshi_examples_repository_new(8, &repository, NULL));
    MADE(koshi_examples_repository_accept(repository, &example, 1, NULL));
    return repository;
}

static inline koshi_status predict(void *user_data, const uint64_t *states_in, const int32_t *labels, size_t n,
                                   uint64_t *states_out, float *outputs)
{
    (void)user_data, (void)labels;
    memcpy(states_out, states_in, n * sizeof *states_in);
    memset(outputs, 0, n * sizeof *outputs);
    return KOSHI_OK;
}

static inline koshi_status predict_words(void *user_data, const uint64_t *states_in, const int32_t *labels, size_t n,
                                         uint64_t *states_out, float *log_probs)
{
    (void)user_data, (void)labels;
    memcpy(states_out, states_in, n * sizeof *states_in);
    memset(log_probs, 0, 3 * n * sizeof *log_probs);
    return KOSHI_OK;
}

static inline koshi_status join(void *user_data, const float *encoder_rows, const float *outputs, size_t n,
                                float *scores)
{
    size_t at;
    (void)user_data, (void)encoder_rows, (void)outputs;
    for (at = 0; at < n; ++at) {
        scores[at * 3] = 2;
        scores[at * 3 + 1] = 1;
        scores[at * 3 + 2] = 0;
    }
    return KOSHI_OK;
}

static inline void release(void *user_data, koshi_transducer_part part, uint64_t state)
{
    (void)user_data, (void)part, (void)state;
}

static inline void fill_transducer_ops(koshi_transducer_ops *ops)
{
    memset(ops, 0, sizeof *ops);
    ops->struct_size = sizeof *ops;
    ops->vocab_size = 3;
    ops->encoder_dim = 2;
    ops->output_dim = 1;
    ops->predict = predict;
    ops->join = join;
    ops->release_state = release;
    ops->lm_predict = predict_words;
}

static inline koshi_transducer *make_transducer(void)
{
    koshi_transducer_ops ops;
    koshi_transducer *transducer = NULL;
    fill_transducer_ops(&ops);
    MADE(koshi_transducer_new(&ops, NULL, NULL, &transducer, NULL));
    return transducer;
}

/* With two rows. */
static inline koshi_transducer_stream *stream_of(koshi_transducer *transducer)
{
    koshi_transducer_stream *stream = NULL;
    MADE(koshi_transducer_stream_new(transducer, NULL, &stream, NULL));
    MADE(koshi_transducer_stream_push(stream, ZEROS, 2, 2, 2, NULL));
    return stream;
}

static inline koshi_transducer_stream *make_transducer_stream(void)
{
    koshi_transducer *transducer = make_transducer();
    koshi_transducer_stream *stream = stream_of(transducer);
    MADE(koshi_transducer_free(transducer));
    return stream;
}

static inline koshi_hypotheses *make_hypotheses(void)
{
    koshi_transducer_stream *stream = make_transducer_stream();
    koshi_hypotheses *list = NULL;
    MADE(koshi_transducer_stream_finish(stream, &list, NULL));
    MADE(koshi_transducer_stream_free(stream));
    return list;
}

static inline void write_file(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(name, "wb");
    CHECK(file != NULL && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

/* Files for all readers, in the folder. */
static inline void write_files(void)
{
    struct bytes loop = loop_bytes(0), den = den_bytes();
    koshi_example *example = make_example();
    koshi_degs *degs = make_degs();
    koshi_egs_writer *writer = NULL;
    char lattices[sizeof LATTICE + 8];
    sprintf(lattices, "a %s", LATTICE);
    write_file("model", MODEL, strlen(MODEL));
    write_file("symbols", SYMBOLS, strlen(SYMBOLS));
    write_file("boundary", BOUNDARY, strlen(BOUNDARY));
    write_file("lexicon", LEXICON, strlen(LEXICON));
    write_file("supervision", SUPERVISION, strlen(SUPERVISION));
    write_file("matrices", MATRICES, strlen(MATRICES));
    write_file("lattices", lattices, strlen(lattices));
    write_file("graph", loop.data, loop.size);
    write_file("den", den.data, den.size);
    MADE(koshi_egs_writer_open("ark:examples", KOSHI_EGS_NNET, &writer, NULL));
    MADE(koshi_egs_writer_write(writer, "a", example, NULL));
    MADE(koshi_egs_writer_free(writer));
    MADE(koshi_egs_writer_open("ark:degs", KOSHI_EGS_DISCRIMINATIVE, &writer, NULL));
    MADE(koshi_egs_writer_write_degs(writer, "a", degs, NULL));
    MADE(koshi_egs_writer_free(writer));
    MADE(koshi_example_free(example));
    MADE(koshi_degs_free(degs));
    free(loop.data);
    free(den.data);
}

static int drops;

static inline void count_drop(void *user_data)
{
    CHECK(user_data == &drops);
    ++drops;
}

static inline void drop_nothing(void *user_data, int32_t level, const char *target, const char *message)
{
    (void)user_data, (void)level, (void)target, (void)message;
}

#define MARK 0xa5

/* Whether all bytes are `value`. */
static inline int all_bytes(const void *data, size_t size, unsigned char value)
{
    const unsigned char *bytes = (const unsigned char *)data;
    size_t at = 0;
    while (at < size && bytes[at] == value)
        ++at;
    return at == size;
}

#endif
