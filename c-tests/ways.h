/* The ways in which an utterance can be searched, from one thread or many. All must give the same bytes. */

#ifndef WAYS_H
#define WAYS_H

#include <pthread.h>

#include "fst.h"

/* Runs `body` in `count` threads at once, at most 16, each with its number, a size_t. */
static inline void in_each_thread(size_t count, void *(*body)(void *))
{
    pthread_t threads[16];
    size_t numbers[16], at;
    CHECK(count <= 16);
    for (at = 0; at < count; ++at) {
        numbers[at] = at;
        CHECK(pthread_create(&threads[at], NULL, body, &numbers[at]) == 0);
    }
    for (at = 0; at < count; ++at)
        CHECK(pthread_join(threads[at], NULL) == 0);
}

/* Log-likelihoods of an utterance, row after row. At least 16 frames. */
struct scores {
    const float *rows;
    size_t frames, dim;
};

static inline struct bytes copy(struct bytes bytes)
{
    struct bytes other = {NULL, 0, 0};
    add(&other, bytes.data, bytes.size);
    return other;
}

/* The result of pushes of `chunk` rows. */
static inline struct bytes pushed(koshi_decoder *decoder, const struct scores *scores, size_t chunk)
{
    koshi_channel *channel = open_channel(decoder);
    koshi_error *err = NULL;
    struct bytes result;
    size_t done = 0;
    while (done < scores->frames) {
        size_t now = chunk < scores->frames - done ? chunk : scores->frames - done;
        push(channel, scores->rows + scores->dim * done, now, scores->dim);
        done += now;
    }
    CHECK_OK(koshi_channel_finish(channel, &err), err);
    result = result_of(channel);
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
    return result;
}

static inline koshi_status column_of_scores(void *user_data, int64_t frame, int32_t index, float *out)
{
    const struct scores *scores = (const struct scores *)user_data;
    CHECK(frame >= 0 && (size_t)frame < scores->frames && index >= 0 && (size_t)index < scores->dim);
    *out = scores->rows[scores->dim * (size_t)frame + (size_t)index];
    return KOSHI_OK;
}

static inline koshi_status row_of_scores(void *user_data, int64_t frame, float *row, size_t dim)
{
    const struct scores *scores = (const struct scores *)user_data;
    CHECK(frame >= 0 && (size_t)frame < scores->frames && dim == scores->dim);
    memcpy(row, scores->rows + dim * (size_t)frame, sizeof(float) * dim);
    return KOSHI_OK;
}

static inline int64_t frames_of_scores(void *user_data)
{
    return (int64_t)((const struct scores *)user_data)->frames;
}

static inline int32_t last_of_scores(void *user_data, int64_t frame)
{
    return frame + 1 == (int64_t)((const struct scores *)user_data)->frames;
}

static inline int32_t columns_of_scores(void *user_data)
{
    return (int32_t)((const struct scores *)user_data)->dim;
}

enum source { MATRIX, ROWS, COLUMNS };

/* The result of frames pulled from a decodable, `chunk` at a time. */
static inline struct bytes pulled(koshi_decoder *decoder, const struct scores *scores, enum source source, int64_t chunk)
{
    koshi_channel *channel = open_channel(decoder);
    koshi_decodable *decodable = NULL;
    koshi_decodable_ops ops;
    koshi_error *err = NULL;
    struct bytes result;
    uint64_t frames = 0, done = 0;
    memset(&ops, 0, sizeof ops);
    ops.struct_size = sizeof ops;
    ops.num_frames_ready = frames_of_scores;
    ops.is_last_frame = last_of_scores;
    ops.num_indices = columns_of_scores;
    if (source == ROWS)
        ops.frame_log_likelihoods = row_of_scores;
    else
        ops.log_likelihood = column_of_scores;
    if (source == MATRIX)
        CHECK_OK(koshi_decodable_from_matrix(scores->rows, scores->frames, scores->dim, scores->dim, &decodable, &err), err);
    else
        CHECK_OK(koshi_decodable_new(&ops, (void *)(uintptr_t)scores, NULL, &decodable, &err), err);
    do {
        CHECK_OK(koshi_channel_advance(channel, decodable, chunk, &frames, &err), err);
        done += frames;
    } while (frames > 0 && chunk >= 0);
    CHECK(done == scores->frames);
    CHECK(koshi_decodable_free(decodable) == KOSHI_OK);
    result = result_of(channel);
    CHECK(koshi_channel_free(channel) == KOSHI_OK);
    return result;
}

/* The result of the channel in the middle of a batch whose neighbours do other things. */
static inline struct bytes among_others(koshi_decoder *decoder, const struct scores *scores, size_t chunk)
{
    koshi_channel *channels[5];
    koshi_decoder_item items[5];
    koshi_error *err = NULL;
    struct bytes result;
    size_t done = 0;
    int at;
    for (at = 0; at < 5; ++at)
        channels[at] = open_channel(decoder);
    while (done < scores->frames) {
        size_t now = chunk < scores->frames - done ? chunk : scores->frames - done;
        memset(items, 0, sizeof items);
        for (at = 0; at < 5; ++at) {
            items[at].channel = channels[at];
            items[at].rows = scores->rows + scores->dim * (at == 2 ? done : (size_t)(at * 3));
            items[at].frames = at == 2 ? now : (size_t)at;
            items[at].dim = items[at].stride = scores->dim;
        }
        CHECK_OK(koshi_decoder_advance(decoder, items, 5, sizeof items[0], &err), err);
        done += now;
    }
    result = result_of(channels[2]);
    for (at = 0; at < 5; ++at)
        CHECK(koshi_channel_free(channels[at]) == KOSHI_OK);
    return result;
}

#endif
