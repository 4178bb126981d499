/* The chain objective: held to values worked out by hand and to finite differences; every status that its functions
 * answer; structs of other ages; matrices that do not fit; one graph in many threads. */

#include <pthread.h>

#include "fst.h"

enum { SEQUENCES = 2, FRAMES = 2, ROWS = SEQUENCES * FRAMES, PDFS = 2, STRIDE = 3, THREADS = 8 };

static const double LEAK = 0.1;

/* Two sequences of two frames, weight 0.5: pdf 0, pdf 1; then pdf 0 or pdf 1, pdf 1. */
static const char SAID[] =
    "<Supervision> <Weight> 0.5 <NumSequences> 2 <FramesPerSeq> 2 <LabelDim> 2 <End2End> F \n"
    "0 1 1 1 0.5\n1 2 2 2\n2 3 1 1\n2 3 2 2 1\n3 4 2 2\n4 0.25\n\n</Supervision> ";

/* Row frame * SEQUENCES + sequence. What lies between rows is never looked at. */
static const float OUTPUT[ROWS * STRIDE] = {0.5f, -1, 1e30f, 2, 0.25f, 1e30f, -0.75f, 1.5f, 1e30f, 0, 1, 1e30f};

/* What a call gives. Rows of the first derivative begin STRIDE apart. */
struct result {
    double objf, l2, weight;
    float deriv[ROWS * STRIDE], xent[ROWS * PDFS];
};

static koshi_den_graph *graph_of(const struct fst_arc *arcs, int num_arcs, int num_states)
{
    static const float finals[2] = {INFINITY, INFINITY};
    struct bytes file = fst_bytes(0, num_states, finals, arcs, num_arcs);
    koshi_den_graph *graph = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_den_graph_from_memory(file.data, file.size, PDFS, &graph, &err), err);
    free(file.data);
    return graph;
}

/* One state with a loop for each pdf, of probability 1/2 and 1/4. */
static koshi_den_graph *one_state(void)
{
    const struct fst_arc arcs[2] = {{0, 1, 1, logf(2), 0}, {0, 2, 2, logf(4), 0}};
    return graph_of(arcs, 2, 1);
}

static koshi_den_graph *two_states(void)
{
    const struct fst_arc arcs[4] = {{0, 1, 1, 0.5f, 0}, {0, 2, 2, 1, 1}, {1, 2, 2, 0.75f, 1}, {1, 1, 1, 1.25f, 0}};
    return graph_of(arcs, 4, 2);
}

static koshi_supervision *said(const char *text)
{
    koshi_supervision *supervision = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_supervision_from_memory((const uint8_t *)text, strlen(text), &supervision, &err), err);
    return supervision;
}

static koshi_chain_config options(void)
{
    koshi_chain_config config;
    koshi_error *err = NULL;
    CHECK_OK(koshi_chain_config_init(&config, sizeof config, &err), err);
    config.backend = KOSHI_BACKEND_CPU;
    config.num_threads = 1;
    config.leaky_hmm_coefficient = (float)LEAK;
    return config;
}

static koshi_status objf(const koshi_den_graph *graph, const koshi_supervision *supervision,
                         const koshi_chain_config *config, const float *output, struct result *result,
                         koshi_error **err)
{
    size_t at;
    for (at = 0; at < ROWS * STRIDE; ++at)
        result->deriv[at] = 7;
    for (at = 0; at < ROWS * PDFS; ++at)
        result->xent[at] = NAN;
    return koshi_chain_objf(graph, supervision, config, output, ROWS, PDFS, STRIDE, &result->objf, &result->l2,
                            &result->weight, result->deriv, STRIDE, result->xent, PDFS, err);
}

/* In C++, exp of a float is a float. */
static double exponential(double power)
{
    return exp(power);
}

static int near(double found, double expected, double allowed)
{
    return fabs(found - expected) <= allowed;
}

