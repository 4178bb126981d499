/* Handles that need a call for themselves, wanted by two threads: whoever comes second is told so, nothing happens twice
 * or not at all, and a handle that is freed under a call lets that call end.
 *
 * Tables stand still in the middle of a call because the pipe that they read is empty, or the one that they write is
 * full. Channels, decodables and streams that are held by a callback are in callbacks.c and transducer.c. */

#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

#include "misuse/fixtures.h"

static char folder[] = "/tmp/koshi-busy-XXXXXX";

static void pause_shortly(void)
{
    struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
}

static int bytes_in(int pipe)
{
    int count = 0;
    CHECK(ioctl(pipe, FIONREAD, &count) == 0);
    return count;
}

/* A kind of table: how it is opened over the pipe, used once, and freed. */
struct kind {
    void *(*open)(void);
    koshi_status (*use)(void *table, koshi_error **err);
    koshi_status (*free)(void *table);
};

#define KIND(name, opening, using_)                                              \
    static void *open_##name(void)                                               \
    {                                                                            \
        koshi_##name *made = NULL;                                               \
        opening;                                                                 \
        return made;                                                             \
    }                                                                            \
    static koshi_status use_##name(void *table, koshi_error **err)               \
    {                                                                            \
        koshi_##name *made = (koshi_##name *)table;                              \
        using_;                                                                  \
    }                                                                            \
    static koshi_status free_##name(void *table)                                 \
    {                                                                            \
        return koshi_##name##_free((koshi_##name *)table);                       \
    }                                                                            \
    static const struct kind name = {open_##name, use_##name, free_##name};

static koshi_status freed_if(koshi_status status, koshi_status freed)
{
    CHECK(freed == KOSHI_OK);
    return status;
}

KIND(matrix_reader, MADE(koshi_matrix_reader_open("ark:pipe", &made, NULL)), {
    const char *key;
    koshi_matrix *value = NULL;
    koshi_status status = koshi_matrix_reader_next(made, &key, &value, err);
    return freed_if(status, koshi_matrix_free(value));
})
KIND(lattice_reader, MADE(koshi_lattice_reader_open("ark:pipe", &made, NULL)), {
    const char *key;
    koshi_lattice *value = NULL;
    koshi_status status = koshi_lattice_reader_next(made, &key, &value, err);
    return freed_if(status, koshi_lattice_free(value));
})
KIND(egs_reader, MADE(koshi_egs_reader_open("ark:pipe", KOSHI_EGS_NNET, &made, NULL)), {
    const char *key;
    koshi_example *value = NULL;
    koshi_status status = koshi_egs_reader_next(made, &key, &value, err);
    return freed_if(status, koshi_example_free(value));
})
KIND(egs_table, MADE(koshi_egs_table_open("ark:pipe", KOSHI_EGS_NNET, &made, NULL)), {
    koshi_example *value = NULL;
    koshi_status status = koshi_egs_table_find(made, "b", &value, err);
    return freed_if(status, koshi_example_free(value));
})

/* More of each than a pipe holds. */
enum { MANY = 200000 };
static int32_t many[MANY];
static koshi_lattice *long_lattice;
static koshi_example *wide_example;

KIND(int_writer, MADE(koshi_int_writer_open("ark:pipe", &made, NULL)),
     return koshi_int_writer_write(made, "a", many, MANY, err);)
KIND(lattice_writer, MADE(koshi_lattice_writer_open("ark:pipe", &made, NULL)),
     return koshi_lattice_writer_write(made, "a", long_lattice, err);)
KIND(egs_writer, MADE(koshi_egs_writer_open("ark:pipe", KOSHI_EGS_NNET, &made, NULL)),
     return koshi_egs_writer_write(made, "a", wide_example, err);)

static void make_much(void)
{
    char *text = (char *)malloc(2 * MANY + 100), *end = text;
    float *rows = (float *)calloc(MANY, sizeof *rows);
    koshi_example_parts parts;
    int at;
    CHECK(text != NULL && rows != NULL);
    end += sprintf(end, "\n0 1 1 1,2,1");
    for (at = 1; at < MANY; ++at) {
        many[at] = at;
        memcpy(end, "_1", 2), end += 2;
    }
    end += sprintf(end, "\n1 0,0,\n\n");
    MADE(koshi_lattice_from_memory((const uint8_t *)text, (size_t)(end - text), &long_lattice, NULL));
    MADE(koshi_example_parts_init(&parts, sizeof parts, NULL));
    parts.rows = rows;
    parts.num_rows = 1;
    parts.dim = parts.stride = MANY;
    MADE(koshi_example_new(&parts, &wide_example, NULL));
    free(text);
    free(rows);
}

/* The call that stands still. */
struct call {
    const struct kind *kind;
    void *table;
    koshi_status status;
};

static void *run(void *argument)
{
    struct call *call = (struct call *)argument;
    call->status = call->kind->use(call->table, NULL);
    return NULL;
}

/* Opening a pipe waits for its other end, so the other end is opened for both. */
static int other_end(void)
{
    int end;
    CHECK(mkfifo("pipe", 0600) == 0);
    end = open("pipe", O_RDWR);
    CHECK(end >= 0);
    return end;
}

static void in_use(struct call *call, int free_it)
{
    koshi_error *err = NULL;
    CHECK_STATUS(KOSHI_E_BUSY, call->kind->use(call->table, &err), err);
    CHECK(call->kind->use(call->table, NULL) == KOSHI_E_BUSY);
    if (free_it) {
        CHECK(call->kind->free(call->table) == KOSHI_OK);
        CHECK_STATUS(KOSHI_E_HANDLE, call->kind->use(call->table, &err), err);
        CHECK(call->kind->free(call->table) == KOSHI_E_HANDLE);
    }
}

/* What `archive` holds, an entry, is read once; of the same again the reader is given a half, and waits for the rest. */
static void reading(const struct kind *kind, const char *archive, int free_it)
{
    char entry[4096];
    FILE *file = fopen(archive, "rb");
    size_t size = file == NULL ? 0 : fread(entry, 1, sizeof entry, file), half = size / 2;
    struct call call;
    pthread_t thread;
    int end = other_end();
    CHECK(size > 2 && size < sizeof entry && fclose(file) == 0);
    call.kind = kind;
    call.table = kind->open();
    CHECK(write(end, entry, size) == (ssize_t)size);
    if (kind != &egs_table)
        CHECK(kind->use(call.table, NULL) == KOSHI_OK && bytes_in(end) == 0);
    CHECK(pthread_create(&thread, NULL, run, &call) == 0);
    entry[0] = 'b';
    CHECK(write(end, entry, half) == (ssize_t)half);
    while (bytes_in(end) > 0)
        pause_shortly();
    in_use(&call, free_it);
    CHECK(write(end, entry + half, size - half) == (ssize_t)(size - half));
    CHECK(pthread_join(thread, NULL) == 0 && call.status == KOSHI_OK);
    CHECK(kind->free(call.table) == (free_it ? KOSHI_E_HANDLE : KOSHI_OK));
    CHECK(close(end) == 0 && unlink("pipe") == 0);
}

/* Takes all that comes. */
static void *drain(void *argument)
{
    char data[4096];
    size_t sum = 0;
    ssize_t count;
    int pipe = *(const int *)argument;
    while ((count = read(pipe, data, sizeof data)) > 0)
        sum += (size_t)count;
    CHECK(count == 0 && sum > 100000);
    return NULL;
}

static void writing(const struct kind *kind, int free_it)
{
    struct call call;
    pthread_t thread, drainer;
    int end = other_end(), reader = open("pipe", O_RDONLY);
    CHECK(reader >= 0);
    call.kind = kind;
    call.table = kind->open();
    CHECK(pthread_create(&thread, NULL, run, &call) == 0);
    /* More comes than the pipe holds, so what is in it belongs to a call that cannot end. */
    while (bytes_in(end) == 0)
        pause_shortly();
    in_use(&call, free_it);
    CHECK(pthread_create(&drainer, NULL, drain, &reader) == 0);
    CHECK(pthread_join(thread, NULL) == 0 && call.status == KOSHI_OK);
    CHECK(kind->free(call.table) == (free_it ? KOSHI_E_HANDLE : KOSHI_OK));
    CHECK(close(end) == 0 && pthread_join(drainer, NULL) == 0);
    CHECK(close(reader) == 0 && unlink("pipe") == 0);
}

/* What is over before another thread could look: every call works or is told that the handle is in use, and as much
 * is done as was answered. */
enum { THREADS = 4, TRIES = 300 };
static koshi_channel *channel;
static koshi_decodable *decodable;
static koshi_transducer_stream *stream;
static koshi_example *example;
static long pushed[THREADS], streamed[THREADS];

static int worked(koshi_status status)
{
    CHECK(status == KOSHI_OK || status == KOSHI_E_BUSY);
    return status == KOSHI_OK;
}

static void *compete(void *argument)
{
    int number = *(const int *)argument, at;
    for (at = 0; at < TRIES; ++at) {
        uint64_t frames = 0;
        int32_t pdf = -5;
        float weight = -5;
        koshi_hypotheses *list = NULL;
        koshi_status status = koshi_channel_advance(channel, decodable, 1, &frames, NULL);
        /* At the end of the matrix nothing is left to pull. */
        pushed[number] += worked(status) ? (long)frames : 0;
        pushed[number] += worked(koshi_channel_push(channel, ZEROS, 2, 1, 1, NULL)) * 2;
        streamed[number] += worked(koshi_transducer_stream_push(stream, ZEROS, 1, 2, 2, NULL));
        status = koshi_transducer_stream_partial(stream, &list, NULL, NULL);
        CHECK((status == KOSHI_OK) == (list != NULL) && (worked(status), koshi_hypotheses_free(list)) == KOSHI_OK);
        worked(koshi_example_set_label(example, 0, number, (float)number + 1, NULL));
        /* Never half of one and half of another. */
        if (worked(koshi_example_label(example, 0, &pdf, &weight, NULL)))
            CHECK(weight == (float)pdf + 1);
    }
    return NULL;
}

static void competing(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS], at;
    long frames = 0, rows = 0;
    channel = make_channel();
    decodable = make_decodable();
    stream = make_transducer_stream();
    example = make_example();
    MADE(koshi_example_set_label(example, 0, 0, 1, NULL));
    for (at = 0; at < THREADS; ++at) {
        numbers[at] = at;
        CHECK(pthread_create(&threads[at], NULL, compete, &numbers[at]) == 0);
    }
    for (at = 0; at < THREADS; ++at) {
        CHECK(pthread_join(threads[at], NULL) == 0);
        frames += pushed[at];
        rows += streamed[at];
    }
    CHECK(frames > 0 && koshi_channel_num_frames(channel) == 3 + frames);
    CHECK(rows > 0 && koshi_transducer_stream_num_frames(stream) == 2 + rows);
    MADE(koshi_channel_free(channel));
    MADE(koshi_decodable_free(decodable));
    MADE(koshi_transducer_stream_free(stream));
    MADE(koshi_example_free(example));
}

int main(void)
{
    int free_it;
    char remove[sizeof folder + 10];
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
    write_files();
    write_file("matrix", MATRICES, (size_t)(strchr(MATRICES, 'b') - MATRICES));
    make_much();
    for (free_it = 0; free_it < 2; ++free_it) {
        reading(&matrix_reader, "matrix", free_it);
        reading(&lattice_reader, "lattices", free_it);
        reading(&egs_reader, "examples", free_it);
        reading(&egs_table, "examples", free_it);
        writing(&int_writer, free_it);
        writing(&lattice_writer, free_it);
        writing(&egs_writer, free_it);
    }
    competing();
    MADE(koshi_lattice_free(long_lattice));
    MADE(koshi_example_free(wide_example));
    sprintf(remove, "rm -r %s", folder);
    CHECK(system(remove) == 0);
    return 0;
}
