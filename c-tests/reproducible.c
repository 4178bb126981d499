/* The same bits whichever way: threads, lanes, pushes, callbacks, neighbours, floating-point settings. */

#include <fenv.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "fst.h"

enum { STATES = 300, DIM = 40, FRAMES = 90 };

static float *rows;

static koshi_decoder *decoder_with(koshi_graph *graph, unsigned threads, unsigned lanes, unsigned link_budget)
{
    koshi_decoder_config config;
    koshi_decoder *decoder = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_decoder_config_init(&config, sizeof config, &err), err);
    config.backend = KOSHI_BACKEND_CPU;
    config.num_threads = threads;
    config.num_lanes = lanes;
    config.link_budget = link_budget;
    config.beam = 7;
    config.lattice_beam = 5;
    config.max_active = 120;
    config.min_active = 10;
    config.acoustic_scale = 0.7f;
    CHECK_OK(koshi_decoder_new(graph, &config, &decoder, &err), err);
    return decoder;
}

/* The result of pushes of `chunk` rows. */
static struct bytes pushed(koshi_decoder *decoder, size_t chunk)
{
    koshi_channel *channel = open_channel(decoder);
    koshi_error *err = NULL;
    struct bytes result;
    size_t done = 0;
    while (done < FRAMES) {
        size_t now = chunk < FRAMES - done ? chunk : FRAMES - done;
        push(channel, rows + DIM * done, now, DIM);
        done += now;
    }
    CHECK_OK(koshi_channel_finish(channel, &err), err);
    result = result_of(channel);
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
    return result;
}

static koshi_status one(void *user_data, int64_t frame, int32_t index, float *out)
{
    CHECK(user_data == rows && frame >= 0 && frame < FRAMES && index >= 0 && index < DIM);
    *out = rows[DIM * frame + index];
    return KOSHI_OK;
}

static koshi_status all(void *user_data, int64_t frame, float *row, size_t dim)
{
    CHECK(user_data == rows && frame >= 0 && frame < FRAMES && dim == DIM);
    memcpy(row, rows + DIM * frame, sizeof(float) * DIM);
    return KOSHI_OK;
}

static int64_t ready(void *user_data)
{
    CHECK(user_data == rows);
    return FRAMES;
}

static int32_t is_last(void *user_data, int64_t frame)
{
    CHECK(user_data == rows);
    return frame == FRAMES - 1;
}

static int32_t num_indices(void *user_data)
{
    CHECK(user_data == rows);
    return DIM;
}

enum source { MATRIX, ROWS, COLUMNS };

/* The result of frames pulled from a decodable, `chunk` at a time. */
static struct bytes pulled(koshi_decoder *decoder, enum source source, int64_t chunk)
{
    koshi_channel *channel = open_channel(decoder);
    koshi_decodable *decodable = NULL;
    koshi_decodable_ops ops;
    koshi_error *err = NULL;
    struct bytes result;
    uint64_t frames = 0, done = 0;
    memset(&ops, 0, sizeof ops);
    ops.struct_size = sizeof ops;
    ops.num_frames_ready = ready;
    ops.is_last_frame = is_last;
    ops.num_indices = num_indices;
    if (source == ROWS)
        ops.frame_log_likelihoods = all;
    else
        ops.log_likelihood = one;
    if (source == MATRIX)
        CHECK_OK(koshi_decodable_from_matrix(rows, FRAMES, DIM, DIM, &decodable, &err), err);
    else
        CHECK_OK(koshi_decodable_new(&ops, rows, NULL, &decodable, &err), err);
    do {
        CHECK_OK(koshi_channel_advance(channel, decodable, chunk, &frames, &err), err);
        done += frames;
    } while (frames > 0 && chunk >= 0);
    CHECK(done == FRAMES);
    CHECK(koshi_decodable_free(decodable) == KOSHI_OK);
    result = result_of(channel);
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
    return result;
}