/* By hand: a frame of the one-state graph is worth e^y0 / 2 + e^y1 / 4, and each leak, before, between and behind
 * the frames, multiplies by 1 + LEAK. */
static void values_by_hand(void)
{
    koshi_den_graph *graph = one_state();
    koshi_supervision *supervision = said(SAID);
    koshi_chain_config config = options();
    koshi_error *err = NULL;
    struct result result;
    double den = SEQUENCES * (FRAMES + 1) * log(1 + LEAK), num, value;
    const float *rows = OUTPUT;
    float deriv[ROWS * PDFS];
    size_t row, len;
    CHECK(koshi_den_graph_num_states(graph) == 1 && koshi_den_graph_num_pdfs(graph) == PDFS);
    CHECK(koshi_den_graph_initial_probs(graph, &len)[0] == 1 && len == 1);
    CHECK(koshi_supervision_num_sequences(supervision) == SEQUENCES && koshi_supervision_num_pdfs(supervision) == PDFS);
    CHECK(koshi_supervision_frames_per_sequence(supervision) == FRAMES && koshi_supervision_weight(supervision) == 0.5f);
    CHECK(koshi_supervision_is_end_to_end(supervision) == 0);
    for (row = 0; row < ROWS; ++row)
        den += log(exponential(rows[row * STRIDE]) / 2 + exponential(rows[row * STRIDE + 1]) / 4);
    /* Sequence 0 has rows 0 and 2, sequence 1 rows 1 and 3. */
    num = -0.5 + rows[0] + rows[2 * STRIDE + 1];
    num += log(exponential(rows[STRIDE]) + exponential(rows[STRIDE + 1] - 1.0)) + rows[3 * STRIDE + 1] - 0.25;

    config.l2_regularize = 0.3f;
    CHECK_OK(objf(graph, supervision, &config, OUTPUT, &result, &err), err);
    CHECK(near(result.objf, 0.5 * (num - den), 1e-5) && result.weight == 0.5 * ROWS);
    for (row = 0, value = 0; row < ROWS * STRIDE; ++row)
        value += row % STRIDE < PDFS ? rows[row] * rows[row] : 0;
    CHECK(near(result.l2, -0.5 * 0.5 * (double)0.3f * value, 1e-6));
    CHECK(near(result.xent[0], 0.5, 1e-6) && result.xent[1] == 0);
    value = exponential(rows[STRIDE]) / (exponential(rows[STRIDE]) + exponential(rows[STRIDE + 1] - 1.0));
    CHECK(near(result.xent[2], 0.5 * value, 1e-6) && near(result.xent[3], 0.5 * (1 - value), 1e-6));

    CHECK_OK(koshi_chain_numerator(supervision, OUTPUT, ROWS, PDFS, STRIDE, &value, NULL, 0, &err), err);
    CHECK(near(value, 0.5 * num, 1e-9));
    for (row = 0; row < ROWS * PDFS; ++row)
        deriv[row] = 1;
    CHECK_OK(koshi_chain_denominator(graph, &config, SEQUENCES, NULL, OUTPUT, ROWS, PDFS, STRIDE, &value, -2, deriv,
                                     PDFS, &err), err);
    CHECK(near(value, den, 1e-5));
    value = exponential(rows[0]) / 2 / (exponential(rows[0]) / 2 + exponential(rows[1]) / 4);
    CHECK(near(deriv[0], 1 - 2 * value, 1e-6) && near(deriv[1], 1 - 2 * (1 - value), 1e-6));

    /* One frame of the first sequence, none of the other. */
    {
        const uint32_t lengths[SEQUENCES] = {1, 0};
        for (row = 0; row < ROWS * PDFS; ++row)
            deriv[row] = 1;
        CHECK_OK(koshi_chain_denominator(graph, &config, SEQUENCES, lengths, OUTPUT, ROWS, PDFS, STRIDE, &value, 1,
                                         deriv, PDFS, &err), err);
        CHECK(near(value, log(exponential(rows[0]) / 2 + exponential(rows[1]) / 4) + 3 * log(1 + LEAK), 1e-6));
        CHECK(near(deriv[0] + deriv[1], 3, 1e-6));
        for (row = PDFS; row < ROWS * PDFS; ++row)
            CHECK(deriv[row] == 1);
    }
    CHECK(koshi_den_graph_free(graph) == KOSHI_OK && koshi_supervision_free(supervision) == KOSHI_OK);
}

