/* Training examples: made, looked at, cut, checked, written and read; handed over between threads. */

#include <pthread.h>
#include <time.h>

#include "check.h"

enum { PRODUCERS = 4, CONSUMERS = 4, BATCH = 16 };

/* An example of one labelled frame, with one row. */
static koshi_example *small(int32_t pdf)
{
    static const float row[2] = {1.5f, -2.0f};
    koshi_label label;
    koshi_example_parts parts;
    koshi_example *example = NULL;
    koshi_error *err = NULL;
    label.pdf = pdf;
    label.weight = 1.0f;
    CHECK_OK(koshi_example_parts_init(&parts, sizeof parts, &err), err);
    parts.labels = &label;
    parts.num_frames = 1;
    parts.rows = row;
    parts.num_rows = 1;
    parts.dim = 2;
    parts.stride = 2;
    CHECK_OK(koshi_example_new(&parts, &example, &err), err);
    return example;
}

static int32_t pdf_of(const koshi_example *example, size_t frame)
{
    int32_t pdf = -2;
    koshi_error *err = NULL;
    CHECK_OK(koshi_example_label(example, frame, &pdf, NULL, &err), err);
    return pdf;
}

/* 3 labelled frames within 6 rows of 2, 1 of left context; rows begin 5 apart. */
static koshi_example *large(void)
{
    static const koshi_label labels[4] = {{4, 0.25f}, {7, 0.75f}, {1, 1.0f}, {2, 1.0f}};
    static const uint32_t counts[3] = {2, 1, 1};
    static const float speaker[1] = {0.5f};
    float rows[5 * 6];
    size_t at;
    koshi_example_parts parts;
    koshi_example *example = NULL;
    koshi_error *err = NULL;
    for (at = 0; at < 5 * 6; ++at)
        rows[at] = at % 5 < 2 ? (float)(at / 5) + 10.0f * (float)(at % 5) : 1e30f;
    CHECK_OK(koshi_example_parts_init(&parts, sizeof parts, &err), err);
    parts.left_context = 1;
    parts.labels = labels;
    parts.label_counts = counts;
    parts.num_frames = 3;
    parts.rows = rows;
    parts.num_rows = 6;
    parts.dim = 2;
    parts.stride = 5;
    parts.speaker = speaker;
    parts.speaker_dim = 1;
    CHECK_OK(koshi_example_new(&parts, &example, &err), err);
    return example;
}

static void views(void)
{
    koshi_example *example = large();
    koshi_example_summary info;
    koshi_error *err = NULL;
    size_t len, rows, columns, at;
    int32_t pdf = 0;
    const koshi_label *labels = koshi_example_labels(example, &len);
    const uint32_t *offsets;
    const float *frames;
    CHECK(len == 4 && labels[1].pdf == 7 && labels[1].weight == 0.75f);
    offsets = koshi_example_label_offsets(example, &len);
    CHECK(len == 4 && offsets[0] == 0 && offsets[1] == 2 && offsets[2] == 3 && offsets[3] == 4);
    frames = koshi_example_frames(example, &rows, &columns);
    CHECK(rows == 6 && columns == 2);
    for (at = 0; at < 12; ++at) {
        float wanted = (float)(at / 2) + 10.0f * (float)(at % 2);
        CHECK(frames[at] > wanted - 0.001f && frames[at] < wanted + 0.001f);
    }
    CHECK(koshi_example_frames(example, NULL, NULL) == frames);
    CHECK(koshi_example_speaker(example, &len)[0] == 0.5f && len == 1);
    CHECK_OK(koshi_example_info(example, &info, sizeof info, &err), err);
    CHECK(info.num_frames == 3 && info.num_labels == 4 && info.num_rows == 6 && info.dim == 2);
    CHECK(info.left_context == 1 && info.right_context == 2 && info.speaker_dim == 1 && info.format == 2);
    CHECK_OK(koshi_example_check(example, &err), err);
    CHECK(pdf_of(example, 0) == 7 && pdf_of(example, 1) == 1);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_example_label(example, 3, &pdf, NULL, &err), err);
    CHECK_OK(koshi_example_set_label(example, 0, 9, 2.0f, &err), err);
    CHECK(pdf_of(example, 0) == 9 && pdf_of(example, 2) == 2);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_example_set_label(example, 3, 9, 2.0f, &err), err);
    CHECK(koshi_example_labels(NULL, &len) == NULL && len == 0);
    CHECK(koshi_example_free(example) == KOSHI_OK && koshi_example_free(example) == KOSHI_E_HANDLE);
    CHECK(koshi_example_frames(example, &rows, NULL) == NULL && rows == 0);
}

