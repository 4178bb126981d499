/* Plays prompts as many calls at the same time, at the pace of real speech, and decodes them all.
 *
 *   cc telephony.c -lkoshi -lpthread -o telephony
 *   ./telephony [--calls N] [--seconds S] [--packet P] [--quiet] trans.mdl HCLG.fst words.txt ark:loglikes.ark
 *
 * Each of N calls (200) plays one prompt after the other for S seconds (20); with 0 seconds one prompt each. Every P
 * seconds (0.1) a call submits the rows that have come meanwhile. Two threads feed all calls; threads of the
 * decoder's search them, and one more tells the listener below, which prints words as they come.
 * In the end it tells how long rows have waited and how often a packet came before the one in front was searched.
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <koshi.h>

enum { FEEDERS = 2, MOST_PROMPTS = 1000 };
static const double FRAME_SHIFT = 0.01;

struct prompt {
    koshi_matrix *matrix;
    const float *rows;
    size_t frames, columns;
};

struct call {
    int number;
    koshi_channel *channel;
    size_t prompt, sent; /* what it plays, and how many rows of that are submitted */
    size_t prompts;      /* how many it has begun */
    int over;            /* it has hung up */
};

struct feeder {
    pthread_t thread;
    size_t first, last; /* its calls */
    size_t packets, late, full, prompts;
    uint64_t memory; /* largest of its channels */
};

static struct prompt prompts[MOST_PROMPTS];
static size_t num_prompts;
static struct call *calls;
static size_t num_calls = 200;
static double seconds = 20, packet = 0.1;
static int quiet;
static koshi_symbols *symbols;
static double started;