/* The result of the channel in the middle of a batch whose neighbours do other things. */
static struct bytes among_others(koshi_decoder *decoder, size_t chunk)
{
    koshi_channel *channels[5];
    koshi_decoder_item items[5];
    koshi_error *err = NULL;
    struct bytes result;
    size_t done = 0;
    int at;
    for (at = 0; at < 5; ++at)
        channels[at] = open_channel(decoder);
    while (done < FRAMES) {
        size_t now = chunk < FRAMES - done ? chunk : FRAMES - done;
        memset(items, 0, sizeof items);
        for (at = 0; at < 5; ++at) {
            items[at].channel = channels[at];
            items[at].rows = at == 2 ? rows + DIM * done : rows + DIM * (size_t)(at * 3);
            items[at].frames = at == 2 ? now : (size_t)at;
            items[at].dim = items[at].stride = DIM;
        }
        CHECK_OK(koshi_decoder_advance(decoder, items, 5, sizeof items[0], &err), err);
        done += now;
    }
    result = result_of(channels[2]);
    for (at = 0; at < 5; ++at)
        CHECK(koshi_channel_free(channels[at]) == KOSHI_OK);
    return result;
}

static struct bytes copy(struct bytes bytes)
{
    struct bytes other = {NULL, 0, 0};
    add(&other, bytes.data, bytes.size);
    return other;
}

int main(void)
{
    static const size_t chunks[] = {1, 7, 50, FRAMES};
    static const unsigned threads[] = {1, 2}, lanes[] = {1, 8};
    koshi_graph *graph = random_graph(STATES, DIM, 11);
    koshi_decoder *plain, *tight;
    struct bytes wanted;
    size_t thread, lane, chunk;
    float kept;
    rows = random_rows(DIM * FRAMES, 12);
    plain = decoder_with(graph, 1, 1, 40000);
    wanted = pushed(plain, FRAMES);
    CHECK(wanted.size > 4000);

    for (thread = 0; thread < 2; ++thread) {
        for (lane = 0; lane < 2; ++lane) {
            koshi_decoder *decoder = decoder_with(graph, threads[thread], lanes[lane], 40000);
            for (chunk = 0; chunk < 4; ++chunk) {
                CHECK(same_bytes(copy(wanted), pushed(decoder, chunks[chunk])));
                CHECK(same_bytes(copy(wanted), pulled(decoder, MATRIX, (int64_t)chunks[chunk])));
                CHECK(same_bytes(copy(wanted), pulled(decoder, ROWS, (int64_t)chunks[chunk])));
                CHECK(same_bytes(copy(wanted), pulled(decoder, COLUMNS, (int64_t)chunks[chunk])));
                CHECK(same_bytes(copy(wanted), among_others(decoder, chunks[chunk])));
            }
            CHECK(same_bytes(copy(wanted), pulled(decoder, ROWS, -1)));
            CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
        }
    }

    tight = decoder_with(graph, 1, 1, 1);
    CHECK(same_bytes(copy(wanted), pushed(tight, 7)));
    CHECK(koshi_decoder_free(tight) == KOSHI_OK);

    kept = rows[DIM * 40 + 7];
    rows[DIM * 40 + 7] = kept + 0.001f; /* a single score that differs is seen */
    CHECK(!same_bytes(copy(wanted), pushed(plain, 7)));
    rows[DIM * 40 + 7] = kept;

    CHECK(fesetround(FE_UPWARD) == 0);
    CHECK(same_bytes(copy(wanted), pushed(plain, 7)));
    CHECK(fegetround() == FE_UPWARD);
    CHECK(fesetround(FE_TONEAREST) == 0);
#if defined(__SSE2__)
    {
        unsigned before = _mm_getcsr();
        _mm_setcsr(before | 0x8040); /* flush to zero, denormals are zero */
        CHECK(same_bytes(copy(wanted), pushed(plain, 50)));
        CHECK(same_bytes(copy(wanted), pulled(plain, COLUMNS, 7)));
        CHECK((_mm_getcsr() & 0x8040) == 0x8040);
        _mm_setcsr(before);
    }
#endif

    free(wanted.data);
    free(rows);
    CHECK(koshi_decoder_free(plain) == KOSHI_OK && koshi_graph_free(graph) == KOSHI_OK);
    return 0;
}
