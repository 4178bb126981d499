/* What programs of released versions rely on. The tables of abi/ are held against the header by the compiler; then
 * structs of every age, released ones and such as later headers may have, are given to the library. */

#include <stddef.h>

#include "fst.h"

/* Held by the compiler. C99 has no static assertions. */
#define HOLDS(condition) (void)sizeof(char[(condition) ? 1 : -1])
#define CONSTANT(name, value) HOLDS(name == (value));
#define ENUM(T, size) HOLDS(sizeof(T) == (size));
#define ALIAS(name, T) { name *p = (T *)NULL; (void)p; }
#define POINTER(name, R, P) { R (*p) P = (name)NULL; (void)p; }
#define STRUCT(S) { static S s;
#define FIELD(S, T, f, at) { T *p = &s.f; (void)p; HOLDS(offsetof(S, f) == (at)); }
#define ARRAY(S, T, f, n, at) { T (*p)[n] = &s.f; (void)p; HOLDS(offsetof(S, f) == (at)); }
#define CALLBACK(S, R, f, P, at) { R (*p) P = s.f; (void)p; HOLDS(offsetof(S, f) == (at)); }
#define FIXED(S, size) HOLDS(sizeof(S) == (size)); }
#define ITEM(S, size) HOLDS(sizeof(S) == (size)); }
#define CONFIG(S, size) HOLDS(sizeof(S) >= (size)); }
#define OPS(S, size) CONFIG(S, size)
#define OUT(S, size) CONFIG(S, size)
#define DEFAULT(S, T, f, value)
#define FUNCTION(R, f, P) { R (*p) P = f; (void)p; }

static void declarations(void)
{
#include "abi/0_1.h"
}

/* What structs are given with. */
static koshi_graph *graph;
static koshi_decoder *decoder;
static koshi_channel *channel;
static koshi_lattice *lattice;
static koshi_words *words;
static koshi_transitions *transitions;
static koshi_word_boundary *boundary;
static koshi_den_graph *den;
static koshi_example *example;
static koshi_degs *degs;
static koshi_transducer *transducer;
static koshi_transducer_stream *stream;

static const float ROW[] = {-1};

/* How a struct of `size` bytes is given to the library. */
typedef koshi_status (*use_fn)(void *bytes, size_t size, koshi_error **err);

#define INIT(S)                                                                  \
    static koshi_status init_##S(void *bytes, size_t size, koshi_error **err)    \
    {                                                                            \
        return S##_init((S *)bytes, size, err);                                  \
    }
INIT(koshi_decoder_config)
INIT(koshi_endpoint_config)
INIT(koshi_determinize_config)
INIT(koshi_align_options)
INIT(koshi_words_config)
INIT(koshi_ctm_format)
INIT(koshi_example_parts)
INIT(koshi_degs_parts)
INIT(koshi_transducer_config)
INIT(koshi_chain_config)

#define USE(S) static koshi_status use_##S(void *bytes, size_t size, koshi_error **err)

/* Fields behind the end of an older struct have their defaults: 4096 frames fit in a queue. */
USE(koshi_decoder_config)
{
    static float rows[4097];
    koshi_decoder *made = NULL;
    koshi_status status = koshi_decoder_new(graph, (koshi_decoder_config *)bytes, &made, err);
    (void)size;
    if (status >= 0) {
        koshi_channel *open = open_channel(made);
        CHECK(koshi_channel_submit(open, rows, 4097, 1, 1, NULL) == KOSHI_E_LIMIT);
        CHECK(koshi_channel_submit(open, rows, 4096, 1, 1, NULL) == KOSHI_OK);
        CHECK(koshi_channel_free(open) == KOSHI_OK && koshi_decoder_free(made) == KOSHI_OK);
    }
    return status;
}

USE(koshi_endpoint_config)
{
    static const int32_t silence[] = {1};
    koshi_endpoint_config *config = (koshi_endpoint_config *)bytes;
    (void)size;
    config->silence = KOSHI_SILENCE_ILABELS;
    return koshi_decoder_set_endpoint_rules(decoder, config, silence, 1, err);
}

