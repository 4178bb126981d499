/* Structs of different ages, and options that are refused. */

#include "fst.h"

/* The options as a later header may have them. */
struct newer_config {
    koshi_decoder_config known;
    uint64_t unknown;
    float another;
    uint32_t reserved;
};

static koshi_status make(koshi_graph *graph, const koshi_decoder_config *config, koshi_error **err)
{
    koshi_decoder *decoder = NULL;
    koshi_status status = koshi_decoder_new(graph, config, &decoder, err);
    CHECK((decoder != NULL) == (status == KOSHI_OK));
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
    return status;
}

static void defaults(koshi_graph *graph)
{
    koshi_decoder_config config;
    koshi_decoder *decoder = NULL;
    koshi_decoder_summary info;
    koshi_error *err = NULL;
    memset(&config, 0xff, sizeof config);
    CHECK_OK(koshi_decoder_config_init(&config, sizeof config, &err), err);
    CHECK(config.struct_size == sizeof config && config.backend == KOSHI_BACKEND_AUTO && config.device == 0);
    CHECK(config.beam == 15 && config.lattice_beam == 10 && config.max_active == 10000 && config.min_active == 200);
    CHECK(config.beam_delta == 0.5f && config.acoustic_scale == 1 && config.frame_shift == 0.01);
    CHECK(config.link_budget > 0 && config.num_lanes > 0 && config.num_threads > 0 && config.max_frames == 0);
    CHECK(config.max_channels == 0 && config.reserved == 0 && config.memory_limit == 0);
    CHECK(config.candidate_capacity == 0 && config.token_capacity == 0 && config.link_capacity == 0);
    CHECK_OK(make(graph, &config, &err), err); /* case_b45 */
    CHECK_OK(make(graph, NULL, &err), err);
    CHECK_OK(koshi_decoder_new(graph, &config, &decoder, &err), err);
    CHECK_OK(koshi_decoder_info(decoder, &info, sizeof info, &err), err);
    CHECK(info.struct_size == sizeof info && info.num_lanes == config.num_lanes && info.num_columns == 1);
    CHECK(info.backend == KOSHI_BACKEND_CPU || info.backend == KOSHI_BACKEND_CUDA);
    CHECK((info.backend == KOSHI_BACKEND_CUDA) == (info.why_not_cuda[0] == '\0'));
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
}

static void sizes(koshi_graph *graph)
{
    koshi_decoder_config config;
    struct newer_config newer;
    koshi_error *err = NULL;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decoder_config_init(NULL, sizeof config, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decoder_config_init(&config, 0, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decoder_config_init(&config, 96, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decoder_config_init(&config, (size_t)-1, &err), err);

    memset(&newer, 0xff, sizeof newer);
    CHECK_OK(koshi_decoder_config_init(&newer.known, sizeof newer, &err), err);
    CHECK(newer.known.struct_size == sizeof newer && newer.known.beam == 15);
    CHECK(newer.unknown == 0 && newer.another == 0 && newer.reserved == 0);
    CHECK_OK(make(graph, &newer.known, &err), err);
    newer.another = 1;
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, make(graph, &newer.known, &err), err);
    newer.another = 0;
    newer.unknown = (uint64_t)1 << 60;
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, make(graph, &newer.known, &err), err);

    CHECK_OK(koshi_decoder_config_init(&config, sizeof config, &err), err);
    config.struct_size = 0;
    CHECK_STATUS(KOSHI_E_ARGUMENT, make(graph, &config, &err), err);
    config.struct_size = 7;
    CHECK_STATUS(KOSHI_E_ARGUMENT, make(graph, &config, &err), err);
    config.struct_size = sizeof config;
    config.reserved = 1;
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, make(graph, &config, &err), err);
}

