/* Decodables of callbacks: what they are asked, what their failures do, and when their data is dropped. */

#include <pthread.h>
#include <time.h>

#include "fst.h"

struct model {
    koshi_channel *channel;     /* the one that asks */
    koshi_decodable *decodable; /* itself */
    int64_t ready;
    int32_t columns;
    float value;
    koshi_status fail_row, fail_ready, fail_columns;
    int busy_checks, asked, drops, free_inside;
    int per_column[4];
    int64_t last_frame;
};

static koshi_status row_of(void *user_data, int64_t frame, float *row, size_t dim)
{
    struct model *model = (struct model *)user_data;
    koshi_error *err = NULL;
    size_t at;
    CHECK(model->drops == 0 && dim == (size_t)model->columns);
    ++model->asked;
    model->last_frame = frame;
    if (model->busy_checks) {
        uint64_t frames = 77;
        float scores[1] = {-1};
        koshi_path *path = NULL;
        koshi_lattice *lattice = NULL;
        /* The channel and the decodable are in use by the call that runs this very callback. */
        CHECK_STATUS(KOSHI_E_BUSY, koshi_channel_push(model->channel, scores, 1, 1, 1, &err), err);
        CHECK_STATUS(KOSHI_E_BUSY, koshi_channel_begin(model->channel, &err), err);
        CHECK_STATUS(KOSHI_E_BUSY, koshi_channel_finish(model->channel, &err), err);
        CHECK_STATUS(KOSHI_E_BUSY, koshi_channel_best_path(model->channel, 0, &path, &err), err);
        CHECK_STATUS(KOSHI_E_BUSY, koshi_channel_lattice(model->channel, 0, &lattice, &err), err);
        CHECK_STATUS(KOSHI_E_BUSY, koshi_channel_advance(model->channel, model->decodable, 1, &frames, &err), err);
        CHECK(frames == 77 && path == NULL && lattice == NULL);
        CHECK(koshi_channel_num_frames(model->channel) == -1);
        CHECK(koshi_channel_reached_final(model->channel) == -1);
        CHECK(isnan(koshi_channel_final_relative_cost(model->channel)));
    }
    if (model->free_inside) {
        CHECK(koshi_decodable_free(model->decodable) == KOSHI_OK);
        CHECK(model->drops == 0);
    }
    for (at = 0; at < dim; ++at)
        row[at] = model->value;
    return model->fail_row;
}

static koshi_status column_of(void *user_data, int64_t frame, int32_t index, float *out)
{
    struct model *model = (struct model *)user_data;
    CHECK(index >= 0 && index < model->columns && index < 4);
    model->last_frame = frame;
    ++model->per_column[index];
    *out = model->value;
    return model->fail_row;
}

static int64_t ready(void *user_data)
{
    struct model *model = (struct model *)user_data;
    return model->fail_ready < 0 ? model->fail_ready : model->ready;
}

static int32_t is_last(void *user_data, int64_t frame)
{
    (void)user_data;
    (void)frame;
    return 0;
}

static int32_t columns(void *user_data)
{
    struct model *model = (struct model *)user_data;
    return model->fail_columns < 0 ? model->fail_columns : model->columns;
}

static void drop(void *user_data)
{
    ++((struct model *)user_data)->drops;
}

static koshi_decodable_ops ops_of_rows(void)
{
    koshi_decodable_ops ops;
    memset(&ops, 0, sizeof ops);
    ops.struct_size = sizeof ops;
    ops.frame_log_likelihoods = row_of;
    ops.num_frames_ready = ready;
    ops.is_last_frame = is_last;
    ops.num_indices = columns;
    return ops;
}

static void start(struct model *model, koshi_graph *graph, const koshi_decodable_ops *ops)
{
    koshi_error *err = NULL;
    memset(model, 0, sizeof *model);
    model->ready = 3;
    model->columns = 1;
    model->value = -1;
    model->channel = channel_over(graph);
    CHECK_OK(koshi_decodable_new(ops, model, drop, &model->decodable, &err), err);
}

static void stop(struct model *model)
{
    CHECK(koshi_channel_free(model->channel) == KOSHI_OK);
    CHECK(model->drops == 0);
    CHECK(koshi_decodable_free(model->decodable) == KOSHI_OK);
    CHECK(model->drops == 1);
}

