/* Decodes utterances at several settings and prints tables: errors, work, time and memory of each.
 *
 *   cc tune.c -lkoshi -o tune
 *   ./tune trans.mdl HCLG.fst words.txt text ark:loglikes.ark 0.083333
 *
 * `text` has a line for each utterance, its key and what was said; then comes the acoustic scale, and how many runs
 * are made, 5 if that is left out. One thread; times are medians of the processor time of all runs. All columns but the
 * times are the same on every machine.
 */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <koshi.h>

enum { MOST_UTTERANCES = 10000, MOST_WORDS = 1000, MOST_RUNS = 100 };

struct utterance {
    char *key;
    koshi_matrix *scores;
    char *said;
};

static struct utterance utterances[MOST_UTTERANCES];
static size_t num_utterances;
static int num_runs = 5;
static const koshi_symbols *symbols;

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

static char *copy(const char *text)
{
    char *made = (char *)malloc(strlen(text) + 1);
    if (made == NULL)
        exit(1);
    return strcpy(made, text);
}

static void read_scores(const char *rspecifier)
{
    koshi_error *err = NULL;
    koshi_matrix_reader *reader = NULL;
    koshi_matrix *scores = NULL;
    const char *key = NULL;
    check(koshi_matrix_reader_open(rspecifier, &reader, &err), &err);
    while (num_utterances < MOST_UTTERANCES) {
        check(koshi_matrix_reader_next(reader, &key, &scores, &err), &err);
        if (key == NULL)
            break;
        utterances[num_utterances].key = copy(key);
        utterances[num_utterances++].scores = scores;
    }
    koshi_matrix_reader_free(reader);
}

static void read_text(const char *file)
{
    static char line[100000];
    FILE *in = fopen(file, "r");
    size_t at;
    if (in == NULL) {
        perror(file);
        exit(1);
    }
    while (fgets(line, sizeof line, in) != NULL) {
        size_t end = strcspn(line, " \t\n");
        char *said = line + end + (line[end] != '\0');
        line[end] = '\0';
        for (at = 0; at < num_utterances; ++at)
            if (strcmp(utterances[at].key, line) == 0)
                utterances[at].said = copy(said);
    }
    fclose(in);
}

/* Numbers of the words of a text, -1 for those that the table does not have; upper and lower case are alike. */
static size_t words_of(const char *text, int32_t *words)
{
    static char word[1000];
    size_t count = 0, len = 0;
    for (;; ++text) {
        if (*text != '\0' && !isspace((unsigned char)*text)) {
            if (len + 1 < sizeof word)
                word[len++] = *text;
            continue;
        }
        word[len] = '\0';
        if (len > 0 && count < MOST_WORDS) {
            size_t at;
            words[count] = koshi_symbols_find(symbols, word);
            for (at = 0; at < len; ++at)
                word[at] = (char)toupper((unsigned char)word[at]);
            if (words[count] < 0)
                words[count] = koshi_symbols_find(symbols, word);
            ++count;
        }
        len = 0;
        if (*text == '\0')
            return count;
    }
}

/* Least number of words put in, left out or changed. */
static size_t errors_in(const int32_t *found, size_t num_found, const char *said, size_t *num_said)
{
    static int32_t wanted[MOST_WORDS];
    static size_t costs[MOST_WORDS + 1];
    size_t row, column;
    *num_said = words_of(said, wanted);
    for (column = 0; column <= *num_said; ++column)
        costs[column] = column;
    for (row = 1; row <= num_found; ++row) {
        size_t diagonal = costs[0];
        costs[0] = row;
        for (column = 1; column <= *num_said; ++column) {
            size_t best = diagonal + (found[row - 1] != wanted[column - 1]);
            diagonal = costs[column];
            if (costs[column] + 1 < best)
                best = costs[column] + 1;
            if (costs[column - 1] + 1 < best)
                best = costs[column - 1] + 1;
            costs[column] = best;
        }
    }
    return costs[*num_said];
}

/* How utterances are decoded. */
struct setting {
    koshi_decoder_config options;
    size_t rows_a_push; /* 0: all */
    int partials;       /* whether the words so far are asked for after each push */
};

/* What a run over all utterances found. */
struct figures {
    size_t errors, words;
    double seconds, frames, tokens, arcs;
    double memory, formula; /* of the channel that takes most, and what that one takes at most */
    double lane;            /* working memory */
};

static void push_all(koshi_channel *channel, const struct setting *setting, const koshi_matrix *scores)
{
    koshi_error *err = NULL;
    size_t rows, columns, at, count;
    const float *data = koshi_matrix_data(scores, &rows, &columns);
    size_t most = setting->rows_a_push > 0 ? setting->rows_a_push : rows;
    for (at = 0; at < rows; at += count) {
        count = rows - at < most ? rows - at : most;
        check(koshi_channel_push(channel, data + at * columns, count, columns, columns, &err), &err);
        if (setting->partials) {
            koshi_path *path = NULL;
            check(koshi_channel_partial(channel, &path, NULL, &err), &err);
            koshi_path_free(path);
        }
    }
    check(koshi_channel_finish(channel, &err), &err);
}

