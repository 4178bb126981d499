/* Best paths, oracle paths, unions and rescoring, as a C program uses them. */

#include <math.h>

#include "check.h"

static koshi_lattice *lattice_of(const char *text)
{
    koshi_lattice *lattice = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_lattice_from_memory((const uint8_t *)text, strlen(text), &lattice, &err), err);
    return lattice;
}

static koshi_language_model *model_of(const char *text, const koshi_symbols *symbols)
{
    koshi_language_model *model = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_language_model_from_memory((const uint8_t *)text, strlen(text), symbols, &model, &err), err);
    return model;
}

static koshi_symbols *symbols_of(const char *text)
{
    koshi_symbols *symbols = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_symbols_from_memory((const uint8_t *)text, strlen(text), &symbols, &err), err);
    return symbols;
}

static const char compact[] = "0 1 1 1,2,11_12\n0 1 2 2,2,13\n1 2 1 0,1,14\n2 0.5,0,15\n";

static void lists(void)
{
    koshi_lattice *lattice = lattice_of(compact);
    koshi_symbols *symbols = symbols_of("<eps> 0\none 1\ntwo 2\n");
    koshi_paths *paths = NULL;
    koshi_path *first, *second;
    koshi_buffer *json = NULL;
    const char *found;
    koshi_error *err = NULL;
    const int32_t *words;
    char text[32];
    size_t len = 0;

    CHECK_OK(koshi_lattice_nbest(lattice, 10, 0.5f, &paths, &err), err);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK);
    CHECK(koshi_paths_len(paths) == 2);
    first = koshi_paths_at(paths, 0);
    second = koshi_paths_at(paths, 1);
    CHECK(first != NULL && second != NULL && koshi_paths_at(paths, 2) == NULL);
    CHECK(koshi_paths_posterior(paths, 0) > koshi_paths_posterior(paths, 1));
    CHECK(fabs(koshi_paths_posterior(paths, 0) + koshi_paths_posterior(paths, 1) - 1) < 1e-9);
    CHECK(isnan(koshi_paths_posterior(paths, 2)));

    CHECK_OK(koshi_paths_to_json(paths, symbols, &json, &err), err);
    found = (const char *)koshi_buffer_data(json);
    CHECK(koshi_buffer_size(json) > 20 && found[0] == '{');
    CHECK(koshi_buffer_free(json) == KOSHI_OK);
    CHECK_OK(koshi_paths_to_json(paths, NULL, &json, &err), err);
    CHECK(koshi_buffer_free(json) == KOSHI_OK);

    /* A path outlives its list. */
    CHECK(koshi_paths_ref(paths) == paths);
    CHECK(koshi_paths_free(paths) == KOSHI_OK && koshi_paths_len(paths) == 2);
    CHECK(koshi_paths_free(paths) == KOSHI_OK && koshi_paths_len(paths) == -1);
    words = koshi_path_olabels(second, &len);
    CHECK(len == 2 && words[0] == 2 && words[1] == 1);
    CHECK(koshi_path_graph_cost(first) == 1.5 && koshi_path_acoustic_cost(first) == 3);
    CHECK_OK(koshi_path_text(first, symbols, text, sizeof text, &len, &err), err);
    CHECK(strcmp(text, "one one") == 0);
    CHECK(koshi_path_free(first) == KOSHI_OK && koshi_path_free(second) == KOSHI_OK);
    CHECK(koshi_symbols_free(symbols) == KOSHI_OK);
    CHECK(koshi_paths_free(NULL) == KOSHI_OK);
}