/* One state that loops on label 1. */
static koshi_graph *loop(void)
{
    static const float finals[] = {0};
    static const struct fst_arc arcs[] = {{0, 1, 1, 0, 0}};
    return fst_graph(1, finals, arcs, 1);
}

static void frames_as_they_come(void)
{
    koshi_decodable_ops ops = ops_of_rows();
    struct model model;
    koshi_error *err = NULL;
    uint64_t frames = 9;
    start(&model, loop(), &ops);
    model.ready = 0;
    CHECK_OK(koshi_channel_advance(model.channel, model.decodable, -1, &frames, &err), err);
    CHECK(frames == 0 && model.asked == 0);
    model.ready = 5;
    CHECK_OK(koshi_channel_advance(model.channel, model.decodable, 2, &frames, &err), err);
    CHECK(frames == 2 && model.asked == 2 && model.last_frame == 1);
    CHECK_OK(koshi_channel_advance(model.channel, model.decodable, 0, &frames, &err), err);
    CHECK(frames == 0);
    CHECK_OK(koshi_channel_advance(model.channel, model.decodable, -1, NULL, &err), err);
    CHECK(model.asked == 5 && model.last_frame == 4 && koshi_channel_num_frames(model.channel) == 5);
    CHECK_OK(koshi_channel_begin(model.channel, &err), err);
    CHECK_OK(koshi_channel_advance(model.channel, model.decodable, 1, &frames, &err), err);
    CHECK(frames == 1 && model.last_frame == 0);
    stop(&model);
}

/* A callback that fails ends the call and leaves the channel usable. */
static void failures(void)
{
    koshi_decodable_ops ops = ops_of_rows();
    struct model model;
    koshi_error *err = NULL;
    uint64_t frames = 9;
    start(&model, loop(), &ops);
    CHECK_OK(koshi_channel_advance(model.channel, model.decodable, 1, &frames, &err), err);
    model.fail_row = -5;
    CHECK(koshi_channel_advance(model.channel, model.decodable, -1, &frames, &err) == KOSHI_E_CALLBACK);
    CHECK(strstr(koshi_error_message(err), "-5") != NULL);
    CHECK(koshi_error_free(err) == KOSHI_OK);
    err = NULL;
    CHECK(frames == 1 && koshi_channel_num_frames(model.channel) == 1);
    model.fail_row = KOSHI_OK;
    model.fail_ready = KOSHI_E_IO;
    CHECK_STATUS(KOSHI_E_CALLBACK, koshi_channel_advance(model.channel, model.decodable, -1, NULL, &err), err);
    model.fail_ready = KOSHI_OK;
    model.fail_columns = -1;
    CHECK_STATUS(KOSHI_E_CALLBACK, koshi_channel_advance(model.channel, model.decodable, -1, NULL, &err), err);
    model.fail_columns = KOSHI_OK;
    model.columns = 0;
    CHECK_STATUS(KOSHI_E_SHAPE, koshi_channel_advance(model.channel, model.decodable, -1, NULL, &err), err);
    model.columns = 1;
    CHECK_OK(koshi_channel_advance(model.channel, model.decodable, -1, &frames, &err), err);
    CHECK(frames == 2 && koshi_channel_num_frames(model.channel) == 3);
    stop(&model);
}

static void bad_scores(void)
{
    koshi_decodable_ops ops = ops_of_rows();
    int by_column;
    for (by_column = 0; by_column < 2; ++by_column) {
        struct model model;
        koshi_error *err = NULL;
        if (by_column) {
            ops.frame_log_likelihoods = NULL;
            ops.log_likelihood = column_of;
        }
        start(&model, loop(), &ops);
        CHECK_OK(koshi_channel_advance(model.channel, model.decodable, 1, NULL, &err), err);
        model.value = NAN;
        CHECK(koshi_channel_advance(model.channel, model.decodable, 1, NULL, &err) == KOSHI_E_SCORES);
        CHECK(strstr(koshi_error_message(err), "frame 1, column 0") != NULL);
        CHECK(koshi_error_free(err) == KOSHI_OK);
        err = NULL;
        CHECK_OK(koshi_channel_begin(model.channel, &err), err);
        model.value = -INFINITY;
        CHECK_STATUS(KOSHI_E_NO_TOKENS, koshi_channel_advance(model.channel, model.decodable, 1, NULL, &err), err);
        stop(&model);
    }
}