static void finite_differences(void)
{
    koshi_den_graph *graph = two_states();
    koshi_supervision *supervision = said(SAID);
    koshi_chain_config config = options();
    koshi_error *err = NULL;
    struct result result, moved[2];
    size_t at, way;
    config.l2_regularize = 0.3f;
    CHECK_OK(objf(graph, supervision, &config, OUTPUT, &result, &err), err);
    for (at = 0; at < ROWS * STRIDE; ++at) {
        float output[ROWS * STRIDE];
        double slope;
        if (at % STRIDE >= PDFS) {
            CHECK(result.deriv[at] == 7);
            continue;
        }
        memcpy(output, OUTPUT, sizeof output);
        for (way = 0; way < 2; ++way) {
            output[at] = OUTPUT[at] + (way ? 0.015625f : -0.015625f);
            CHECK_OK(objf(graph, supervision, &config, output, &moved[way], &err), err);
        }
        slope = (moved[1].objf + moved[1].l2 - moved[0].objf - moved[0].l2) / 0.03125;
        CHECK(near(result.deriv[at], slope, 1e-3 * fmax(fabs(slope), 0.1)));
    }
    CHECK(koshi_den_graph_free(graph) == KOSHI_OK && koshi_supervision_free(supervision) == KOSHI_OK);
}

/* What has no objective: -10 a frame, and a derivative of the l2 term alone. */
static void fallback(void)
{
    koshi_den_graph *graph = two_states();
    koshi_supervision *supervision = said(SAID);
    koshi_chain_config config = options();
    koshi_error *err = NULL;
    struct result result;
    float output[ROWS * STRIDE], deriv[ROWS * PDFS];
    double value;
    size_t at;
    memcpy(output, OUTPUT, sizeof output);
    output[0] = NAN;
    output[1] = 40;
    config.l2_regularize = 0.5f;
    CHECK_STATUS(KOSHI_OK_PARTIAL, objf(graph, supervision, &config, output, &result, &err), err);
    CHECK(result.objf == -10 * result.weight && result.weight == 2);
    CHECK(result.deriv[0] == 0 && result.deriv[1] == -0.25f * 40);
    for (at = 0; at < ROWS * PDFS; ++at)
        CHECK(result.xent[at] == 0);
    for (at = 0; at < ROWS * PDFS; ++at)
        deriv[at] = 3;
    CHECK_STATUS(KOSHI_OK_PARTIAL,
                 koshi_chain_numerator(supervision, output, ROWS, PDFS, STRIDE, &value, deriv, PDFS, &err), err);
    CHECK(value == -20);
    for (at = 0; at < ROWS * PDFS; ++at)
        CHECK(deriv[at] == 3);
    /* Enormous numbers in what was said: occupancies are still at most 1. */
    for (at = 0; at < ROWS * STRIDE; ++at)
        output[at] = (at % 2 ? -1e30f : 1e31f) / (float)(at + 3);
    memset(deriv, 0, sizeof deriv);
    CHECK_OK(koshi_chain_numerator(supervision, output, ROWS, PDFS, STRIDE, &value, deriv, PDFS, &err), err);
    for (at = 0; at < ROWS * PDFS; ++at)
        CHECK(deriv[at] >= 0 && deriv[at] <= 0.5f);
    /* A difference of 10 beyond 30, at a scale of 0.5. */
    output[0] = 40;
    output[1] = NAN;
    deriv[0] = deriv[1] = 1;
    CHECK_OK(koshi_chain_penalize_out_of_range(30, 0.5f, output, 1, PDFS, PDFS, deriv, PDFS, &err), err);
    CHECK(deriv[0] == 1 - 5 && deriv[1] == 1);
    CHECK(koshi_den_graph_free(graph) == KOSHI_OK && koshi_supervision_free(supervision) == KOSHI_OK);
}