/* The most bytes that a channel takes: docs/tuning.md says why. */
static double formula(const koshi_search_stats *stats, const koshi_decoder_config *options, size_t columns)
{
    double tokens = (double)stats->max_tokens, each = (double)stats->links / (double)stats->tokens;
    double wider = options->lattice_beam * options->lattice_beam / 36.0;
    double stretch = wider < 1 ? 1 : wider > 3 ? 3 : wider;
    double frame = each * tokens, window = stretch * options->link_budget / 2.0;
    window = (window < 8 * frame ? 8 * frame : window) + frame;
    window = window > stretch * 60 * frame ? stretch * 60 * frame : window;
    return 2 * (2 * (16 * window + 8 * window / each + 240 * stretch * (double)columns) + 24 * tokens +
                30 * (double)stats->trace_links);
}

static struct figures run(const koshi_decoder *decoder, const struct setting *setting)
{
    struct figures sum = {0, 0, 0, 0, 0, 0, 0, 0, 0};
    size_t at;
    for (at = 0; at < num_utterances; ++at) {
        koshi_error *err = NULL;
        koshi_channel *channel = NULL;
        koshi_path *path = NULL;
        koshi_lattice *lattice = NULL;
        koshi_search_stats stats;
        koshi_lattice_summary info;
        size_t columns, num_found, num_said = 0;
        const int32_t *found;
        clock_t begun = clock();
        check(koshi_channel_new(decoder, &channel, &err), &err);
        check(koshi_channel_begin(channel, &err), &err);
        push_all(channel, setting, utterances[at].scores);
        sum.seconds += (double)(clock() - begun) / CLOCKS_PER_SEC;
        check(koshi_channel_best_path(channel, 1, &path, &err), &err);
        found = koshi_path_olabels(path, &num_found);
        if (utterances[at].said != NULL)
            sum.errors += errors_in(found, num_found, utterances[at].said, &num_said);
        check(koshi_channel_stats(channel, &stats, sizeof stats, &err), &err);
        check(koshi_channel_lattice(channel, 1, &lattice, &err), &err);
        check(koshi_lattice_info(lattice, &info, sizeof info, &err), &err);
        koshi_matrix_data(utterances[at].scores, NULL, &columns);
        sum.words += num_said;
        sum.frames += (double)stats.frames;
        sum.tokens += (double)stats.tokens;
        sum.arcs += info.num_arcs;
        if ((double)stats.memory > sum.memory) {
            sum.memory = (double)stats.memory;
            sum.formula = formula(&stats, &setting->options, columns);
        }
        koshi_lattice_free(lattice);
        koshi_path_free(path);
        koshi_channel_free(channel);
    }
    return sum;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The figures of a setting, with the median of the times. */
static struct figures measure(const koshi_graph *graph, const struct setting *setting)
{
    koshi_error *err = NULL;
    koshi_decoder *decoder = NULL;
    struct figures found = {0, 0, 0, 0, 0, 0, 0, 0, 0};
    koshi_decoder_summary info;
    double seconds[MOST_RUNS];
    int at;
    check(koshi_decoder_new(graph, &setting->options, &decoder, &err), &err);
    for (at = 0; at < num_runs; ++at) {
        found = run(decoder, setting);
        seconds[at] = found.seconds;
    }
    qsort(seconds, (size_t)num_runs, sizeof seconds[0], by_size);
    found.seconds = seconds[num_runs / 2];
    check(koshi_decoder_info(decoder, &info, sizeof info, &err), &err);
    found.lane = (double)info.memory;
    koshi_decoder_free(decoder);
    return found;
}

/* Beam 13, lattice beam 6, at most 7000 and at least 200 tokens. */
static struct setting usual(float scale)
{
    koshi_error *err = NULL;
    struct setting setting;
    check(koshi_decoder_config_init(&setting.options, sizeof setting.options, &err), &err);
    setting.options.backend = KOSHI_BACKEND_CPU;
    setting.options.beam = 13;
    setting.options.lattice_beam = 6;
    setting.options.max_active = 7000;
    setting.options.acoustic_scale = scale;
    setting.rows_a_push = 0;
    setting.partials = 0;
    return setting;
}

static void beam_line(const koshi_graph *graph, const struct setting *setting)
{
    const koshi_decoder_config *options = &setting->options;
    struct figures found = measure(graph, setting);
    printf("| %g | %g | %u | %u | %u of %u | %.0f | %.1f | %.1f |\n", (double)options->beam,
           (double)options->lattice_beam, (unsigned)options->max_active, (unsigned)options->min_active,
           (unsigned)found.errors, (unsigned)found.words, found.tokens / found.frames, found.arcs / found.frames,
           found.seconds / found.frames * 1e6);
}

static void beams(const koshi_graph *graph, float scale)
{
    static const float beams[] = {8, 10, 12, 13, 15, 17}, lattice_beams[] = {1, 4, 8, 10};
    static const uint32_t most_active[] = {100, 200, 500, 1000}, least_active[] = {200, 0};
    struct setting setting = usual(scale);
    size_t at, least;
    puts("| beam | lattice_beam | max_active | min_active | errors | tokens a frame | lattice arcs a frame | µs a frame |");
    puts("|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (least = 0; least < sizeof least_active / sizeof least_active[0]; ++least) {
        setting.options.min_active = least_active[least];
        for (at = 0; at < sizeof beams / sizeof beams[0]; ++at) {
            setting.options.beam = beams[at];
            beam_line(graph, &setting);
        }
    }
    setting = usual(scale);
    for (at = 0; at < sizeof lattice_beams / sizeof lattice_beams[0]; ++at) {
        setting.options.lattice_beam = lattice_beams[at];
        beam_line(graph, &setting);
    }
    setting = usual(scale);
    setting.options.beam = 17;
    for (at = 0; at < sizeof most_active / sizeof most_active[0]; ++at) {
        setting.options.max_active = most_active[at];
        setting.options.min_active = most_active[at] < 200 ? most_active[at] : 200;
        beam_line(graph, &setting);
    }
}

static void pushes(const koshi_graph *graph, float scale)
{
    static const size_t rows_a_push[] = {1, 10, 50, 0};
    struct setting setting = usual(scale);
    size_t at;
    puts("\n| rows a push | µs a frame | with partial results |");
    puts("|---:|---:|---:|");
    for (at = 0; at < sizeof rows_a_push / sizeof rows_a_push[0]; ++at) {
        struct figures without, with;
        setting.rows_a_push = rows_a_push[at];
        setting.partials = 0;
        without = measure(graph, &setting);
        setting.partials = 1;
        with = measure(graph, &setting);
        if (rows_a_push[at] == 0)
            printf("| all");
        else
            printf("| %u", (unsigned)rows_a_push[at]);
        printf(" | %.1f | %.1f |\n", without.seconds / without.frames * 1e6, with.seconds / with.frames * 1e6);
    }
}

static void memory(const koshi_graph *graph, float scale)
{
    static const float beams[] = {10, 13, 17};
    static const uint32_t budgets[] = {80000, 10000, 1000};
    struct setting setting = usual(scale);
    size_t at, budget;
    puts("\n| beam | link_budget | KiB a channel | at most | KiB a lane | µs a frame |");
    puts("|---:|---:|---:|---:|---:|---:|");
    for (at = 0; at < sizeof beams / sizeof beams[0]; ++at)
        for (budget = 0; budget < sizeof budgets / sizeof budgets[0]; ++budget) {
            struct figures found;
            setting.options.beam = beams[at];
            setting.options.link_budget = budgets[budget];
            found = measure(graph, &setting);
            printf("| %g | %u | %.0f | %.0f | %.0f | %.1f |\n", (double)beams[at], (unsigned)budgets[budget],
                   found.memory / 1024, found.formula / 1024, found.lane / 1024, found.seconds / found.frames * 1e6);
        }
}

static void describe(const koshi_graph *graph)
{
    koshi_error *err = NULL;
    koshi_graph_summary info;
    check(koshi_graph_info(graph, &info, sizeof info, &err), &err);
    puts("\n| states | arcs | KiB of the graph |");
    puts("|---:|---:|---:|");
    printf("| %u | %u | %u |\n", info.num_states, info.num_arcs, (unsigned)(info.memory / 1024));
}

int main(int argc, char **argv)
{
    koshi_error *err = NULL;
    koshi_transitions *transitions = NULL;
    koshi_graph *graph = NULL;
    koshi_symbols *names = NULL;
    size_t at;
    float scale;
    if (argc == 8)
        num_runs = atoi(argv[7]);
    if (argc < 7 || argc > 8 || num_runs < 1 || num_runs > MOST_RUNS) {
        fprintf(stderr, "usage: %s transitions graph words text log-likelihoods acoustic-scale [runs]\n", argv[0]);
        return 1;
    }
    check(koshi_transitions_read(argv[1], &transitions, &err), &err);
    check(koshi_graph_read(argv[2], transitions, &graph, &err), &err);
    check(koshi_symbols_read(argv[3], &names, &err), &err);
    symbols = names;
    read_scores(argv[5]);
    read_text(argv[4]);
    scale = (float)atof(argv[6]);
    beams(graph, scale);
    pushes(graph, scale);
    memory(graph, scale);
    describe(graph);
    for (at = 0; at < num_utterances; ++at) {
        koshi_matrix_free(utterances[at].scores);
        free(utterances[at].key);
        free(utterances[at].said);
    }
    koshi_symbols_free(names);
    koshi_graph_free(graph);
    koshi_transitions_free(transitions);
    return 0;
}