USE(koshi_determinize_config)
{
    koshi_lattice *made = NULL;
    koshi_status status = koshi_lattice_determinize(lattice, NULL, (koshi_determinize_config *)bytes, &made, NULL, err);
    (void)size;
    CHECK(koshi_lattice_free(made) == KOSHI_OK);
    return status;
}

/* The lattice is of no model, and stays as it was. */
USE(koshi_align_options)
{
    koshi_lattice *made = NULL;
    const koshi_align_options *options = (koshi_align_options *)bytes;
    koshi_status status = koshi_lattice_align_words(lattice, transitions, boundary, options, &made, NULL, err);
    (void)size;
    CHECK(koshi_lattice_free(made) == KOSHI_OK);
    return status == KOSHI_OK_PARTIAL ? KOSHI_OK : status;
}

USE(koshi_words_config)
{
    koshi_words *made = NULL;
    koshi_status status = koshi_lattice_words(lattice, (koshi_words_config *)bytes, &made, err);
    (void)size;
    CHECK(koshi_words_free(made) == KOSHI_OK);
    return status;
}

USE(koshi_ctm_format)
{
    koshi_buffer *made = NULL;
    koshi_status status = koshi_words_to_ctm(words, "key", (koshi_ctm_format *)bytes, NULL, &made, err);
    (void)size;
    CHECK(koshi_buffer_free(made) == KOSHI_OK);
    return status;
}

USE(koshi_example_parts)
{
    koshi_example *made = NULL;
    koshi_status status = koshi_example_new((koshi_example_parts *)bytes, &made, err);
    (void)size;
    CHECK(koshi_example_free(made) == KOSHI_OK);
    return status;
}

USE(koshi_degs_parts)
{
    koshi_degs *made = NULL;
    koshi_status status = koshi_degs_new((koshi_degs_parts *)bytes, &made, err);
    (void)size;
    CHECK(koshi_degs_free(made) == KOSHI_OK);
    return status;
}

USE(koshi_transducer_config)
{
    koshi_transducer_stream *made = NULL;
    koshi_status status = koshi_transducer_stream_new(transducer, (koshi_transducer_config *)bytes, &made, err);
    (void)size;
    CHECK(koshi_transducer_stream_free(made) == KOSHI_OK);
    return status;
}

USE(koshi_chain_config)
{
    const koshi_chain_config *config = (koshi_chain_config *)bytes;
    double logprob = 0;
    (void)size;
    return koshi_chain_denominator(den, config, 1, NULL, ROW, 1, 1, 1, &logprob, 1, NULL, 0, err);
}

static koshi_status log_likelihood(void *user_data, int64_t frame, int32_t index, float *out)
{
    (void)user_data, (void)frame, (void)index;
    *out = -1;
    return KOSHI_OK;
}

static int64_t num_frames_ready(void *user_data)
{
    (void)user_data;
    return 1;
}

static int32_t is_last_frame(void *user_data, int64_t frame)
{
    (void)user_data;
    return frame == 0;
}

static int32_t num_indices(void *user_data)
{
    (void)user_data;
    return 1;
}

static void fill_koshi_decodable_ops(koshi_decodable_ops *ops)
{
    ops->log_likelihood = log_likelihood;
    ops->num_frames_ready = num_frames_ready;
    ops->is_last_frame = is_last_frame;
    ops->num_indices = num_indices;
}

USE(koshi_decodable_ops)
{
    koshi_decodable *made = NULL;
    koshi_status status = koshi_decodable_new((koshi_decodable_ops *)bytes, NULL, NULL, &made, err);
    (void)size;
    CHECK(koshi_decodable_free(made) == KOSHI_OK);
    return status;
}

static void fill_koshi_channel_listener(koshi_channel_listener *listener)
{
    (void)listener; /* all of it may be NULL */
}

USE(koshi_channel_listener)
{
    (void)size;
    return koshi_channel_set_listener(channel, (koshi_channel_listener *)bytes, NULL, NULL, err);
}