static void cuts(void)
{
    koshi_example *example = large(), *cut = NULL;
    koshi_example_summary info;
    koshi_error *err = NULL;
    CHECK_OK(koshi_example_extract(example, 1, 1, 0, 1, &cut, &err), err);
    CHECK_OK(koshi_example_info(cut, &info, sizeof info, &err), err);
    CHECK(info.num_frames == 1 && info.num_rows == 2 && info.left_context == 0 && pdf_of(cut, 0) == 1);
    CHECK(koshi_example_free(cut) == KOSHI_OK);
    CHECK_STATUS(KOSHI_OK_PARTIAL, koshi_example_extract(example, 1, 5, 4, -1, &cut, &err), err);
    CHECK_OK(koshi_example_info(cut, &info, sizeof info, &err), err);
    CHECK(info.num_frames == 2 && info.left_context == 1 && info.right_context == 2);
    CHECK(koshi_example_free(cut) == KOSHI_OK);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_example_extract(example, 3, 1, 0, 0, &cut, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_example_extract(example, 0, -2, 0, 0, &cut, &err), err);
    CHECK(koshi_example_free(example) == KOSHI_OK);
}

static void round_trip(void)
{
    koshi_example *example = large(), *again = NULL;
    koshi_buffer *one = NULL, *two = NULL;
    koshi_error *err = NULL;
    int64_t size;
    CHECK_OK(koshi_example_to_memory(example, 1, &one, &err), err);
    size = koshi_buffer_size(one);
    CHECK_OK(koshi_example_from_memory(koshi_buffer_data(one), (size_t)size, &again, &err), err);
    CHECK_OK(koshi_example_to_memory(again, 1, &two, &err), err);
    CHECK(koshi_buffer_size(two) == size);
    CHECK(memcmp(koshi_buffer_data(one), koshi_buffer_data(two), (size_t)size) == 0);
    CHECK(koshi_example_free(again) == KOSHI_OK && koshi_buffer_free(two) == KOSHI_OK);
    CHECK_STATUS(KOSHI_E_FORMAT, koshi_example_from_memory(koshi_buffer_data(one), (size_t)size - 1, &again, &err), err);
    CHECK(koshi_buffer_free(one) == KOSHI_OK && koshi_example_free(example) == KOSHI_OK);
}