/* Outputs are filled to the caller's size, whichever of the two is newer. */
static void outputs(koshi_graph *graph)
{
    struct {
        koshi_graph_summary known;
        uint64_t unknown;
    } newer;
    koshi_error *err = NULL;
    memset(&newer, 0xff, sizeof newer);
    CHECK_OK(koshi_graph_info(graph, &newer.known, sizeof newer, &err), err);
    CHECK(newer.known.struct_size == sizeof newer.known && newer.unknown == 0);
    CHECK(newer.known.num_states == 2 && newer.known.num_arcs == 1 && newer.known.num_finals == 1);
    CHECK(newer.known.num_epsilon_arcs == 0 && newer.known.num_unreachable == 0 && newer.known.num_columns == 1);
    memset(&newer, 0xff, sizeof newer);
    CHECK_OK(koshi_graph_info(graph, &newer.known, sizeof newer.known, &err), err);
    CHECK(newer.unknown == ~(uint64_t)0 && newer.known.memory > 0);
    memset(&newer, 0xff, sizeof newer);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_graph_info(graph, &newer.known, 8, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_graph_info(graph, NULL, sizeof newer, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_graph_info(NULL, &newer.known, sizeof newer, &err), err);
    CHECK(newer.known.struct_size == ~(uint32_t)0 && newer.known.memory == ~(uint64_t)0);
}

#define REFUSED(status, field, value)                                               \
    do {                                                                            \
        CHECK_OK(koshi_decoder_config_init(&config, sizeof config, &err), err);     \
        config.field = (value);                                                     \
        CHECK_STATUS(status, make(graph, &config, &err), err);                      \
    } while (0)

static void ranges(koshi_graph *graph)
{
    koshi_decoder_config config;
    koshi_error *err = NULL;
    REFUSED(KOSHI_E_CONFIG, beam, 0);
    REFUSED(KOSHI_E_CONFIG, beam, -1);
    REFUSED(KOSHI_E_CONFIG, beam, INFINITY);
    REFUSED(KOSHI_E_CONFIG, beam, NAN);
    REFUSED(KOSHI_E_CONFIG, lattice_beam, 0);
    REFUSED(KOSHI_E_CONFIG, lattice_beam, NAN);
    REFUSED(KOSHI_E_CONFIG, beam_delta, 0);
    REFUSED(KOSHI_E_CONFIG, acoustic_scale, INFINITY);
    REFUSED(KOSHI_E_CONFIG, max_active, 1);
    REFUSED(KOSHI_E_CONFIG, link_budget, 0);
    REFUSED(KOSHI_E_CONFIG, num_lanes, 0);
    REFUSED(KOSHI_E_CONFIG, num_threads, 0);
    REFUSED(KOSHI_E_CONFIG, frame_shift, 0);
    REFUSED(KOSHI_E_CONFIG, frame_shift, NAN);
    REFUSED(KOSHI_E_CONFIG, backend, 3);
    REFUSED(KOSHI_E_CONFIG, backend, -1);
    REFUSED(KOSHI_E_CONFIG, min_active, 10001);
}

static void case_b44_min_above_max(koshi_graph *graph)
{
    koshi_decoder_config config;
    koshi_error *err = NULL;
    CHECK_OK(koshi_decoder_config_init(&config, sizeof config, &err), err);
    config.min_active = 10;
    config.max_active = 5;
    CHECK(make(graph, &config, &err) == KOSHI_E_CONFIG);
    CHECK(strstr(koshi_error_message(err), "min_active") != NULL);
    CHECK(koshi_error_free(err) == KOSHI_OK);
}

/* A GPU that is asked for and not there: told why. */
static void no_device(koshi_graph *graph)
{
    koshi_decoder_config config;
    koshi_error *err = NULL;
    if (koshi_cuda_device_count() > 0)
        return;
    CHECK_OK(koshi_decoder_config_init(&config, sizeof config, &err), err);
    config.backend = KOSHI_BACKEND_CUDA;
    CHECK(make(graph, &config, &err) == KOSHI_E_NO_DEVICE);
    CHECK(strcmp(koshi_error_message(err), koshi_cuda_why_not()) == 0);
    CHECK(koshi_error_free(err) == KOSHI_OK);
}

static void limits(koshi_graph *graph)
{
    static const float rows[] = {-1, -1, -1};
    koshi_decoder_config config;
    koshi_decoder *decoder = NULL;
    koshi_channel *channel, *other = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_decoder_config_init(&config, sizeof config, &err), err);
    config.max_channels = 1;
    config.max_frames = 1;
    CHECK_OK(koshi_decoder_new(graph, &config, &decoder, &err), err);
    channel = open_channel(decoder);
    CHECK_STATUS(KOSHI_E_LIMIT, koshi_channel_new(decoder, &other, &err), err);
    CHECK(other == NULL);
    push(channel, rows, 1, 1);
    CHECK_STATUS(KOSHI_E_LIMIT, koshi_channel_push(channel, rows, 1, 1, 1, &err), err);
    CHECK(koshi_channel_num_frames(channel) == 1);
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
    channel = open_channel(decoder);
    CHECK(koshi_channel_free(channel) == KOSHI_OK && koshi_decoder_free(decoder) == KOSHI_OK);
}

int main(void)
{
    koshi_graph *graph = graph_a();
    defaults(graph);
    sizes(graph);
    outputs(graph);
    ranges(graph);
    case_b44_min_above_max(graph);
    no_device(graph);
    limits(graph);
    CHECK(koshi_graph_free(graph) == KOSHI_OK);
    return 0;
}