static koshi_status predict(void *user_data, const uint64_t *states_in, const int32_t *labels, size_t n,
                            uint64_t *states_out, float *outputs)
{
    size_t at;
    (void)user_data, (void)states_in, (void)labels;
    for (at = 0; at < n; ++at) {
        states_out[at] = 0;
        outputs[at] = 0;
    }
    return KOSHI_OK;
}

static koshi_status join(void *user_data, const float *encoder_rows, const float *outputs, size_t n, float *scores)
{
    (void)user_data, (void)encoder_rows, (void)outputs;
    memset(scores, 0, 2 * n * sizeof scores[0]);
    return KOSHI_OK;
}

static void fill_koshi_transducer_ops(koshi_transducer_ops *ops)
{
    ops->vocab_size = 2;
    ops->encoder_dim = 1;
    ops->output_dim = 1;
    ops->predict = predict;
    ops->join = join;
}

USE(koshi_transducer_ops)
{
    koshi_transducer *made = NULL;
    koshi_status status = koshi_transducer_new((koshi_transducer_ops *)bytes, NULL, NULL, &made, err);
    (void)size;
    CHECK(koshi_transducer_free(made) == KOSHI_OK);
    return status;
}

#define USE_OUT(S, function, object)                                 \
    USE(S)                                                           \
    {                                                                \
        return function(object, (S *)bytes, size, err);              \
    }
USE_OUT(koshi_graph_summary, koshi_graph_info, graph)
USE_OUT(koshi_decoder_summary, koshi_decoder_info, decoder)
USE_OUT(koshi_search_stats, koshi_channel_stats, channel)
USE_OUT(koshi_metrics, koshi_decoder_metrics, decoder)
USE_OUT(koshi_lattice_summary, koshi_lattice_info, lattice)
USE_OUT(koshi_endpoint, koshi_channel_endpoint, channel)
USE_OUT(koshi_example_summary, koshi_example_info, example)
USE_OUT(koshi_degs_summary, koshi_degs_info, degs)
USE_OUT(koshi_transducer_calls, koshi_transducer_call_counts, transducer)
USE_OUT(koshi_cuda_device, koshi_cuda_device_info, 0)

USE(koshi_decoder_item)
{
    koshi_decoder_item *item = (koshi_decoder_item *)bytes;
    item->channel = channel;
    item->rows = ROW;
    item->dim = 1;
    item->stride = 1;
    return koshi_decoder_advance(decoder, item, 1, size, err);
}

USE(koshi_transducer_utterance)
{
    koshi_transducer_utterance *utterance = (koshi_transducer_utterance *)bytes;
    koshi_hypotheses *made = NULL;
    koshi_status status;
    utterance->rows = ROW;
    utterance->dim = 1;
    utterance->stride = 1;
    status = koshi_transducer_search(transducer, NULL, utterance, 1, size, &made, err);
    CHECK(koshi_hypotheses_free(made) == KOSHI_OK);
    return status;
}

USE(koshi_transducer_item)
{
    koshi_transducer_item *item = (koshi_transducer_item *)bytes;
    item->stream = stream;
    item->rows = ROW;
    item->dim = 1;
    item->stride = 1;
    return koshi_transducer_advance(transducer, item, 1, size, err);
}

enum { LONGER = 32 }; /* than today's */

/* Exactly `size` bytes, so that who reads or writes behind them is found out. */
static unsigned char *room(size_t size, int value)
{
    unsigned char *bytes = (unsigned char *)malloc(size);
    CHECK(bytes != NULL);
    memset(bytes, value, size);
    return bytes;
}

static int are(const unsigned char *bytes, size_t from, size_t to, int value)
{
    while (from < to && bytes[from] == value)
        ++from;
    return from >= to;
}

static uint32_t size_told(const unsigned char *bytes)
{
    uint32_t size;
    memcpy(&size, bytes, sizeof size);
    return size;
}