/* Without rows a column is asked for at most once a frame, and only where a token needs it. */
static void columns_that_are_needed(void)
{
    static const float finals[] = {INFINITY, INFINITY, 0};
    static const struct fst_arc arcs[] = {{0, 1, 0, 0, 1}, {0, 1, 1, 0, 2}, {0, 3, 2, 0, 2}, {1, 2, 0, 0, 1}};
    koshi_decodable_ops ops = ops_of_rows();
    struct model model;
    koshi_error *err = NULL;
    ops.frame_log_likelihoods = NULL;
    ops.log_likelihood = column_of;
    start(&model, fst_graph(3, finals, arcs, 4), &ops);
    model.columns = 4;
    CHECK_OK(koshi_channel_advance(model.channel, model.decodable, 1, NULL, &err), err);
    CHECK(model.per_column[0] == 1 && model.per_column[1] == 0 && model.per_column[2] == 1);
    CHECK_OK(koshi_channel_advance(model.channel, model.decodable, 1, NULL, &err), err);
    CHECK(model.per_column[0] == 1 && model.per_column[1] == 1 && model.per_column[2] == 1);
    CHECK(model.per_column[3] == 0);
    stop(&model);
}

static void busy_inside(void)
{
    koshi_decodable_ops ops = ops_of_rows();
    struct model model;
    koshi_error *err = NULL;
    start(&model, loop(), &ops);
    model.busy_checks = 1;
    CHECK_OK(koshi_channel_advance(model.channel, model.decodable, -1, NULL, &err), err);
    CHECK(model.asked == 3);
    stop(&model);
}

/* Freed by its own callback: no further one follows, and the data is dropped when the call ends. */
static void freed_inside(void)
{
    koshi_decodable_ops ops = ops_of_rows();
    struct model model;
    koshi_error *err = NULL;
    start(&model, loop(), &ops);
    model.free_inside = 1;
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_channel_advance(model.channel, model.decodable, -1, NULL, &err), err);
    CHECK(model.asked == 1 && model.drops == 1);
    CHECK(koshi_decodable_free(model.decodable) == KOSHI_E_HANDLE);
    CHECK(koshi_channel_num_frames(model.channel) == 1);
    CHECK(koshi_channel_free(model.channel) == KOSHI_OK);
}

/* The channel freed by a callback that it runs: the call ends normally. */
static koshi_status free_channel(void *user_data, int64_t frame, float *row, size_t dim)
{
    struct model *model = (struct model *)user_data;
    CHECK(koshi_channel_free(model->channel) == (frame == 0 ? KOSHI_OK : KOSHI_E_HANDLE));
    return row_of(user_data, frame, row, dim);
}

static void channel_freed_inside(void)
{
    koshi_decodable_ops ops = ops_of_rows();
    struct model model;
    koshi_error *err = NULL;
    ops.frame_log_likelihoods = free_channel;
    start(&model, loop(), &ops);
    CHECK_OK(koshi_channel_advance(model.channel, model.decodable, -1, NULL, &err), err);
    CHECK(model.asked == 3 && koshi_channel_num_frames(model.channel) == -1);
    CHECK(koshi_decodable_free(model.decodable) == KOSHI_OK && model.drops == 1);
}

