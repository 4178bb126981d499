/* Rows that are queued for the decoder's own threads: from many threads, with listeners, freed at any moment. */

#include <time.h>

#include "ways.h"

enum { THREADS = 6, DIM = 12, FRAMES = 30 };

static koshi_decoder *decoder;
static float *rows[THREADS];
static struct bytes wanted[THREADS];

static void nap(long microseconds)
{
    struct timespec pause;
    pause.tv_sec = 0;
    pause.tv_nsec = microseconds * 1000;
    nanosleep(&pause, NULL);
}

/* Options that make short utterances take many batches. */
static koshi_decoder *new_decoder(koshi_graph *graph)
{
    koshi_decoder_config config;
    koshi_error *err = NULL;
    koshi_decoder *made = NULL;
    CHECK_OK(koshi_decoder_config_init(&config, sizeof config, &err), err);
    CHECK(config.queue_frames == 4096 && config.chunk_frames == 32 && config.max_batch_wait == 0);
    config.num_lanes = 2;
    config.num_threads = 2;
    config.queue_frames = 16;
    config.chunk_frames = 3;
    CHECK_OK(koshi_decoder_new(graph, &config, &made, &err), err);
    return made;
}

/* Submits an utterance piece by piece. Full queues are tried again. */
static void submit_all(koshi_channel *channel, const float *utterance, size_t seed)
{
    size_t done = 0;
    while (done < FRAMES) {
        size_t now = 1 + (done * 7 + seed) % 6;
        koshi_status status;
        if (now > FRAMES - done)
            now = FRAMES - done;
        status = koshi_channel_submit(channel, utterance + DIM * done, now, DIM, DIM, NULL);
        CHECK(status == KOSHI_OK || status == KOSHI_E_FULL);
        if (status == KOSHI_OK)
            done += now;
        if ((done + seed) % 3 == 0)
            nap(100);
    }
}

static void wait_for(koshi_channel *channel)
{
    koshi_error *err = NULL;
    CHECK_OK(koshi_channel_wait(channel, -1, &err), err);
}

static void *decode(void *argument)
{
    size_t number = *(const size_t *)argument, round, rounds = under_valgrind() ? 1 : 4;
    koshi_channel *channel = open_channel(decoder);
    for (round = 0; round < rounds; ++round) {
        koshi_error *err = NULL;
        CHECK_OK(koshi_channel_begin(channel, &err), err);
        submit_all(channel, rows[number], number + round);
        CHECK_OK(koshi_channel_finish(channel, &err), err);
        wait_for(channel);
        CHECK(same_bytes(copy(wanted[number]), result_of(channel)));
    }
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
    return NULL;
}

/* One channel that all threads use at once, in all ways. */
static koshi_channel *shared;

static void *use(void *argument)
{
    size_t number = *(const size_t *)argument;
    int tries, gone = 0;
    for (tries = 0; tries < (under_valgrind() ? 20 : 100) && !gone; ++tries) {
        koshi_path *path = NULL;
        koshi_status status = koshi_channel_submit(shared, rows[number], 2, DIM, DIM, NULL);
        CHECK(status == KOSHI_OK || status == KOSHI_E_FULL || status == KOSHI_E_CANCELLED || status == KOSHI_E_STATE ||
              status == KOSHI_E_HANDLE);
        gone = status == KOSHI_E_HANDLE;
        status = koshi_channel_wait(shared, 0.001 * (double)(number % 3), NULL);
        CHECK(status == KOSHI_OK || status == KOSHI_OK_PARTIAL || status == KOSHI_E_CANCELLED || status == KOSHI_E_HANDLE);
        status = koshi_channel_best_path(shared, 0, &path, NULL);
        CHECK(status == KOSHI_OK || status == KOSHI_E_BUSY || status == KOSHI_E_HANDLE);
        CHECK(koshi_path_free(path) == KOSHI_OK);
        if (number == 0) {
            status = koshi_channel_begin(shared, NULL);
            CHECK(status == KOSHI_OK || status == KOSHI_E_BUSY || status == KOSHI_E_HANDLE);
        } else if (number == 1) {
            status = koshi_channel_cancel(shared, NULL);
            CHECK(status == KOSHI_OK || status == KOSHI_E_HANDLE);
        } else if (number == 2) {
            status = koshi_channel_push(shared, rows[0], 1, DIM, DIM, NULL);
            CHECK(status == KOSHI_OK || status == KOSHI_E_BUSY || status == KOSHI_E_CANCELLED ||
                  status == KOSHI_E_STATE || status == KOSHI_E_HANDLE);
        } else if (number == 3) {
            status = koshi_channel_finish(shared, NULL);
            CHECK(status == KOSHI_OK || status == KOSHI_E_BUSY || status == KOSHI_E_STATE || status == KOSHI_E_HANDLE);
        }
    }
    return NULL;
}