static void refusals(void)
{
    static const float rows[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    koshi_example_parts parts;
    koshi_example *example = NULL;
    koshi_degs_parts other;
    koshi_degs *degs = NULL;
    koshi_egs_reader *reader = NULL;
    koshi_error *err = NULL;
    float nan = (float)strtod("nan", NULL);
    CHECK_OK(koshi_example_parts_init(&parts, sizeof parts, &err), err);
    parts.rows = rows;
    parts.num_rows = 2;
    parts.dim = 2;
    parts.stride = 1;
    CHECK_STATUS(KOSHI_E_SHAPE, koshi_example_new(&parts, &example, &err), err);
    parts.stride = 2;
    parts.compression = 9;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_example_new(&parts, &example, &err), err);
    parts.compression = KOSHI_COMPRESSION_AUTO;
    parts.rows = &nan;
    parts.num_rows = parts.dim = 1;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_example_new(&parts, &example, &err), err);
    parts.rows = NULL;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_example_new(&parts, &example, &err), err);
    parts.rows = rows;
    parts.left_context = 3;
    CHECK_OK(koshi_example_new(&parts, &example, &err), err);
    CHECK_STATUS(KOSHI_E_SHAPE, koshi_example_check(example, &err), err);
    CHECK(koshi_example_free(example) == KOSHI_OK);
    CHECK_OK(koshi_degs_parts_init(&other, sizeof other, &err), err);
    CHECK_OK(koshi_degs_new(&other, &degs, &err), err);
    CHECK(koshi_degs_weight(degs) == 1.0f);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_degs_check(degs, &err), err);
    CHECK(koshi_degs_free(degs) == KOSHI_OK);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_egs_reader_open("ark:x", 5, &reader, &err), err);
    CHECK_STATUS(KOSHI_E_IO, koshi_egs_reader_open("ark:/nowhere/at/all", KOSHI_EGS_NNET, &reader, &err), err);
}

/* Hand-over between threads. */
static koshi_examples_repository *repository;
static int total, each;
static unsigned char *seen;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static int working;

static void *produce(void *argument)
{
    int first = *(const int *)argument * each, at, last;
    koshi_example *batch[BATCH];
    size_t count = 0;
    koshi_error *err = NULL;
    for (at = first; at < first + each; ++at) {
        batch[count++] = small(at);
        if (count >= (size_t)(1 + at / 50 % BATCH) || at + 1 == first + each) {
            CHECK_OK(koshi_examples_repository_accept(repository, batch, count, &err), err);
            count = 0;
        }
    }
    pthread_mutex_lock(&counting);
    last = --working == 0;
    pthread_mutex_unlock(&counting);
    if (last)
        CHECK_OK(koshi_examples_repository_done(repository, &err), err);
    return NULL;
}

static void *consume(void *argument)
{
    koshi_example *batch[7];
    size_t count, at;
    koshi_error *err = NULL;
    (void)argument;
    for (;;) {
        CHECK_OK(koshi_examples_repository_provide(repository, batch, 7, &count, &err), err);
        if (count == 0)
            return NULL;
        for (at = 0; at < count; ++at) {
            int32_t pdf = pdf_of(batch[at], 0);
            CHECK(pdf >= 0 && pdf < total);
            ++seen[pdf]; /* whoever has an example is alone with its number */
            CHECK(koshi_example_free(batch[at]) == KOSHI_OK);
        }
    }
}

static void hand_over(size_t capacity)
{
    pthread_t producers[PRODUCERS], consumers[CONSUMERS];
    int numbers[PRODUCERS], at;
    koshi_error *err = NULL;
    seen = (unsigned char *)calloc((size_t)total, 1);
    working = PRODUCERS;
    CHECK_OK(koshi_examples_repository_new(capacity, &repository, &err), err);
    for (at = 0; at < PRODUCERS; ++at) {
        numbers[at] = at;
        CHECK(pthread_create(&producers[at], NULL, produce, &numbers[at]) == 0);
    }
    for (at = 0; at < CONSUMERS; ++at)
        CHECK(pthread_create(&consumers[at], NULL, consume, NULL) == 0);
    for (at = 0; at < PRODUCERS; ++at)
        CHECK(pthread_join(producers[at], NULL) == 0);
    for (at = 0; at < CONSUMERS; ++at)
        CHECK(pthread_join(consumers[at], NULL) == 0);
    for (at = 0; at < total; ++at)
        CHECK(seen[at] == 1);
    CHECK(koshi_examples_repository_free(repository) == KOSHI_OK);
    free(seen);
}