/* The options as a later header may have them. */
struct newer_config {
    koshi_chain_config known;
    uint64_t unknown;
};

static void ages_of_the_options(void)
{
    koshi_den_graph *graph = one_state();
    koshi_supervision *supervision = said(SAID);
    koshi_chain_config config = options();
    koshi_error *err = NULL;
    struct newer_config newer;
    struct result result, other;
    CHECK_OK(objf(graph, supervision, &config, OUTPUT, &result, &err), err);
    /* The first version ended before `memory`. */
    config.struct_size = offsetof(koshi_chain_config, memory);
    config.memory = 77;
    config.randomised_thresholds = 77;
    CHECK_OK(objf(graph, supervision, &config, OUTPUT, &other, &err), err);
    CHECK(other.objf == result.objf && memcmp(other.deriv, result.deriv, sizeof result.deriv) == 0);
    config.struct_size = sizeof config;
    CHECK_STATUS(KOSHI_E_CONFIG, objf(graph, supervision, &config, OUTPUT, &other, &err), err);
    config.struct_size = offsetof(koshi_chain_config, memory) - 8;
    CHECK_STATUS(KOSHI_E_ARGUMENT, objf(graph, supervision, &config, OUTPUT, &other, &err), err);
    memset(&newer, 0xff, sizeof newer);
    CHECK_OK(koshi_chain_config_init(&newer.known, sizeof newer, &err), err);
    CHECK(newer.unknown == 0 && newer.known.struct_size == sizeof newer);
    newer.known.backend = KOSHI_BACKEND_CPU;
    newer.known.leaky_hmm_coefficient = (float)LEAK;
    CHECK_OK(objf(graph, supervision, &newer.known, OUTPUT, &other, &err), err);
    CHECK(other.objf == result.objf);
    newer.unknown = 1;
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, objf(graph, supervision, &newer.known, OUTPUT, &other, &err), err);
    CHECK(koshi_den_graph_free(graph) == KOSHI_OK && koshi_supervision_free(supervision) == KOSHI_OK);
}

static void options_that_are_refused(void)
{
    koshi_den_graph *graph = one_state();
    koshi_supervision *supervision = said(SAID);
    koshi_chain_config config = options();
    koshi_error *err = NULL;
    struct result result;
    float weights[ROWS + 1] = {1, 1, 1, 1, 1};
    config.leaky_hmm_coefficient = 1;
    CHECK_STATUS(KOSHI_E_CONFIG, objf(graph, supervision, &config, OUTPUT, &result, &err), err);
    config = options();
    config.backend = 9;
    CHECK_STATUS(KOSHI_E_CONFIG, objf(graph, supervision, &config, OUTPUT, &result, &err), err);
    config = options();
    config.reserved = 1;
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, objf(graph, supervision, &config, OUTPUT, &result, &err), err);
    config = options();
    config.memory = KOSHI_MEMORY_DEVICE; /* which the CPU does not read */
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, objf(graph, supervision, &config, OUTPUT, &result, &err), err);
    config = options();
    config.backend = KOSHI_BACKEND_CUDA;
    config.device = 99;
    CHECK_STATUS(KOSHI_E_NO_DEVICE, objf(graph, supervision, &config, OUTPUT, &result, &err), err);
    config = options();
    config.deriv_weights = weights;
    for (config.num_deriv_weights = 0; config.num_deriv_weights <= ROWS + 1; ++config.num_deriv_weights) {
        koshi_status wanted = config.num_deriv_weights == ROWS ? KOSHI_OK : KOSHI_E_SHAPE;
        CHECK_STATUS(wanted, objf(graph, supervision, &config, OUTPUT, &result, &err), err);
    }
    config.deriv_weights = NULL;
    config.num_deriv_weights = ROWS;
    CHECK_STATUS(KOSHI_E_ARGUMENT, objf(graph, supervision, &config, OUTPUT, &result, &err), err);
    config.num_deriv_weights = UINT64_MAX;
    config.deriv_weights = weights;
    CHECK_STATUS(KOSHI_E_ARGUMENT, objf(graph, supervision, &config, OUTPUT, &result, &err), err);
    config.num_deriv_weights = ROWS;
    weights[1] = -2; /* any finite number will do */
    CHECK_OK(objf(graph, supervision, &config, OUTPUT, &result, &err), err);
    weights[1] = NAN;
    CHECK_STATUS(KOSHI_E_ARGUMENT, objf(graph, supervision, &config, OUTPUT, &result, &err), err);
    CHECK(koshi_den_graph_free(graph) == KOSHI_OK && koshi_supervision_free(supervision) == KOSHI_OK);
}

