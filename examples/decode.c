/* Decodes utterances: prints their words, and writes their lattices.
 *
 *   cc decode.c -lkoshi -o decode
 *   ./decode trans.mdl HCLG.fst words.txt ark:loglikes.ark ark:lattices.ark
 *
 * The log-likelihoods, one row a frame and one column a pdf, are read from a Kaldi archive here. A program that
 * computes them itself pushes its own rows in the same way, as many at a time as it has.
 */

#include <stdio.h>
#include <stdlib.h>

#include <koshi.h>

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

/* The graph of a file, ready to be searched with the columns of a model's pdfs. */
static koshi_graph *read_graph(const char *graph_file, const char *model_file)
{
    koshi_error *err = NULL;
    koshi_transitions *transitions = NULL;
    koshi_graph *graph = NULL;
    check(koshi_transitions_read(model_file, &transitions, &err), &err);
    check(koshi_graph_read(graph_file, transitions, &graph, &err), &err);
    koshi_transitions_free(transitions); /* the graph keeps what it needs */
    return graph;
}

static koshi_decoder *new_decoder(const koshi_graph *graph)
{
    koshi_error *err = NULL;
    koshi_decoder *decoder = NULL;
    koshi_decoder_config config;
    check(koshi_decoder_config_init(&config, sizeof config, &err), &err);
    config.beam = 13;
    config.lattice_beam = 6;
    config.max_active = 7000;
    config.acoustic_scale = 0.083333f;
    check(koshi_decoder_new(graph, &config, &decoder, &err), &err);
    return decoder;
}

static void print_words(const char *key, koshi_channel *channel, const koshi_symbols *symbols)
{
    koshi_error *err = NULL;
    koshi_path *path = NULL;
    const int32_t *words;
    size_t at, num_words;
    check(koshi_channel_best_path(channel, 1, &path, &err), &err);
    words = koshi_path_olabels(path, &num_words);
    printf("%s", key);
    for (at = 0; at < num_words; ++at) {
        const char *word = koshi_symbols_name(symbols, words[at]);
        printf(" %s", word != NULL ? word : "<?>");
    }
    printf("\n");
    koshi_path_free(path);
}

static void write_lattice(const char *key, koshi_channel *channel, koshi_lattice_writer *writer)
{
    koshi_error *err = NULL;
    koshi_lattice *lattice = NULL;
    check(koshi_channel_lattice(channel, 1, &lattice, &err), &err);
    check(koshi_lattice_writer_write(writer, key, lattice, &err), &err);
    koshi_lattice_free(lattice);
}

static void decode(koshi_channel *channel, const koshi_matrix *matrix)
{
    koshi_error *err = NULL;
    size_t rows, columns;
    const float *scores = koshi_matrix_data(matrix, &rows, &columns);
    check(koshi_channel_begin(channel, &err), &err);
    check(koshi_channel_push(channel, scores, rows, columns, columns, &err), &err);
    check(koshi_channel_finish(channel, &err), &err);
}

int main(int argc, char *argv[])
{
    koshi_error *err = NULL;
    koshi_symbols *symbols = NULL;
    koshi_graph *graph;
    koshi_decoder *decoder;
    koshi_channel *channel = NULL;
    koshi_matrix_reader *reader = NULL;
    koshi_matrix *matrix = NULL;
    koshi_lattice_writer *writer = NULL;
    const char *key;

    if (argc != 6) {
        fprintf(stderr, "usage: decode MODEL GRAPH WORDS LOG-LIKELIHOODS LATTICES\n");
        return 1;
    }
    graph = read_graph(argv[2], argv[1]);
    check(koshi_symbols_read(argv[3], &symbols, &err), &err);
    decoder = new_decoder(graph);
    check(koshi_channel_new(decoder, &channel, &err), &err);

    check(koshi_matrix_reader_open(argv[4], &reader, &err), &err);
    check(koshi_lattice_writer_open(argv[5], &writer, &err), &err);
    for (;;) {
        check(koshi_matrix_reader_next(reader, &key, &matrix, &err), &err);
        if (matrix == NULL)
            break;
        decode(channel, matrix);
        print_words(key, channel, symbols);
        write_lattice(key, channel, writer);
        koshi_matrix_free(matrix);
    }
    check(koshi_lattice_writer_close(writer, &err), &err); /* only now is it certain that all was written */

    /* In any order; a handle keeps alive what it was made from. */
    koshi_lattice_writer_free(writer);
    koshi_matrix_reader_free(reader);
    koshi_channel_free(channel);
    koshi_decoder_free(decoder);
    koshi_graph_free(graph);
    koshi_symbols_free(symbols);
    return 0;
}