static void figures(void)
{
    static const int32_t reference[] = {2, 2, 1};
    koshi_lattice *lattice = lattice_of(compact), *other = lattice_of("0 1 5 9 0,0\n1\n"), *united = NULL;
    koshi_paths *paths = NULL;
    koshi_path *path = NULL;
    koshi_error *err = NULL;
    uint32_t errors = 99;

    CHECK(koshi_lattice_depth(lattice) == 1.25); /* five transition-ids over four frames */
    CHECK(isnan(koshi_lattice_depth(NULL)));
    CHECK_OK(koshi_lattice_oracle(lattice, reference, 3, &errors, NULL, &err), err);
    CHECK(errors == 1);
    CHECK_OK(koshi_lattice_oracle(lattice, reference, 3, &errors, &path, &err), err);
    CHECK(errors == 1 && koshi_path_graph_cost(path) == 2.5);
    CHECK(koshi_path_free(path) == KOSHI_OK);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_oracle(lattice, NULL, 3, &errors, NULL, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_oracle(lattice, reference, 3, NULL, NULL, &err), err);

    CHECK_OK(koshi_lattice_union(lattice, other, &united, &err), err);
    CHECK_OK(koshi_lattice_nbest(united, SIZE_MAX, 1, &paths, &err), err);
    CHECK(koshi_paths_len(paths) == 3);
    CHECK(koshi_paths_free(paths) == KOSHI_OK);
    paths = NULL;
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_lattice_nbest(NULL, 1, 1, &paths, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_nbest(united, 1, NAN, &paths, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_nbest(united, 1, 1, NULL, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_lattice_union(lattice, NULL, &united, &err), err);
    CHECK(paths == NULL);
    CHECK(koshi_lattice_free(united) == KOSHI_OK);
    CHECK(koshi_lattice_free(other) == KOSHI_OK && koshi_lattice_free(lattice) == KOSHI_OK);
}

static void rescoring(void)
{
    static const char arpa[] =
        "\\data\\\nngram 1=4\n\n\\1-grams:\n-1 one\n-2 two\n-99 <s>\n-0.5 </s>\n\n\\end\\\n";
    static const int32_t words[] = {1, 2}, unknown[] = {3};
    koshi_symbols *symbols = symbols_of("<eps> 0\none 1\ntwo 2\n<s> 3\n</s> 4\n");
    koshi_language_model *model = model_of(arpa, symbols), *none = NULL;
    koshi_lattice *lattice = lattice_of(compact), *rescored = NULL, *back = NULL;
    koshi_path *path = NULL;
    koshi_error *err = NULL;
    double cost = 0;

    CHECK_OK(koshi_language_model_cost(model, words, 2, &cost, &err), err);
    CHECK(fabs(cost - 3.5 * log(10)) < 1e-5);
    CHECK_OK(koshi_language_model_cost(model, unknown, 1, &cost, &err), err);
    CHECK(isinf(cost) && cost > 0);
    CHECK_STATUS(KOSHI_E_IO, koshi_language_model_read("/nowhere/at/all", symbols, &none, &err), err);
    CHECK_STATUS(KOSHI_E_FORMAT, koshi_language_model_from_memory((const uint8_t *)"x", 1, NULL, &none, &err), err);
    CHECK(none == NULL);

    CHECK_OK(koshi_lattice_rescore(lattice, NULL, model, 1, &rescored, &err), err);
    CHECK(koshi_language_model_ref(model) == model && koshi_language_model_free(model) == KOSHI_OK);
    CHECK_OK(koshi_lattice_rescore(rescored, model, NULL, 1, &back, &err), err);
    CHECK(koshi_language_model_free(model) == KOSHI_OK);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_lattice_rescore(lattice, model, NULL, 1, &back, &err), err);

    CHECK_OK(koshi_lattice_best_path(rescored, 1, &path, &err), err);
    CHECK(fabs(koshi_path_graph_cost(path) - 1.5 - 2.5 * log(10)) < 1e-5);
    CHECK(koshi_path_free(path) == KOSHI_OK);
    CHECK_OK(koshi_lattice_best_path(back, 1, &path, &err), err);
    CHECK(fabs(koshi_path_graph_cost(path) - 1.5) < 1e-5);
    CHECK(koshi_path_free(path) == KOSHI_OK);
    CHECK(koshi_lattice_free(back) == KOSHI_OK && koshi_lattice_free(rescored) == KOSHI_OK);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_symbols_free(symbols) == KOSHI_OK);
}

int main(void)
{
    lists();
    figures();
    rescoring();
    return 0;
}