static void matrices_that_are_refused(void)
{
    static const struct {
        size_t rows, cols, stride;
    } shapes[] = {{0, 2, 3}, {4, 0, 3}, {4, 2, 1}, {4, 1, 3}, {4, 3, 3}, {3, 2, 3}, {8, 2, 3}, {SIZE_MAX, 2, 2},
                  {2, SIZE_MAX, SIZE_MAX}, {SIZE_MAX / 4, 2, 4}, {2, 2, SIZE_MAX / 4}};
    koshi_den_graph *graph = one_state();
    koshi_supervision *supervision = said(SAID);
    koshi_chain_config config = options();
    koshi_error *err = NULL;
    float numbers[64], other[64];
    float *odd = (float *)((char *)numbers + 1);
    double value = -1;
    const uint32_t lengths[SEQUENCES] = {FRAMES, FRAMES + 1};
    size_t at;
    memset(numbers, 0, sizeof numbers);
    memset(other, 0, sizeof other);
    for (at = 0; at < sizeof shapes / sizeof *shapes; ++at) {
        size_t rows = shapes[at].rows, cols = shapes[at].cols, stride = shapes[at].stride;
        CHECK_STATUS(KOSHI_E_SHAPE, koshi_chain_objf(graph, supervision, &config, numbers, rows, cols, stride, &value,
                                                     NULL, NULL, NULL, 0, NULL, 0, &err), err);
        CHECK_STATUS(KOSHI_E_SHAPE,
                     koshi_chain_numerator(supervision, numbers, rows, cols, stride, &value, NULL, 0, &err), err);
    }
    /* Derivatives: NULL is none, a short stride, an odd place, one that lies in another matrix. */
    CHECK_OK(koshi_chain_objf(graph, supervision, &config, numbers, 4, 2, 2, NULL, NULL, NULL, NULL, 0, NULL, 0, &err),
             err);
    CHECK_STATUS(KOSHI_E_SHAPE, koshi_chain_objf(graph, supervision, &config, numbers, 4, 2, 2, &value, NULL, NULL,
                                                 other, 1, NULL, 0, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_chain_objf(graph, supervision, &config, odd, 4, 2, 2, &value, NULL, NULL,
                                                    NULL, 0, NULL, 0, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_chain_objf(graph, supervision, &config, NULL, 4, 2, 2, &value, NULL, NULL,
                                                    NULL, 0, NULL, 0, &err), err);
    for (at = 0; at < 2; ++at) {
        CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_chain_objf(graph, supervision, &config, numbers, 4, 2, 2, &value, NULL,
                                                        NULL, numbers + 7 * at, 2, NULL, 0, &err), err);
        CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_chain_objf(graph, supervision, &config, numbers, 4, 2, 2, &value, NULL,
                                                        NULL, other, 2, other + 7 * at, 2, &err), err);
    }
    CHECK_OK(koshi_chain_objf(graph, supervision, &config, numbers, 4, 2, 2, &value, NULL, NULL, numbers + 8, 2,
                              numbers + 16, 2, &err), err);
    value = -1;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_chain_denominator(graph, &config, 2, NULL, other, 4, 2, 2, NULL, 1, NULL, 0,
                                                           &err), err);
    CHECK_STATUS(KOSHI_E_SHAPE, koshi_chain_denominator(graph, &config, 0, lengths, other, 4, 2, 2, &value, 1, NULL,
                                                        0, &err), err);
    CHECK_STATUS(KOSHI_E_SHAPE, koshi_chain_denominator(graph, &config, SIZE_MAX, lengths, other, 4, 2, 2, &value, 1,
                                                        NULL, 0, &err), err);
    CHECK_STATUS(KOSHI_E_SHAPE, koshi_chain_denominator(graph, &config, 2, lengths, other, 4, 2, 2, &value, 1, NULL,
                                                        0, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT,
                 koshi_chain_denominator(graph, &config, 2, NULL, other, 4, 2, 2, &value, NAN, numbers, 2, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_chain_penalize_out_of_range(30, 1, other, 4, 2, 2, NULL, 2, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_chain_penalize_out_of_range(-1, 1, other, 4, 2, 2, numbers, 2, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_chain_penalize_out_of_range(30, NAN, other, 4, 2, 2, numbers, 2, &err), err);
    CHECK(value == -1); /* nothing is written on failure */
    CHECK(koshi_den_graph_free(graph) == KOSHI_OK && koshi_supervision_free(supervision) == KOSHI_OK);
}

static void graphs_that_are_refused(void)
{
    static const struct fst_arc arcs[] = {{0, 0, 0, 0, 0}, {0, 3, 3, 0, 0}, {0, 1, 1, 0, 7}, {0, 1, 1, NAN, 0},
                                          {0, -1, -1, 0, 0}};
    static const float final = INFINITY;
    koshi_den_graph *graph = NULL;
    koshi_error *err = NULL;
    size_t at, size;
    struct bytes file;
    for (at = 0; at < sizeof arcs / sizeof *arcs; ++at) {
        file = fst_bytes(0, 1, &final, &arcs[at], 1);
        CHECK_STATUS(at == 1 ? KOSHI_E_SHAPE : KOSHI_E_GRAPH,
                     koshi_den_graph_from_memory(file.data, file.size, PDFS, &graph, &err), err);
        free(file.data);
    }
    file = fst_bytes(0, 1, &final, &arcs[1], 1);
    CHECK_STATUS(KOSHI_E_SHAPE, koshi_den_graph_from_memory(file.data, file.size, 0, &graph, &err), err);
    for (size = 0; size < file.size; ++size)
        CHECK_STATUS(KOSHI_E_FORMAT, koshi_den_graph_from_memory(file.data, size, 3, &graph, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_den_graph_from_memory(NULL, 5, 3, &graph, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_den_graph_from_memory(file.data, file.size, 3, NULL, &err), err);
    CHECK_STATUS(KOSHI_E_IO, koshi_den_graph_read("/nowhere/den.fst", PDFS, &graph, &err), err);
    CHECK(graph == NULL);
    CHECK_OK(koshi_den_graph_from_memory(file.data, file.size, 3, &graph, &err), err);
    CHECK(koshi_den_graph_ref(graph) == graph && koshi_den_graph_free(graph) == KOSHI_OK);
    CHECK(koshi_den_graph_num_pdfs(graph) == 3 && koshi_den_graph_free(graph) == KOSHI_OK);
    CHECK(koshi_den_graph_num_pdfs(graph) == -1 && koshi_den_graph_num_states(NULL) == -1);
    CHECK(koshi_den_graph_initial_probs(graph, &size) == NULL && size == 0);
    CHECK(koshi_den_graph_ref(graph) == NULL && koshi_den_graph_free(graph) == KOSHI_E_HANDLE);
    CHECK(koshi_den_graph_free(NULL) == KOSHI_OK);
    free(file.data);
}

/* The text of a supervision of `n` sequences of 1 frame. */
static koshi_status read_said(const char *weight, int n, const char *fst, koshi_error **err)
{
    char text[512];
    koshi_supervision *supervision = NULL;
    koshi_status status;
    snprintf(text, sizeof text,
             "<Supervision> <Weight> %s <NumSequences> %d <FramesPerSeq> 1 <LabelDim> 2 <End2End> F \n%s\n"
             "</Supervision> ", weight, n, fst);
    status = koshi_supervision_from_memory((const uint8_t *)text, strlen(text), &supervision, err);
    CHECK((supervision != NULL) == (status == KOSHI_OK));
    CHECK(koshi_supervision_free(supervision) == KOSHI_OK);
    return status;
}

static void supervisions(void)
{
    static const char *const bad[] = {
        "0 1 0 0\n1\n",              /* an epsilon */
        "0 1 3 3\n1\n",              /* a label beyond the pdfs */
        "0 1 1 1\n",                 /* nothing final */
        "0 1 1 1\n2 1 1 1\n1\n",     /* a state that is not reached */
        "0 1 1 1\n1 1 1 1\n1\n",     /* a cycle */
        "0 1 1 1\n1 2 1 1\n1\n",     /* arcs behind the last frame */
        "1 0 1 1\n0\n",              /* another start */
    };
    koshi_supervision *one = said(SAID), *merged = NULL, *again = NULL;
    const koshi_supervision *parts[3];
    koshi_chain_config config = options();
    koshi_den_graph *graph = two_states();
    koshi_buffer *buffer = NULL;
    koshi_error *err = NULL;
    struct result result, other;
    size_t at, len;
    int binary;
    CHECK_OK(read_said("1", 1, "0 1 1 1\n1\n", &err), err);
    for (at = 0; at < sizeof bad / sizeof *bad; ++at)
        CHECK_STATUS(KOSHI_E_GRAPH, read_said("1", 1, bad[at], &err), err);
    CHECK_STATUS(KOSHI_E_SHAPE, read_said("1", 2, "0 1 1 1\n1\n", &err), err);
    CHECK_STATUS(KOSHI_E_FORMAT, read_said("1", 0, "0 1 1 1\n1\n", &err), err);
    CHECK_STATUS(KOSHI_E_FORMAT, read_said("0", 1, "0 1 1 1\n1\n", &err), err);
    CHECK_STATUS(KOSHI_E_FORMAT, read_said("-1", 1, "0 1 1 1\n1\n", &err), err);
    CHECK_STATUS(KOSHI_E_FORMAT, read_said("nan", 1, "0 1 1 1\n1\n", &err), err);
    CHECK_STATUS(KOSHI_E_IO, koshi_supervision_read("/nowhere/said", &merged, &err), err);

    parts[0] = one;
    parts[1] = one;
    parts[2] = one;
    CHECK_OK(koshi_supervision_merge(parts, 3, &merged, &err), err);
    CHECK(koshi_supervision_num_sequences(merged) == 3 * SEQUENCES);
    CHECK_STATUS(KOSHI_E_SHAPE, objf(graph, merged, &config, OUTPUT, &result, &err), err);
    CHECK(koshi_supervision_free(merged) == KOSHI_OK);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_supervision_merge(parts, 0, &merged, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_supervision_merge(NULL, 2, &merged, &err), err);
    parts[1] = NULL;
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_supervision_merge(parts, 3, &merged, &err), err);
    merged = said("<Supervision> <Weight> 1 <NumSequences> 1 <FramesPerSeq> 2 <LabelDim> 2 <End2End> F \n"
                  "0 1 1 1\n1 2 2 2\n2\n\n<AlignmentPdfs> [ 0 1 ]\n</Supervision> ");
    parts[1] = merged;
    CHECK_STATUS(KOSHI_E_SHAPE, koshi_supervision_merge(parts, 2, &again, &err), err); /* weights 0.5 and 1 */
    parts[0] = merged;
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, koshi_supervision_merge(parts, 2, &again, &err), err);
    CHECK(koshi_supervision_free(merged) == KOSHI_OK);

    CHECK_OK(objf(graph, one, &config, OUTPUT, &result, &err), err);
    for (binary = 0; binary < 2; ++binary) {
        const uint8_t *data;
        CHECK_OK(koshi_supervision_to_memory(one, binary, &buffer, &err), err);
        data = koshi_buffer_data(buffer);
        len = koshi_buffer_size(buffer);
        CHECK_OK(koshi_supervision_from_memory(data, len, &again, &err), err);
        CHECK(koshi_buffer_free(buffer) == KOSHI_OK);
        CHECK_OK(objf(graph, again, &config, OUTPUT, &other, &err), err);
        CHECK(other.objf == result.objf && koshi_supervision_free(again) == KOSHI_OK);
    }
    CHECK_STATUS(KOSHI_E_HANDLE, objf(graph, again, &config, OUTPUT, &other, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, objf(NULL, one, &config, OUTPUT, &other, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, objf((koshi_den_graph *)one, one, &config, OUTPUT, &other, &err), err);
    CHECK(koshi_den_graph_free(graph) == KOSHI_OK && koshi_supervision_free(one) == KOSHI_OK);
}

struct job {
    pthread_t thread;
    const koshi_den_graph *graph;
    const koshi_supervision *supervision;
    const struct result *expected;
    uint32_t num_threads;
};

static void *work(void *argument)
{
    const struct job *job = (const struct job *)argument;
    koshi_chain_config config = options();
    koshi_error *err = NULL;
    struct result result;
    int round, rounds = under_valgrind() ? 2 : 20;
    config.num_threads = job->num_threads;
    for (round = 0; round < rounds; ++round) {
        CHECK_OK(objf(job->graph, job->supervision, &config, OUTPUT, &result, &err), err);
        CHECK(result.objf == job->expected->objf);
        CHECK(memcmp(result.deriv, job->expected->deriv, sizeof result.deriv) == 0);
        CHECK(memcmp(result.xent, job->expected->xent, sizeof result.xent) == 0);
    }
    return NULL;
}

/* One graph in many threads, each of which spreads its two sequences over another number of threads. */
static void threads(void)
{
    static const uint32_t counts[THREADS] = {1, 2, 3, 8, 1, 2, 3, 8};
    koshi_den_graph *graph = two_states();
    koshi_supervision *supervision = said(SAID);
    koshi_chain_config config = options();
    koshi_error *err = NULL;
    struct result expected;
    struct job jobs[THREADS];
    size_t at;
    CHECK_OK(objf(graph, supervision, &config, OUTPUT, &expected, &err), err);
    for (at = 0; at < THREADS; ++at) {
        jobs[at].graph = graph;
        jobs[at].supervision = supervision;
        jobs[at].expected = &expected;
        jobs[at].num_threads = counts[at];
        CHECK(pthread_create(&jobs[at].thread, NULL, work, &jobs[at]) == 0);
    }
    for (at = 0; at < THREADS; ++at)
        CHECK(pthread_join(jobs[at].thread, NULL) == 0);
    CHECK(koshi_den_graph_free(graph) == KOSHI_OK && koshi_supervision_free(supervision) == KOSHI_OK);
}

int main(void)
{
    values_by_hand();
    finite_differences();
    fallback();
    ages_of_the_options();
    options_that_are_refused();
    matrices_that_are_refused();
    graphs_that_are_refused();
    supervisions();
    threads();
    return 0;
}
