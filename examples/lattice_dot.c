/* Draws a lattice: writes it as a graph in Graphviz's language to standard output.
 *
 *   cc lattice_dot.c -lkoshi -o lattice_dot
 *   ./lattice_dot ark:lattices.ark words.txt allison-conf-muted 2 > lattice.dot
 *   dot -Tsvg lattice.dot -o lattice.svg
 *
 * `dot` comes with Graphviz (https://graphviz.org). Lattices are large: only what lies within the beam of the best path
 * is drawn, at the acoustic scale, which is 0.083333 unless a fifth argument says otherwise.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The lattice of an utterance; NULL if the table does not have it. */
static koshi_lattice *find_lattice(const char *table, const char *utterance)
{
    koshi_error *err = NULL;
    koshi_lattice_reader *reader = NULL;
    koshi_lattice *lattice = NULL;
    const char *key;
    check(koshi_lattice_reader_open(table, &reader, &err), &err);
    do {
        koshi_lattice_free(lattice);
        check(koshi_lattice_reader_next(reader, &key, &lattice, &err), &err);
    } while (lattice != NULL && strcmp(key, utterance) != 0);
    koshi_lattice_reader_free(reader);
    return lattice;
}

int main(int argc, char *argv[])
{
    koshi_error *err = NULL;
    koshi_symbols *symbols = NULL;
    koshi_lattice *lattice, *pruned = NULL;
    koshi_buffer *text = NULL;
    size_t size;
    int written;

    if (argc != 5 && argc != 6) {
        fprintf(stderr, "usage: lattice_dot LATTICES WORDS UTTERANCE BEAM [ACOUSTIC-SCALE]\n");
        return 1;
    }
    check(koshi_symbols_read(argv[2], &symbols, &err), &err);
    lattice = find_lattice(argv[1], argv[3]);
    if (lattice == NULL) {
        fprintf(stderr, "%s has no lattice of %s\n", argv[1], argv[3]);
        return 1;
    }
    check(koshi_lattice_prune(lattice, strtof(argv[4], NULL), argc > 5 ? strtof(argv[5], NULL) : 0.083333f, &pruned, &err),
          &err);
    check(koshi_lattice_to_dot(pruned, symbols, &text, &err), &err);
    size = (size_t)koshi_buffer_size(text);
    written = fwrite(koshi_buffer_data(text), 1, size, stdout) == size && fflush(stdout) == 0;

    koshi_buffer_free(text);
    koshi_lattice_free(pruned);
    koshi_lattice_free(lattice);
    koshi_symbols_free(symbols);
    return written ? 0 : 1;
}
