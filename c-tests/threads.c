/* Many threads over one graph: each gets its own result; frees during use; a handle that two threads want. */

#include <time.h>

#include "ways.h"

enum { THREADS = 8, DIM = 20, FRAMES = 40, ROUNDS = 6 };

static koshi_graph *graph;
static koshi_decoder *decoder;
static float *rows[THREADS];
static struct bytes wanted[THREADS];

static struct bytes decode(const float *utterance, size_t chunk)
{
    struct scores scores;
    scores.rows = utterance;
    scores.frames = FRAMES;
    scores.dim = DIM;
    return pushed(decoder, &scores, chunk);
}

static void *work(void *argument)
{
    size_t number = *(const size_t *)argument, round;
    for (round = 0; round < ROUNDS; ++round)
        CHECK(same_bytes(copy(wanted[number]), decode(rows[number], 1 + (number + round) % 13)));
    return NULL;
}

/* case_b52: all finish at once, each lattice is its own. */
static void case_b52_lattices_at_once(void)
{
    in_each_thread(THREADS, work);
}

/* One channel that all threads want: each call works or is told that it is in use. */
static koshi_channel *shared;
static int done_rows[THREADS];

static void *compete(void *argument)
{
    size_t number = *(const size_t *)argument;
    int tries;
    for (tries = 0; tries < 200; ++tries) {
        koshi_status status = koshi_channel_push(shared, rows[0], 1, DIM, DIM, NULL);
        CHECK(status == KOSHI_OK || status == KOSHI_E_BUSY);
        done_rows[number] += status == KOSHI_OK;
        CHECK(koshi_channel_num_frames(shared) >= -1);
    }
    return NULL;
}

static void one_channel(void)
{
    int sum = 0, at;
    shared = open_channel(decoder);
    in_each_thread(THREADS, compete);
    for (at = 0; at < THREADS; ++at)
        sum += done_rows[at];
    CHECK(sum > 0 && koshi_channel_num_frames(shared) == sum);
    CHECK(koshi_channel_free(shared) == KOSHI_OK);
}

/* Everything freed while all threads are inside calls with it: calls end normally or find the handle dead. */
static koshi_lattice *lattice;
static koshi_path *path;

static void *use_until_gone(void *argument)
{
    size_t number = *(const size_t *)argument;
    int gone = 0;
    while (!gone) {
        koshi_lattice_summary info;
        koshi_buffer *buffer = NULL;
        koshi_channel *channel = NULL;
        koshi_status status = koshi_lattice_info(lattice, &info, sizeof info, NULL);
        CHECK(status == KOSHI_OK || status == KOSHI_E_HANDLE);
        gone = status == KOSHI_E_HANDLE;
        status = koshi_lattice_to_memory(lattice, KOSHI_LATTICE_BINARY, &buffer, NULL);
        CHECK(status == KOSHI_OK || status == KOSHI_E_HANDLE);
        CHECK(koshi_buffer_free(buffer) == KOSHI_OK);
        status = koshi_channel_push(shared, rows[number], 3, DIM, DIM, NULL);
        CHECK(status == KOSHI_OK || status == KOSHI_E_HANDLE || status == KOSHI_E_BUSY || status == KOSHI_E_CANCELLED);
        status = koshi_channel_new(decoder, &channel, NULL);
        CHECK(status == KOSHI_OK || status == KOSHI_E_HANDLE);
        if (status == KOSHI_OK && number == 0)
            CHECK(koshi_channel_begin(channel, NULL) == KOSHI_OK);
        CHECK(koshi_channel_free(channel) == KOSHI_OK);
        (void)koshi_path_graph_cost(path);
        if (number == 1)
            (void)koshi_channel_cancel(shared, NULL), (void)koshi_channel_begin(shared, NULL);
    }
    return NULL;
}

static void *free_all(void *argument)
{
    struct timespec pause = {0, 5000000};
    (void)argument;
    nanosleep(&pause, NULL);
    CHECK(koshi_graph_free(graph) == KOSHI_OK);
    CHECK(koshi_channel_free(shared) == KOSHI_OK);
    CHECK(koshi_path_free(path) == KOSHI_OK);
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK);
    return NULL;
}

static void freed_in_use(void)
{
    pthread_t thread;
    koshi_error *err = NULL;
    shared = open_channel(decoder);
    push(shared, rows[0], FRAMES, DIM);
    lattice = lattice_of(shared);
    path = best_of(shared);
    CHECK_OK(koshi_channel_begin(shared, &err), err);
    CHECK(pthread_create(&thread, NULL, free_all, NULL) == 0);
    in_each_thread(THREADS, use_until_gone);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(koshi_lattice_free(lattice) == KOSHI_E_HANDLE && koshi_channel_free(shared) == KOSHI_E_HANDLE);
}

int main(void)
{
    koshi_error *err = NULL;
    unsigned at;
    graph = random_graph(80, DIM, 21);
    CHECK_OK(koshi_decoder_new(graph, NULL, &decoder, &err), err);
    for (at = 0; at < THREADS; ++at) {
        rows[at] = random_rows(DIM * FRAMES, 30 + at);
        wanted[at] = decode(rows[at], FRAMES);
    }
    case_b52_lattices_at_once();
    one_channel();
    freed_in_use();
    for (at = 0; at < THREADS; ++at) {
        free(rows[at]);
        free(wanted[at].data);
    }
    return 0;
}
