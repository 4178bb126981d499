/* Times the first frame of a graph by the wall clock: opening it, making a decoder and a channel, and pushing one row.
 *
 *   cc -O2 first_frame.c -lkoshi -o first_frame
 *   ./first_frame trans.mdl HCLG.koshi           the file as it is in the page cache
 *   ./first_frame --cold trans.mdl HCLG.koshi    the file put out of the page cache first (Linux)
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <koshi.h>

static void check(koshi_status status, koshi_error **err)
{
    if (status < 0) {
        fprintf(stderr, "%s\n", *err != NULL ? koshi_error_message(*err) : koshi_status_name(status));
        exit(1);
    }
}

static double milliseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

/* Page faults that waited for the disk. */
static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_majflt;
}

static void put_out_of_memory(const char *path)
{
    int file = open(path, O_RDONLY);
    if (file < 0 || fsync(file) != 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0) {
        perror(path);
        exit(1);
    }
    close(file);
}

int main(int argc, char **argv)
{
    int cold = argc == 4 && strcmp(argv[1], "--cold") == 0;
    if (argc != 3 + cold) {
        fprintf(stderr, "usage: first_frame [--cold] trans.mdl HCLG.koshi\n");
        return 1;
    }
    const char *model = argv[1 + cold], *path = argv[2 + cold];
    koshi_error *err = NULL;
    koshi_transitions *transitions = NULL;
    koshi_graph *graph = NULL;
    koshi_decoder *decoder = NULL;
    koshi_channel *channel = NULL;
    koshi_decoder_config config;
    check(koshi_transitions_read(model, &transitions, &err), &err);
    check(koshi_decoder_config_init(&config, sizeof config, &err), &err);
    config.backend = KOSHI_BACKEND_CPU;
    size_t dim = (size_t)koshi_transitions_num_pdfs(transitions);
    float *row = malloc(dim * sizeof *row);
    if (row == NULL)
        return 1;
    for (size_t at = 0; at < dim; at++)
        row[at] = -1 - 0.001f * (float)(at * 7919 % 1009);
    if (cold)
        put_out_of_memory(path);

    long before = faults();
    double begin = milliseconds();
    check(koshi_graph_read(path, transitions, &graph, &err), &err);
    double opened = milliseconds();
    check(koshi_decoder_new(graph, &config, &decoder, &err), &err);
    check(koshi_channel_new(decoder, &channel, &err), &err);
    check(koshi_channel_begin(channel, &err), &err);
    double begun = milliseconds();
    check(koshi_channel_push(channel, row, 1, dim, dim, &err), &err);
    double end = milliseconds();
    printf("%s: %.2f ms: opening %.2f, decoder and channel %.2f, first row %.2f; %ld faults waited for the disk\n",
           cold ? "cold" : "as it is", end - begin, opened - begin, begun - opened, end - begun, faults() - before);
    koshi_channel_free(channel);
    koshi_decoder_free(decoder);
    koshi_graph_free(graph);
    koshi_transitions_free(transitions);
    free(row);
    return 0;
}