/* Zero in what only a later header knows is fine, and anything else is not. */
static void use_with_tail(unsigned char *bytes, size_t known, size_t size, use_fn use)
{
    koshi_error *err = NULL;
    size_t at;
    CHECK_OK(use(bytes, size, &err), err);
    for (at = known; at < size; ++at) {
        bytes[at] = 0x80;
        CHECK_STATUS(KOSHI_E_UNSUPPORTED, use(bytes, size, &err), err);
        bytes[at] = 0;
    }
}

static void config_ages(size_t released, size_t known, use_fn init, use_fn use)
{
    koshi_error *err = NULL;
    size_t size;
    for (size = 4; size <= known + LONGER; size += 4) {
        unsigned char *bytes = room(size, 0xa5);
        koshi_status status = init(bytes, size, &err);
        if (status == KOSHI_OK) {
            CHECK(size_told(bytes) == size && are(bytes, known, size, 0));
            use_with_tail(bytes, known, size, use);
        } else {
            CHECK(size < released || size % 8 != 0);
            CHECK(are(bytes, 0, size, 0xa5));
            CHECK_STATUS(KOSHI_E_ARGUMENT, status, err);
        }
        free(bytes);
    }
}

/* `filled` is one of today's. */
static void ops_ages(size_t released, size_t known, const void *filled, use_fn use)
{
    koshi_error *err = NULL;
    size_t size;
    for (size = 8; size <= known + LONGER; size += 8) {
        unsigned char *bytes = room(size, 0);
        uint32_t told = (uint32_t)size;
        memcpy(bytes, filled, size < known ? size : known);
        memcpy(bytes, &told, sizeof told);
        if (size >= released)
            use_with_tail(bytes, known, size, use);
        else
            CHECK_STATUS(KOSHI_E_ARGUMENT, use(bytes, size, &err), err);
        free(bytes);
    }
}

static void out_ages(size_t released, size_t known, use_fn use)
{
    koshi_error *err = NULL;
    size_t size;
    for (size = 4; size <= known + LONGER; size += 4) {
        unsigned char *bytes = room(size, 0xa5);
        koshi_status status = use(bytes, size, &err);
        if (status == KOSHI_OK) {
            CHECK(size_told(bytes) == (size < known ? size : known) && are(bytes, known, size, 0));
        } else if (size >= released && size % 8 == 0) {
            /* Of all these structs only that of a GPU may have nothing to say. */
            CHECK(status == KOSHI_E_NO_DEVICE && use == use_koshi_cuda_device && koshi_cuda_device_count() == 0);
            CHECK(koshi_error_free(err) == KOSHI_OK && are(bytes, 0, size, 0xa5));
            err = NULL;
        } else {
            CHECK(are(bytes, 0, size, 0xa5));
            CHECK_STATUS(KOSHI_E_ARGUMENT, status, err);
        }
        free(bytes);
    }
}

static void item_ages(size_t released, size_t known, use_fn use)
{
    koshi_error *err = NULL;
    size_t size;
    for (size = released; size <= known + LONGER; size += 8) {
        unsigned char *bytes = room(size, 0);
        use_with_tail(bytes, known, size, use);
        CHECK_STATUS(KOSHI_E_ARGUMENT, use(bytes, released - 8, &err), err);
        free(bytes);
    }
}

