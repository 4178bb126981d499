/* A caller whose driver fails somewhere: prints what it is told, and holds the CPU's results before and after to
 * each other. The library itself prints nothing. */

#include "../ways.h"

enum { STATES = 200, DIM = 30, FRAMES = 12 };

static koshi_decoder *decoder_on(koshi_graph *graph, int backend, unsigned lanes, koshi_error **err)
{
    koshi_decoder_config config;
    koshi_decoder *decoder = NULL;
    CHECK(koshi_decoder_config_init(&config, sizeof config, err) == KOSHI_OK);
    config.backend = backend;
    config.num_lanes = lanes;
    config.num_threads = 1;
    config.beam = 7;
    config.max_active = 120;
    config.min_active = 10;
    koshi_decoder_new(graph, &config, &decoder, err);
    return decoder;
}

/* Prints what an error says, and frees it. */
static void tell(const char *who, koshi_error *err)
{
    printf("%s: %s: %s\n", who, koshi_status_name(koshi_error_status(err)), koshi_error_message(err));
    CHECK(koshi_error_free(err) == KOSHI_OK);
}

/* Lattice and best path on the CPU. */
static struct bytes on_the_cpu(koshi_graph *graph, const struct scores *scores)
{
    koshi_error *err = NULL;
    koshi_decoder *decoder = decoder_on(graph, KOSHI_BACKEND_CPU, 1, &err);
    struct bytes result;
    CHECK(decoder != NULL && err == NULL);
    result = pushed(decoder, scores, FRAMES);
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
    return result;
}

/* Pushes twice, as a caller does that tries again. */
static void on_the_gpu(koshi_decoder *decoder, const struct scores *scores, struct bytes wanted)
{
    koshi_channel *channel = open_channel(decoder);
    koshi_error *err = NULL;
    int attempt;
    for (attempt = 1; attempt <= 2; ++attempt) {
        if (koshi_channel_push(channel, scores->rows, FRAMES, DIM, DIM, &err) == KOSHI_OK) {
            printf("push %d: %s\n", attempt, same_bytes(copy(wanted), result_of(channel)) ? "as on the CPU" : "WRONG");
            break;
        }
        tell(attempt == 1 ? "push 1" : "push 2", err);
        err = NULL;
        CHECK(koshi_channel_num_frames(channel) == 0);
    }
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
}

int main(int argc, char **argv)
{
    unsigned lanes = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    koshi_graph *graph = random_graph(STATES, DIM, 5);
    float *rows = random_rows(DIM * FRAMES, 6);
    koshi_decoder *decoder;
    koshi_error *err = NULL;
    struct bytes wanted;
    struct scores scores;
    scores.rows = rows;
    scores.frames = FRAMES;
    scores.dim = DIM;
    wanted = on_the_cpu(graph, &scores);
    CHECK(wanted.size > 1000);

    decoder = decoder_on(graph, KOSHI_BACKEND_CUDA, lanes, &err);
    if (decoder != NULL)
        on_the_gpu(decoder, &scores, wanted);
    else
        tell("decoder", err);
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);

    CHECK(same_bytes(copy(wanted), on_the_cpu(graph, &scores)));
    /* Left to the library, there is a decoder in any case. */
    err = NULL;
    decoder = decoder_on(graph, KOSHI_BACKEND_AUTO, 1, &err);
    CHECK(decoder != NULL && err == NULL);
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
    printf("CPU: the same\n");
    free(wanted.data);
    free(rows);
    CHECK(koshi_graph_free(graph) == KOSHI_OK);
    return 0;
}