static void *free_shared(void *argument)
{
    (void)argument;
    nap(4000);
    CHECK(koshi_channel_free(shared) == KOSHI_OK);
    return NULL;
}

static void used_and_freed(void)
{
    pthread_t thread;
    shared = open_channel(decoder);
    in_each_thread(THREADS, use);
    CHECK(koshi_channel_free(shared) == KOSHI_OK);
    shared = open_channel(decoder);
    CHECK(pthread_create(&thread, NULL, free_shared, NULL) == 0);
    in_each_thread(THREADS, use);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(koshi_channel_wait(shared, 0, NULL) == KOSHI_E_HANDLE);
}

/* For what other threads than the decoder's own write. */
static pthread_mutex_t dropping = PTHREAD_MUTEX_INITIALIZER;

/* Who listens: what it was told, in one thread of the decoder's until the channel is waited for or freed. */
struct ear {
    int partials, ends, failures, drops, freed;
    int leaving; /* under `dropping`: a free of the channel has begun, so its handle may be a stale one */
    koshi_status status;
    long pause;
    int free_inside;
};

static int leaving(struct ear *ear)
{
    int begun;
    pthread_mutex_lock(&dropping);
    begun = ear->leaving;
    pthread_mutex_unlock(&dropping);
    return begun;
}

/* What a call inside of a callback answers: what is expected, or that another thread is freeing the channel. */
static int inside(struct ear *ear, koshi_status status, koshi_status expected)
{
    return status == expected || (status == KOSHI_E_HANDLE && leaving(ear));
}

static void on_partial(void *user_data, koshi_channel *channel)
{
    struct ear *ear = (struct ear *)user_data;
    koshi_path *path = NULL;
    size_t stable = 99;
    CHECK(!ear->freed && ear->drops == 0 && ear->ends == 0 && ear->failures == 0);
    ++ear->partials;
    CHECK(inside(ear, koshi_channel_partial(channel, &path, &stable, NULL), KOSHI_OK));
    CHECK(koshi_path_free(path) == KOSHI_OK);
    CHECK(inside(ear, koshi_channel_wait(channel, 0, NULL), KOSHI_E_BUSY));
    if (ear->pause > 0)
        nap(ear->pause);
}

static void on_finished(void *user_data, koshi_channel *channel)
{
    struct ear *ear = (struct ear *)user_data;
    CHECK(!ear->freed && ear->drops == 0);
    ++ear->ends;
    if (ear->free_inside) {
        CHECK(koshi_channel_free(channel) == KOSHI_OK);
        CHECK(koshi_channel_num_frames(channel) == -1 && ear->drops == 0);
        ear->freed = 1;
    } else {
        int64_t frames = koshi_channel_num_frames(channel);
        CHECK(frames == FRAMES || (frames == -1 && leaving(ear)));
    }
}

static void on_failed(void *user_data, koshi_channel *channel, koshi_status status, const char *message)
{
    struct ear *ear = (struct ear *)user_data;
    CHECK(!ear->freed && ear->drops == 0 && message != NULL && message[0] != '\0');
    CHECK(koshi_channel_num_frames(channel) >= 0 || leaving(ear));
    ++ear->failures;
    ear->status = status;
}

static void drop_ear(void *user_data)
{
    pthread_mutex_lock(&dropping);
    ++((struct ear *)user_data)->drops;
    pthread_mutex_unlock(&dropping);
}

static int drops_of(struct ear *ear)
{
    int drops;
    pthread_mutex_lock(&dropping);
    drops = ear->drops;
    pthread_mutex_unlock(&dropping);
    return drops;
}

static koshi_channel_listener listener(void)
{
    koshi_channel_listener made;
    memset(&made, 0, sizeof made);
    made.struct_size = sizeof made;
    made.partial = on_partial;
    made.finished = on_finished;
    made.failed = on_failed;
    return made;
}