/* A thread comes to be inside of a call, or too late for it, which is no fault. */
static int waited(koshi_status status)
{
    CHECK(status == KOSHI_E_CANCELLED || status == KOSHI_E_HANDLE);
    return status == KOSHI_E_CANCELLED;
}

static void *wait_for_more(void *inside)
{
    koshi_example *example;
    size_t count;
    *(int *)inside = waited(koshi_examples_repository_provide(repository, &example, 1, &count, NULL));
    return NULL;
}

static void *wait_for_room(void *inside)
{
    koshi_example *example = small(1);
    *(int *)inside = waited(koshi_examples_repository_accept(repository, &example, 1, NULL));
    CHECK(pdf_of(example, 0) == 1); /* still ours */
    CHECK(koshi_example_free(example) == KOSHI_OK);
    return NULL;
}

/* Freed while a thread waits inside: it is told, and what nobody fetched is gone. Again, after a longer pause, where the
 * thread was not inside yet. */
static void freed_in_use(void *(*body)(void *), int filled)
{
    pthread_t thread;
    struct timespec pause = {0, 10000000};
    int inside = 0;
    while (!inside) {
        koshi_example *example = small(5);
        koshi_error *err = NULL;
        CHECK_OK(koshi_examples_repository_new(1, &repository, &err), err);
        if (filled)
            CHECK_OK(koshi_examples_repository_accept(repository, &example, 1, &err), err);
        CHECK(pthread_create(&thread, NULL, body, &inside) == 0);
        nanosleep(&pause, NULL);
        CHECK(koshi_examples_repository_free(repository) == KOSHI_OK);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(koshi_example_free(example) == (filled ? KOSHI_E_HANDLE : KOSHI_OK));
        if (pause.tv_nsec < 500000000)
            pause.tv_nsec *= 2;
    }
}

static void order_of_calls(void)
{
    koshi_example *example = small(3), *fetched = NULL;
    koshi_example *wrong[2];
    size_t count = 9;
    koshi_error *err = NULL;
    CHECK_OK(koshi_examples_repository_new(4, &repository, &err), err);
    wrong[0] = example;
    wrong[1] = (koshi_example *)garbage(0x1234);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_examples_repository_accept(repository, wrong, 2, &err), err);
    wrong[1] = example;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_examples_repository_accept(repository, wrong, 2, &err), err);
    CHECK_OK(koshi_examples_repository_accept(repository, NULL, 0, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_examples_repository_accept(repository, NULL, 1, &err), err);
    CHECK_OK(koshi_examples_repository_accept(repository, &example, 1, &err), err);
    CHECK_OK(koshi_examples_repository_done(repository, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_examples_repository_provide(repository, &fetched, 0, &count, &err), err);
    CHECK_OK(koshi_examples_repository_provide(repository, &fetched, 1, &count, &err), err);
    CHECK(count == 1 && pdf_of(fetched, 0) == 3);
    CHECK_STATUS(KOSHI_E_STATE, koshi_examples_repository_accept(repository, &fetched, 1, &err), err);
    CHECK(koshi_example_free(fetched) == KOSHI_OK);
    CHECK_OK(koshi_examples_repository_provide(repository, &fetched, 1, &count, &err), err);
    CHECK(count == 0);
    CHECK_OK(koshi_examples_repository_cancel(repository, &err), err);
    CHECK_STATUS(KOSHI_E_CANCELLED, koshi_examples_repository_provide(repository, &fetched, 1, &count, &err), err);
    CHECK(koshi_examples_repository_free(repository) == KOSHI_OK);
    CHECK(koshi_examples_repository_free(repository) == KOSHI_E_HANDLE);
}

int main(void)
{
    views();
    cuts();
    round_trip();
    refusals();
    order_of_calls();
    each = under_valgrind() ? 100 : 10000;
    total = PRODUCERS * each;
    hand_over(64);
    hand_over(0);
    freed_in_use(wait_for_more, 0);
    freed_in_use(wait_for_room, 1);
    return 0;
}