/* Goes on after a success; else says why not, and ends the program. */
static void check(koshi_status status, koshi_error **err)
{
    if (status < 0) {
        const char *message = koshi_error_message(*err);
        fprintf(stderr, "%s: %s\n", koshi_status_name(status), message != NULL ? message : "no memory");
        koshi_error_free(*err);
        exit(1);
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void sleep_until(double when)
{
    double left = when - now();
    struct timespec time;
    if (left <= 0)
        return;
    time.tv_sec = (time_t)left;
    time.tv_nsec = (long)(1e9 * (left - (double)time.tv_sec));
    while (nanosleep(&time, &time) != 0 && errno == EINTR)
        ;
}

/* The listener. All of it runs on one thread of the decoder's, so lines do not mix. */

static void print_words(const struct call *call, const char *what, const koshi_path *path)
{
    size_t at, num_words;
    const int32_t *words = koshi_path_olabels(path, &num_words);
    printf("%8.3f call %d %s", now() - started, call->number, what);
    for (at = 0; at < num_words; ++at) {
        const char *word = koshi_symbols_name(symbols, words[at]);
        printf(" %s", word != NULL ? word : "<?>");
    }
    printf("\n");
}

static void on_partial(void *user_data, koshi_channel *channel)
{
    koshi_error *err = NULL;
    koshi_path *path = NULL;
    check(koshi_channel_partial(channel, &path, NULL, &err), &err);
    print_words((const struct call *)user_data, "...", path);
    koshi_path_free(path);
}

static void on_endpoint(void *user_data, koshi_channel *channel)
{
    printf("%8.3f call %d end point after %.2f s\n", now() - started, ((const struct call *)user_data)->number,
           FRAME_SHIFT * (double)koshi_channel_num_frames(channel));
}

static void on_finished(void *user_data, koshi_channel *channel)
{
    koshi_error *err = NULL;
    koshi_path *path = NULL;
    check(koshi_channel_best_path(channel, 1, &path, &err), &err);
    print_words((const struct call *)user_data, "said", path);
    koshi_path_free(path);
}

static void on_failed(void *user_data, koshi_channel *channel, koshi_status status, const char *message)
{
    (void)channel;
    printf("%8.3f call %d failed: %s: %s\n", now() - started, ((const struct call *)user_data)->number,
           koshi_status_name(status), message);
}

/* Begins the call's next prompt, if it has one; else it hangs up. */
static int next_prompt(struct call *call)
{
    koshi_error *err = NULL;
    call->over = seconds == 0 && call->prompts > 0;
    if (call->over)
        return 0;
    call->prompt = ((size_t)call->number + call->prompts) % num_prompts;
    call->sent = 0;
    ++call->prompts;
    check(koshi_channel_begin(call->channel, &err), &err);
    return 1;
}

/* A packet of a call is due. Answers 0 once the call is over. */
static int feed(struct feeder *feeder, struct call *call)
{
    koshi_error *err = NULL;
    const struct prompt *prompt = &prompts[call->prompt];
    koshi_status status = koshi_channel_wait(call->channel, 0, NULL);
    size_t frames = (size_t)(packet / FRAME_SHIFT + 0.5);
    ++feeder->packets;
    if (status == KOSHI_OK_PARTIAL)
        ++feeder->late; /* the one before is still waiting or being searched */
    if (call->prompts == 0 || call->sent == prompt->frames) {
        koshi_search_stats stats;
        if (status == KOSHI_OK_PARTIAL)
            return 1;
        if (call->prompts > 0) {
            ++feeder->prompts;
            check(koshi_channel_stats(call->channel, &stats, sizeof stats, &err), &err);
            feeder->memory = stats.memory > feeder->memory ? stats.memory : feeder->memory;
        }
        if (!next_prompt(call))
            return 0;
        prompt = &prompts[call->prompt];
    }
    if (frames > prompt->frames - call->sent)
        frames = prompt->frames - call->sent;
    status = koshi_channel_submit(call->channel, prompt->rows + call->sent * prompt->columns, frames, prompt->columns,
                                  prompt->columns, &err);
    if (status == KOSHI_E_FULL) {
        koshi_error_free(err);
        ++feeder->full; /* the rows stay where they are until the next packet */
        return 1;
    }
    check(status, &err);
    call->sent += frames;
    if (call->sent == prompt->frames)
        check(koshi_channel_finish(call->channel, &err), &err);
    return 1;
}

static void *run(void *argument)
{
    struct feeder *feeder = (struct feeder *)argument;
    double tick = started;
    size_t at, talking = 1;
    for (; talking > 0 && (seconds == 0 || tick < started + seconds); tick += packet) {
        talking = 0;
        for (at = feeder->first; at < feeder->last; ++at) {
            /* Calls do not begin at the same moment. */
            sleep_until(tick + packet * (double)at / (double)num_calls);
            talking += (size_t)(!calls[at].over && feed(feeder, &calls[at]));
        }
    }
    return NULL;
}

static koshi_decoder *new_decoder(const char *model_file, const char *graph_file)
{
    koshi_error *err = NULL;
    koshi_transitions *transitions = NULL;
    koshi_graph *graph = NULL;
    koshi_decoder *decoder = NULL;
    koshi_decoder_config config;
    check(koshi_transitions_read(model_file, &transitions, &err), &err);
    check(koshi_graph_read(graph_file, transitions, &graph, &err), &err);
    check(koshi_decoder_config_init(&config, sizeof config, &err), &err);
    config.beam = 13;
    config.lattice_beam = 6;
    config.max_active = 7000;
    config.acoustic_scale = 0.083333f;
    config.frame_shift = FRAME_SHIFT;
    check(koshi_decoder_new(graph, &config, &decoder, &err), &err);
    koshi_graph_free(graph);
    koshi_transitions_free(transitions);
    return decoder;
}

static void read_prompts(const char *rspecifier)
{
    koshi_error *err = NULL;
    koshi_matrix_reader *reader = NULL;
    const char *key;
    check(koshi_matrix_reader_open(rspecifier, &reader, &err), &err);
    for (; num_prompts < MOST_PROMPTS; ++num_prompts) {
        struct prompt *prompt = &prompts[num_prompts];
        check(koshi_matrix_reader_next(reader, &key, &prompt->matrix, &err), &err);
        if (prompt->matrix == NULL)
            break;
        prompt->rows = koshi_matrix_data(prompt->matrix, &prompt->frames, &prompt->columns);
    }
    koshi_matrix_reader_free(reader);
    if (num_prompts == 0) {
        fprintf(stderr, "%s: no prompts\n", rspecifier);
        exit(1);
    }
}

static void open_calls(koshi_decoder *decoder)
{
    koshi_channel_listener listener = {sizeof listener, 0, on_partial, on_endpoint, on_finished, on_failed};
    koshi_error *err = NULL;
    size_t at;
    calls = (struct call *)calloc(num_calls, sizeof *calls);
    if (calls == NULL) {
        fprintf(stderr, "no memory for %lu calls\n", (unsigned long)num_calls);
        exit(1);
    }
    for (at = 0; at < num_calls; ++at) {
        calls[at].number = (int)at;
        check(koshi_channel_new(decoder, &calls[at].channel, &err), &err);
        if (!quiet)
            check(koshi_channel_set_listener(calls[at].channel, &listener, &calls[at], NULL, &err), &err);
    }
}

static void report(koshi_decoder *decoder, const struct feeder *feeders, double cpu)
{
    koshi_error *err = NULL;
    koshi_metrics metrics;
    size_t packets = 0, late = 0, full = 0, said = 0, at;
    uint64_t memory = 0;
    double took = now() - started;
    check(koshi_decoder_metrics(decoder, &metrics, sizeof metrics, &err), &err);
    for (at = 0; at < FEEDERS; ++at) {
        packets += feeders[at].packets;
        late += feeders[at].late;
        full += feeders[at].full;
        said += feeders[at].prompts;
        memory = feeders[at].memory > memory ? feeders[at].memory : memory;
    }
    printf("%lu calls for %.1f s: %lu prompts, %lu packets, %lu late, %lu refused\n", (unsigned long)num_calls, took,
           (unsigned long)said, (unsigned long)packets, (unsigned long)late, (unsigned long)full);
    printf("latency p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, most %.1f ms\n", 1e3 * metrics.latency_p50,
           1e3 * metrics.latency_p90, 1e3 * metrics.latency_p99, 1e3 * metrics.latency_max);
    printf("%.0f frames in batches of %.1f channels; %.0f frames a second of search; CPU load %.2f\n",
           (double)metrics.frames, metrics.mean_batch, metrics.frames_per_second, cpu / took);
    printf("at most %.0f KiB a channel\n", (double)memory / 1024);
}

/* The value of an option, a number of at least `least`. */
static double value_of(const char *name, const char *text, double least)
{
    char *end = NULL;
    double value = text != NULL ? strtod(text, &end) : 0;
    if (text == NULL || end == text || *end != '\0' || !(value >= least && value <= 1e6)) {
        fprintf(stderr, "%s needs a number of at least %g\n", name, least);
        exit(1);
    }
    return value;
}

int main(int argc, char *argv[])
{
    struct feeder feeders[FEEDERS];
    koshi_decoder *decoder;
    koshi_error *err = NULL;
    clock_t before;
    size_t at;
    int next = 1;
    for (; next < argc && strncmp(argv[next], "--", 2) == 0; ++next) {
        const char *name = argv[next], *text = argv[next + 1]; /* argv ends with NULL */
        if (strcmp(name, "--quiet") == 0) {
            quiet = 1;
            continue;
        }
        if (strcmp(name, "--calls") == 0) {
            num_calls = (size_t)value_of(name, text, 1);
        } else if (strcmp(name, "--seconds") == 0) {
            seconds = value_of(name, text, 0);
        } else if (strcmp(name, "--packet") == 0) {
            packet = value_of(name, text, FRAME_SHIFT);
        } else {
            break;
        }
        ++next;
    }
    if (argc - next != 4) {
        fprintf(stderr, "usage: telephony [--calls N] [--seconds S] [--packet P] [--quiet] "
                        "MODEL GRAPH WORDS LOG-LIKELIHOODS\n");
        return 1;
    }
    decoder = new_decoder(argv[next], argv[next + 1]);
    check(koshi_symbols_read(argv[next + 2], &symbols, &err), &err);
    read_prompts(argv[next + 3]);
    open_calls(decoder);

    memset(feeders, 0, sizeof feeders);
    before = clock();
    started = now();
    for (at = 0; at < FEEDERS; ++at) {
        feeders[at].first = num_calls * at / FEEDERS;
        feeders[at].last = num_calls * (at + 1) / FEEDERS;
        if (pthread_create(&feeders[at].thread, NULL, run, &feeders[at]) != 0) {
            fprintf(stderr, "no thread can be made\n");
            return 1;
        }
    }
    for (at = 0; at < FEEDERS; ++at)
        pthread_join(feeders[at].thread, NULL);
    /* A prompt that is cut short here is forgotten; no listener is called any more. */
    for (at = 0; at < num_calls; ++at)
        koshi_channel_free(calls[at].channel);
    report(decoder, feeders, (double)(clock() - before) / CLOCKS_PER_SEC);

    koshi_decoder_free(decoder);
    koshi_symbols_free(symbols);
    for (at = 0; at < num_prompts; ++at)
        koshi_matrix_free(prompts[at].matrix);
    free(calls);
    return 0;
}