static void told(void)
{
    koshi_channel_listener functions = listener();
    koshi_channel *channel = open_channel(decoder);
    koshi_error *err = NULL;
    struct ear ear, other;
    float bad[DIM];
    size_t at;
    memset(&ear, 0, sizeof ear);
    memset(&other, 0, sizeof other);
    CHECK_OK(koshi_channel_set_listener(channel, &functions, &ear, drop_ear, &err), err);
    submit_all(channel, rows[0], 0);
    CHECK_OK(koshi_channel_finish(channel, &err), err);
    wait_for(channel);
    CHECK(ear.partials > 0 && ear.ends == 1 && ear.failures == 0);
    /* Another one takes its place; the first is let go of at once. */
    CHECK_OK(koshi_channel_set_listener(channel, &functions, &other, drop_ear, &err), err);
    CHECK(ear.drops == 1);
    CHECK_OK(koshi_channel_begin(channel, &err), err);
    for (at = 0; at < DIM; ++at)
        bad[at] = NAN;
    CHECK_OK(koshi_channel_submit(channel, bad, 1, DIM, DIM, &err), err);
    CHECK_STATUS(KOSHI_E_SCORES, koshi_channel_wait(channel, -1, &err), err);
    CHECK(other.failures == 1 && other.status == KOSHI_E_SCORES && other.ends == 0);
    CHECK_STATUS(KOSHI_E_SCORES, koshi_channel_submit(channel, rows[0], 1, DIM, DIM, &err), err);
    /* What is refused is dropped too. */
    functions.reserved = 1;
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, koshi_channel_set_listener(channel, &functions, &ear, drop_ear, &err), err);
    CHECK(ear.drops == 2 && other.drops == 0);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_channel_set_listener(NULL, NULL, &ear, drop_ear, &err), err);
    CHECK_OK(koshi_channel_set_listener(channel, NULL, &ear, drop_ear, &err), err);
    CHECK(ear.drops == 4 && other.drops == 1);
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
    CHECK(ear.partials > 0 && ear.ends == 1 && ear.failures == 0 && other.partials == 0);
}

/* case_b50: freed right after the last rows, with a slow callback: it is waited for, and none follows. */
static void case_b50_freed_with_slow_callbacks(void)
{
    koshi_channel_listener functions = listener();
    int round;
    for (round = 0; round < (under_valgrind() ? 3 : 12); ++round) {
        koshi_error *err = NULL;
        koshi_graph *graph = random_graph(40, DIM, 3);
        koshi_decoder *own = new_decoder(graph);
        koshi_channel *channel = open_channel(own);
        struct ear ear;
        memset(&ear, 0, sizeof ear);
        ear.pause = 300;
        CHECK(koshi_graph_free(graph) == KOSHI_OK);
        CHECK_OK(koshi_channel_set_listener(channel, &functions, &ear, drop_ear, &err), err);
        submit_all(channel, rows[1], 1);
        CHECK_OK(koshi_channel_finish(channel, &err), err);
        nap(100 * round);
        pthread_mutex_lock(&dropping);
        ear.leaving = 1;
        pthread_mutex_unlock(&dropping);
        if (round % 2 == 0)
            CHECK(koshi_decoder_free(own) == KOSHI_OK);
        CHECK(koshi_channel_free(channel) == KOSHI_OK);
        ear.freed = 1;
        CHECK(ear.drops == 1);
        if (round % 2 != 0)
            CHECK(koshi_decoder_free(own) == KOSHI_OK);
    }
}

/* Freed by its own listener: nothing follows, and the data is dropped behind the callback. */
static void freed_inside(void)
{
    koshi_channel_listener functions = listener();
    koshi_channel *channel = open_channel(decoder);
    koshi_error *err = NULL;
    struct ear ear;
    memset(&ear, 0, sizeof ear);
    ear.free_inside = 1;
    CHECK_OK(koshi_channel_set_listener(channel, &functions, &ear, drop_ear, &err), err);
    submit_all(channel, rows[2], 2);
    CHECK_OK(koshi_channel_finish(channel, &err), err);
    while (drops_of(&ear) == 0)
        nap(200);
    CHECK(ear.ends == 1 && ear.freed && ear.drops == 1);
    CHECK(koshi_channel_free(channel) == KOSHI_E_HANDLE);
}