/* Run. */
#undef CONSTANT
#undef ENUM
#undef ALIAS
#undef POINTER
#undef STRUCT
#undef FIELD
#undef ARRAY
#undef CALLBACK
#undef FIXED
#undef ITEM
#undef CONFIG
#undef OPS
#undef OUT
#undef DEFAULT
#undef FUNCTION
#define CONSTANT(name, value)
#define ENUM(T, size)
#define ALIAS(name, T)
#define POINTER(name, R, P)
#define STRUCT(S)
#define FIELD(S, T, f, at)
#define ARRAY(S, T, f, n, at)
#define CALLBACK(S, R, f, P, at)
#define FIXED(S, size)
#define ITEM(S, size) item_ages(size, sizeof(S), use_##S);
#define CONFIG(S, size)                                      \
    enum { released_##S = size };                            \
    config_ages(size, sizeof(S), init_##S, use_##S);
#define OPS(S, size)                                         \
    {                                                        \
        S filled;                                            \
        memset(&filled, 0, sizeof filled);                   \
        fill_##S(&filled);                                   \
        ops_ages(size, sizeof(S), &filled, use_##S);         \
    }
#define OUT(S, size) out_ages(size, sizeof(S), use_##S);
/* An older program gets the defaults that it knows. */
#define DEFAULT(S, T, f, value)                              \
    {                                                        \
        S config;                                            \
        CHECK(init_##S(&config, released_##S, NULL) == KOSHI_OK); \
        CHECK(config.f == (T)(value));                       \
    }
#define FUNCTION(R, f, P)

static void ages(void)
{
    {
#include "abi/0_1.h"
    }
}

static void versions(void)
{
    char text[32];
    const unsigned number = KOSHI_VERSION_MAJOR * 1000000u + KOSHI_VERSION_MINOR * 1000u + KOSHI_VERSION_PATCH;
    CHECK(koshi_version() == number);
    snprintf(text, sizeof text, "%d.%d.%d", KOSHI_VERSION_MAJOR, KOSHI_VERSION_MINOR, KOSHI_VERSION_PATCH);
    CHECK(strcmp(koshi_version_string(), text) == 0);
}

static void make_objects(void)
{
    static const float finals[] = {0};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0.5f, 0}};
    const char *const model = "examples/data/prompts/trans.mdl";
    struct bytes file = fst_bytes(0, 1, finals, arcs, 1);
    koshi_error *err = NULL;
    koshi_transducer_ops ops;
    koshi_example_parts parts;
    koshi_degs_parts degs_parts;
    graph = graph_a();
    CHECK_OK(koshi_decoder_new(graph, NULL, &decoder, &err), err);
    channel = open_channel(decoder);
    push(channel, ROW, 1, 1);
    lattice = lattice_of(channel);
    CHECK_OK(koshi_lattice_words(lattice, NULL, &words, &err), err);
    CHECK_OK(koshi_transitions_read(model, &transitions, &err), err);
    CHECK_OK(koshi_word_boundary_from_memory((const uint8_t *)"1 nonword\n", 10, &boundary, &err), err);
    CHECK_OK(koshi_den_graph_from_memory(file.data, file.size, 1, &den, &err), err);
    free(file.data);
    CHECK_OK(koshi_example_parts_init(&parts, sizeof parts, &err), err);
    CHECK_OK(koshi_example_new(&parts, &example, &err), err);
    CHECK_OK(koshi_degs_parts_init(&degs_parts, sizeof degs_parts, &err), err);
    CHECK_OK(koshi_degs_new(&degs_parts, &degs, &err), err);
    memset(&ops, 0, sizeof ops);
    ops.struct_size = sizeof ops;
    fill_koshi_transducer_ops(&ops);
    CHECK_OK(koshi_transducer_new(&ops, NULL, NULL, &transducer, &err), err);
    CHECK_OK(koshi_transducer_stream_new(transducer, NULL, &stream, &err), err);
}

static void free_objects(void)
{
    CHECK(koshi_transducer_stream_free(stream) == KOSHI_OK && koshi_transducer_free(transducer) == KOSHI_OK);
    CHECK(koshi_degs_free(degs) == KOSHI_OK && koshi_example_free(example) == KOSHI_OK);
    CHECK(koshi_den_graph_free(den) == KOSHI_OK && koshi_word_boundary_free(boundary) == KOSHI_OK);
    CHECK(koshi_transitions_free(transitions) == KOSHI_OK && koshi_words_free(words) == KOSHI_OK);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_channel_free(channel) == KOSHI_OK);
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK && koshi_graph_free(graph) == KOSHI_OK);
}

int main(void)
{
    versions();
    declarations();
    make_objects();
    ages();
    free_objects();
    return 0;
}