/* Registering that fails drops the data as well. */
static void refused(void)
{
    koshi_decodable_ops ops = ops_of_rows(), broken;
    koshi_decodable *decodable = NULL;
    struct model model;
    koshi_error *err = NULL;
    int drops = 0;
    memset(&model, 0, sizeof model);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decodable_new(NULL, &model, drop, &decodable, &err), err);
    CHECK(model.drops == ++drops);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decodable_new(&ops, &model, drop, NULL, &err), err);
    CHECK(model.drops == ++drops);
    broken = ops;
    broken.frame_log_likelihoods = NULL;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decodable_new(&broken, &model, drop, &decodable, &err), err);
    CHECK(model.drops == ++drops);
    broken = ops;
    broken.num_frames_ready = NULL;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decodable_new(&broken, &model, drop, &decodable, &err), err);
    CHECK(model.drops == ++drops);
    broken = ops;
    broken.is_last_frame = NULL;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decodable_new(&broken, &model, drop, &decodable, &err), err);
    CHECK(model.drops == ++drops);
    broken = ops;
    broken.num_indices = NULL;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decodable_new(&broken, &model, drop, &decodable, &err), err);
    CHECK(model.drops == ++drops);
    broken = ops;
    broken.reserved = 1;
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, koshi_decodable_new(&broken, &model, drop, &decodable, &err), err);
    CHECK(model.drops == ++drops);
    broken = ops;
    broken.struct_size = 8;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decodable_new(&broken, &model, drop, &decodable, &err), err);
    CHECK(model.drops == ++drops);
    CHECK(decodable == NULL);
}

/* Freed by another thread while a callback runs: the free waits for it. */
struct race {
    pthread_mutex_t lock;
    pthread_cond_t turn;
    int inside, freed, left;
    int64_t frames;
};

static koshi_status slow(void *user_data, int64_t frame, float *row, size_t dim)
{
    struct race *race = (struct race *)user_data;
    struct timespec pause = {0, 30000000};
    CHECK(dim == 1);
    pthread_mutex_lock(&race->lock);
    CHECK(frame == race->frames && race->freed == 0);
    race->inside = 1;
    race->left = 0;
    pthread_cond_broadcast(&race->turn);
    pthread_mutex_unlock(&race->lock);
    nanosleep(&pause, NULL);
    pthread_mutex_lock(&race->lock);
    CHECK(race->freed == 0);
    race->left = 1;
    race->frames = frame + 1; /* mostly 1; more where the freeing thread had to wait for its turn */
    pthread_mutex_unlock(&race->lock);
    row[0] = -1;
    return KOSHI_OK;
}

static int64_t many(void *user_data)
{
    (void)user_data;
    return 1000000;
}

static int32_t single(void *user_data)
{
    (void)user_data;
    return 1;
}

static void dropped(void *user_data)
{
    struct race *race = (struct race *)user_data;
    pthread_mutex_lock(&race->lock);
    race->freed = 1;
    pthread_mutex_unlock(&race->lock);
}

struct work {
    koshi_channel *channel;
    koshi_decodable *decodable;
};

static void *advance(void *argument)
{
    struct work *work = (struct work *)argument;
    koshi_error *err = NULL;
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_channel_advance(work->channel, work->decodable, -1, NULL, &err), err);
    return NULL;
}

static void freed_by_another_thread(void)
{
    koshi_decodable_ops ops;
    struct race race;
    struct work work;
    pthread_t thread;
    koshi_error *err = NULL;
    memset(&race, 0, sizeof race);
    memset(&ops, 0, sizeof ops);
    ops.struct_size = sizeof ops;
    ops.frame_log_likelihoods = slow;
    ops.num_frames_ready = many;
    ops.is_last_frame = is_last;
    ops.num_indices = single;
    CHECK(pthread_mutex_init(&race.lock, NULL) == 0 && pthread_cond_init(&race.turn, NULL) == 0);
    work.channel = channel_over(loop());
    CHECK_OK(koshi_decodable_new(&ops, &race, dropped, &work.decodable, &err), err);
    CHECK(pthread_create(&thread, NULL, advance, &work) == 0);
    pthread_mutex_lock(&race.lock);
    while (!race.inside)
        pthread_cond_wait(&race.turn, &race.lock);
    pthread_mutex_unlock(&race.lock);
    CHECK(koshi_decodable_free(work.decodable) == KOSHI_OK);
    pthread_mutex_lock(&race.lock);
    CHECK(race.left == 1);
    pthread_mutex_unlock(&race.lock);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(race.freed == 1);
    CHECK(koshi_channel_num_frames(work.channel) == race.frames);
    CHECK(koshi_channel_free(work.channel) == KOSHI_OK);
}

int main(void)
{
    frames_as_they_come();
    failures();
    bad_scores();
    columns_that_are_needed();
    busy_inside();
    freed_inside();
    channel_freed_inside();
    refused();
    freed_by_another_thread();
    return 0;
}