/* case_b49: one thread finishes channels, another one waits for them and frees them. */
static koshi_channel *finishing[THREADS];

static void *finish_all(void *argument)
{
    size_t at;
    (void)argument;
    for (at = 0; at < THREADS; ++at)
        CHECK(koshi_channel_finish(finishing[at], NULL) == KOSHI_OK);
    return NULL;
}

static void case_b49_finished_and_freed(void)
{
    int round;
    for (round = 0; round < (under_valgrind() ? 2 : 10); ++round) {
        pthread_t thread;
        size_t at;
        for (at = 0; at < THREADS; ++at) {
            finishing[at] = open_channel(decoder);
            CHECK(koshi_channel_submit(finishing[at], rows[at], 10, DIM, DIM, NULL) == KOSHI_OK);
        }
        CHECK(pthread_create(&thread, NULL, finish_all, NULL) == 0);
        for (at = 0; at < THREADS; ++at)
            wait_for(finishing[at]);
        CHECK(pthread_join(thread, NULL) == 0);
        for (at = 0; at < THREADS; ++at)
            CHECK(koshi_channel_free(finishing[at]) == KOSHI_OK);
    }
}

/* Frames of a decodable, as they become ready. */
struct growing {
    pthread_mutex_t lock;
    int64_t ready;
    int drops;
};

static int64_t ready_of(void *user_data)
{
    struct growing *growing = (struct growing *)user_data;
    int64_t ready;
    pthread_mutex_lock(&growing->lock);
    ready = growing->ready;
    pthread_mutex_unlock(&growing->lock);
    return ready;
}

static koshi_status row_of(void *user_data, int64_t frame, float *row, size_t dim)
{
    CHECK(frame >= 0 && frame < ready_of(user_data) && dim == DIM);
    /* The channel is at this very decodable's turn. */
    CHECK(koshi_channel_num_frames(shared) == -1);
    memcpy(row, rows[3] + DIM * (size_t)frame, sizeof(float) * DIM);
    return KOSHI_OK;
}

static int32_t is_last(void *user_data, int64_t frame)
{
    (void)user_data;
    return frame + 1 == FRAMES;
}

static int32_t columns_of(void *user_data)
{
    (void)user_data;
    return DIM;
}

static void drop_growing(void *user_data)
{
    ++((struct growing *)user_data)->drops;
}

