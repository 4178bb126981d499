/* The same bits whichever way: threads, lanes, pushes, callbacks, neighbours, floating-point settings. */

#include <fenv.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "ways.h"

enum { STATES = 300, DIM = 40, FRAMES = 90 };

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

int main(void)
{
    static const size_t chunks[] = {1, 7, 50, FRAMES};
    static const unsigned threads[] = {1, 2}, lanes[] = {1, 8};
    koshi_graph *graph = random_graph(STATES, DIM, 11);
    koshi_decoder *plain, *tight;
    struct bytes wanted;
    size_t thread, lane, chunk;
    float kept, *rows = random_rows(DIM * FRAMES, 12);
    struct scores scores;
    scores.rows = rows;
    scores.frames = FRAMES;
    scores.dim = DIM;
    plain = decoder_with(graph, 1, 1, 40000);
    wanted = pushed(plain, &scores, FRAMES);
    CHECK(wanted.size > 4000);

    for (thread = 0; thread < 2; ++thread) {
        for (lane = 0; lane < 2; ++lane) {
            koshi_decoder *decoder = decoder_with(graph, threads[thread], lanes[lane], 40000);
            for (chunk = 0; chunk < 4; ++chunk) {
                CHECK(same_bytes(copy(wanted), pushed(decoder, &scores, chunks[chunk])));
                CHECK(same_bytes(copy(wanted), pulled(decoder, &scores, MATRIX, (int64_t)chunks[chunk])));
                CHECK(same_bytes(copy(wanted), pulled(decoder, &scores, ROWS, (int64_t)chunks[chunk])));
                CHECK(same_bytes(copy(wanted), pulled(decoder, &scores, COLUMNS, (int64_t)chunks[chunk])));
                CHECK(same_bytes(copy(wanted), among_others(decoder, &scores, chunks[chunk])));
            }
            CHECK(same_bytes(copy(wanted), pulled(decoder, &scores, ROWS, -1)));
            CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
        }
    }

    tight = decoder_with(graph, 1, 1, 1);
    CHECK(same_bytes(copy(wanted), pushed(tight, &scores, 7)));
    CHECK(koshi_decoder_free(tight) == KOSHI_OK);

    kept = rows[DIM * 40 + 7];
    rows[DIM * 40 + 7] = kept + 0.001f; /* a single score that differs is seen */
    CHECK(!same_bytes(copy(wanted), pushed(plain, &scores, 7)));
    rows[DIM * 40 + 7] = kept;

    CHECK(fesetround(FE_UPWARD) == 0);
    CHECK(same_bytes(copy(wanted), pushed(plain, &scores, 7)));
    CHECK(fegetround() == FE_UPWARD);
    CHECK(fesetround(FE_TONEAREST) == 0);
#if defined(__SSE2__)
    {
        unsigned before = _mm_getcsr();
        _mm_setcsr(before | 0x8040); /* flush to zero, denormals are zero */
        CHECK((_mm_getcsr() & 0x8040) == flush_bits());
        CHECK(same_bytes(copy(wanted), pushed(plain, &scores, 50)));
        CHECK(same_bytes(copy(wanted), pulled(plain, &scores, COLUMNS, 7)));
        CHECK((_mm_getcsr() & 0x8040) == flush_bits());
        _mm_setcsr(before);
    }
#endif

    free(wanted.data);
    free(rows);
    CHECK(koshi_decoder_free(plain) == KOSHI_OK && koshi_graph_free(graph) == KOSHI_OK);
    return 0;
}