static void pulled_as_it_grows(void)
{
    koshi_decodable_ops ops;
    koshi_decodable *decodable = NULL;
    koshi_error *err = NULL;
    struct growing growing = {PTHREAD_MUTEX_INITIALIZER, 0, 0};
    memset(&ops, 0, sizeof ops);
    ops.struct_size = sizeof ops;
    ops.frame_log_likelihoods = row_of;
    ops.num_frames_ready = ready_of;
    ops.is_last_frame = is_last;
    ops.num_indices = columns_of;
    CHECK_OK(koshi_decodable_new(&ops, &growing, drop_growing, &decodable, &err), err);
    shared = open_channel(decoder);
    while (growing.ready < FRAMES) {
        pthread_mutex_lock(&growing.lock);
        growing.ready += 5;
        pthread_mutex_unlock(&growing.lock);
        CHECK_OK(koshi_channel_submit_decodable(shared, decodable, &err), err);
    }
    CHECK_OK(koshi_channel_finish(shared, &err), err);
    wait_for(shared);
    CHECK(same_bytes(copy(wanted[3]), result_of(shared)));
    CHECK_STATUS(KOSHI_E_STATE, koshi_channel_submit_decodable(shared, decodable, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_channel_submit_decodable(shared, NULL, &err), err);
    CHECK(koshi_channel_free(shared) == KOSHI_OK);
    CHECK(growing.drops == 0);
    CHECK(koshi_decodable_free(decodable) == KOSHI_OK);
    CHECK(growing.drops == 1);
}

static void arguments(void)
{
    koshi_channel *channel = open_channel(decoder);
    koshi_error *err = NULL;
    koshi_metrics metrics;
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_channel_submit(NULL, rows[0], 1, DIM, DIM, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_submit(channel, NULL, 1, DIM, DIM, &err), err);
    CHECK_STATUS(KOSHI_E_SHAPE, koshi_channel_submit(channel, rows[0], 1, DIM, DIM - 1, &err), err);
    CHECK_STATUS(KOSHI_E_SHAPE, koshi_channel_submit(channel, rows[0], 1, 1, 1, &err), err);
    CHECK_STATUS(KOSHI_E_LIMIT, koshi_channel_submit(channel, rows[0], 17, DIM, DIM, &err), err);
    CHECK_OK(koshi_channel_submit(channel, NULL, 0, DIM, DIM, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_wait(channel, NAN, &err), err);
    CHECK_OK(koshi_channel_wait(channel, INFINITY, &err), err);
    CHECK_OK(koshi_channel_wait(channel, 0, &err), err);
    CHECK_OK(koshi_decoder_metrics(decoder, &metrics, sizeof metrics, &err), err);
    CHECK(metrics.struct_size == sizeof metrics && metrics.num_channels == 1 && metrics.frames > 0);
    CHECK(metrics.latency_max >= metrics.latency_p50 && metrics.latency_p50 > 0 && metrics.frames_per_second > 0);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decoder_metrics(decoder, &metrics, 8, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_decoder_metrics(NULL, &metrics, sizeof metrics, &err), err);
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
}

/* Structs of programs that were made for an older or a newer version. */
static void structs_of_other_ages(void)
{
    struct {
        koshi_channel_listener known;
        uint64_t unknown;
    } newer;
    struct {
        koshi_metrics known;
        uint64_t unknown[2];
    } metrics;
    const unsigned char *bytes = (const unsigned char *)&metrics;
    koshi_channel *channel = open_channel(decoder);
    koshi_error *err = NULL;
    struct ear ear, refused;
    size_t at;
    memset(&ear, 0, sizeof ear);
    memset(&refused, 0, sizeof refused);
    memset(&newer, 0, sizeof newer);
    newer.known = listener();
    newer.known.struct_size = sizeof newer;
    CHECK_OK(koshi_channel_set_listener(channel, &newer.known, &ear, drop_ear, &err), err);
    newer.unknown = (uint64_t)1 << 63;
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, koshi_channel_set_listener(channel, &newer.known, &refused, drop_ear, &err), err);
    CHECK(refused.drops == 1 && ear.drops == 0); /* the one before stays */
    newer.unknown = 0;
    newer.known.struct_size = 32; /* less than it ever was */
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_set_listener(channel, &newer.known, &refused, drop_ear, &err), err);
    newer.known.struct_size = 42;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_set_listener(channel, &newer.known, &refused, drop_ear, &err), err);
    submit_all(channel, rows[0], 0);
    CHECK_OK(koshi_channel_finish(channel, &err), err);
    wait_for(channel);
    CHECK(refused.drops == 3 && ear.drops == 0 && ear.ends == 1);

    memset(&metrics, 0xff, sizeof metrics);
    CHECK_OK(koshi_decoder_metrics(decoder, &metrics.known, sizeof metrics, &err), err);
    CHECK(metrics.known.struct_size == sizeof metrics.known && metrics.known.num_channels == 1);
    for (at = sizeof metrics.known; at < sizeof metrics; ++at)
        CHECK(bytes[at] == 0);
    memset(&metrics, 0xff, sizeof metrics);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decoder_metrics(decoder, &metrics.known, 96, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decoder_metrics(decoder, &metrics.known, 107, &err), err);
    CHECK(bytes[0] == 0xff && bytes[103] == 0xff);
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
    CHECK(ear.drops == 1);
}

int main(void)
{
    koshi_graph *graph = random_graph(40, DIM, 3);
    size_t at;
    decoder = new_decoder(graph);
    CHECK(koshi_graph_free(graph) == KOSHI_OK);
    for (at = 0; at < THREADS; ++at) {
        struct scores scores;
        rows[at] = random_rows(DIM * FRAMES, 70 + (unsigned)at);
        scores.rows = rows[at];
        scores.frames = FRAMES;
        scores.dim = DIM;
        wanted[at] = pushed(decoder, &scores, FRAMES);
    }
    in_each_thread(THREADS, decode);
    used_and_freed();
    told();
    case_b49_finished_and_freed();
    case_b50_freed_with_slow_callbacks();
    freed_inside();
    pulled_as_it_grows();
    arguments();
    structs_of_other_ages();
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
    for (at = 0; at < THREADS; ++at) {
        free(rows[at]);
        free(wanted[at].data);
    }
    return 0;
}
