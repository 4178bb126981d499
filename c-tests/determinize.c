/* Determinization and minimization through the C face. */

#include "fst.h"

static koshi_lattice *lattice_from(const char *text)
{
    koshi_lattice *lattice = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_lattice_from_memory((const unsigned char *)text, strlen(text), &lattice, &err), err);
    return lattice;
}

static koshi_lattice_summary info_of(const koshi_lattice *lattice)
{
    koshi_lattice_summary info;
    koshi_error *err = NULL;
    CHECK_OK(koshi_lattice_info(lattice, &info, sizeof info, &err), err);
    return info;
}

static koshi_determinize_config defaults(void)
{
    koshi_determinize_config config;
    koshi_error *err = NULL;
    memset(&config, 0xff, sizeof config);
    CHECK_OK(koshi_determinize_config_init(&config, sizeof config, &err), err);
    return config;
}

static koshi_status determinize(const koshi_lattice *lattice, const koshi_transitions *transitions,
                                const koshi_determinize_config *config, koshi_error **err)
{
    koshi_lattice *found = NULL;
    float beam = -1;
    koshi_status status = koshi_lattice_determinize(lattice, transitions, config, &found, &beam, err);
    CHECK((found != NULL) == (status >= 0) && (beam != -1) == (status >= 0));
    CHECK(koshi_lattice_free(found) == KOSHI_OK);
    return status;
}

static void checks_defaults(void)
{
    koshi_determinize_config config = defaults();
    CHECK(config.struct_size == sizeof config && config.beam == 10 && config.acoustic_scale == 1);
    CHECK(config.phone_determinize == 1 && config.word_determinize == 1 && config.minimize == 0);
    CHECK(config.delta == 1.0f / 1024 && config.reserved == 0 && config.max_mem == 50000000);
}

/* Word 7 over 1 2 or, better, over 1 3; then word 8 over 4. */
#define TWO_WAYS "\n0 1 1 7 1,2\n1 2 2 0 1,0\n1 2 3 0 0,0\n2 3 4 8 0.25,0.5\n3 0,0\n\n"

static void keeps_the_better_way(void)
{
    koshi_lattice *lattice = lattice_from(TWO_WAYS), *found = NULL;
    koshi_error *err = NULL;
    const koshi_lattice_arc *arcs;
    const int32_t *string;
    size_t len = 0;
    float beam = 0;
    CHECK_OK(koshi_lattice_determinize(lattice, NULL, NULL, &found, &beam, &err), err);
    CHECK(beam == 10 && info_of(found).is_compact == 1 && info_of(found).num_frames == 3);
    arcs = koshi_lattice_arcs(found, &len);
    CHECK(len == 2 && arcs[0].olabel == 7 && arcs[0].ilabel == 7 && arcs[1].olabel == 8);
    CHECK(arcs[0].graph_cost == 1 && arcs[0].acoustic_cost == 2 && arcs[1].acoustic_cost == 0.5f);
    string = koshi_lattice_string(found, 0, &len);
    CHECK(len == 2 && string[0] == 1 && string[1] == 3);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_lattice_free(found) == KOSHI_OK);
}

/* Both frames of phone 2 may be its loop: a pass on phones needs a model, and only its ids. */
static const char model_text[] =
    "<TransitionModel>\n<Topology>\n<TopologyEntry>\n<ForPhones> 1 2 </ForPhones>\n"
    "<State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.5 </State>\n<State> 1 </State>\n"
    "</TopologyEntry>\n</Topology>\n<Triples> 2\n1 0 0\n2 0 1\n</Triples>\n"
    "<LogProbs>\n [ 0 -0.5 -0.5 -0.5 -0.5 ]\n</LogProbs>\n</TransitionModel>\n";

static void knows_phones(void)
{
    koshi_transitions *transitions = NULL;
    koshi_lattice *lattice = lattice_from(TWO_WAYS);
    koshi_lattice *foreign = lattice_from("\n0 1 1 7 1,2\n1 2 5 0 1,0\n2 0,0\n\n");
    koshi_determinize_config config = defaults();
    koshi_error *err = NULL;
    CHECK_OK(koshi_transitions_from_memory((const unsigned char *)model_text, strlen(model_text), &transitions, &err),
             err);
    CHECK_OK(determinize(lattice, transitions, NULL, &err), err);
    config.word_determinize = 0;
    CHECK_OK(determinize(lattice, transitions, &config, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, determinize(foreign, transitions, NULL, &err), err);
    config = defaults();
    config.phone_determinize = 0;
    CHECK_OK(determinize(foreign, transitions, &config, &err), err);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_lattice_free(foreign) == KOSHI_OK);
    CHECK(koshi_transitions_free(transitions) == KOSHI_OK);
    CHECK_STATUS(KOSHI_E_HANDLE, determinize(lattice, NULL, NULL, &err), err);
    lattice = lattice_from(TWO_WAYS);
    CHECK_STATUS(KOSHI_E_HANDLE, determinize(lattice, transitions, NULL, &err), err);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK);
}

static void refuses_bad_options(void)
{
    koshi_lattice *lattice = lattice_from(TWO_WAYS), *found = NULL;
    koshi_determinize_config config;
    koshi_error *err = NULL;
    float beam = 3;
    config = defaults(), config.beam = -1;
    CHECK_STATUS(KOSHI_E_CONFIG, determinize(lattice, NULL, &config, &err), err);
    config = defaults(), config.acoustic_scale = INFINITY;
    CHECK_STATUS(KOSHI_E_CONFIG, determinize(lattice, NULL, &config, &err), err);
    config = defaults(), config.delta = NAN;
    CHECK_STATUS(KOSHI_E_CONFIG, determinize(lattice, NULL, &config, &err), err);
    config = defaults(), config.minimize = 2;
    CHECK_STATUS(KOSHI_E_CONFIG, determinize(lattice, NULL, &config, &err), err);
    config = defaults(), config.reserved = 1;
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, determinize(lattice, NULL, &config, &err), err);
    config = defaults(), config.struct_size = 7;
    CHECK_STATUS(KOSHI_E_ARGUMENT, determinize(lattice, NULL, &config, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_determinize(lattice, NULL, NULL, NULL, &beam, &err), err);
    CHECK(beam == 3);
    CHECK_OK(koshi_lattice_determinize(lattice, NULL, NULL, &found, NULL, &err), err);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_lattice_free(found) == KOSHI_OK);
}

/* case_b40: 12 frames of 8 words side by side, and a kilobyte. */
static void keeps_the_best_path_under_a_cap(void)
{
    char text[4096] = "\n";
    koshi_determinize_config config = defaults();
    koshi_lattice *lattice, *found = NULL;
    koshi_error *err = NULL;
    float beam = -1;
    int frame, word;
    for (frame = 0; frame < 12; frame++)
        for (word = 1; word <= 8; word++)
            sprintf(text + strlen(text), "%d %d %d %d %d,0\n", frame, frame + 1, word, word, word);
    strcat(text, "12 0,0\n\n");
    lattice = lattice_from(text);
    config.beam = 8;
    config.max_mem = 1000;
    CHECK_STATUS(KOSHI_OK_PARTIAL, koshi_lattice_determinize(lattice, NULL, &config, &found, &beam, &err), err);
    CHECK(beam >= 0 && beam < 8);
    CHECK(info_of(found).best_graph_cost == 12 && info_of(found).num_frames == 12);
    CHECK(koshi_lattice_free(found) == KOSHI_OK);
    config.max_mem = 0;
    CHECK_OK(koshi_lattice_determinize(lattice, NULL, &config, &found, &beam, &err), err);
    CHECK(beam == 8 && info_of(found).num_arcs == 96);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_lattice_free(found) == KOSHI_OK);
}

/* case_b42: 1 or 2, then 5 6 on two chains. */
static void merges_equal_endings(void)
{
    koshi_lattice *lattice = lattice_from("\n0 1 1 1 1,0\n0 2 2 2 0.5,0\n1 3 5 5 0.25,0\n2 4 5 5 0.25,0\n"
                                          "3 5 6 6 0,1\n4 6 6 6 0,1\n5 0,0\n6 0,0\n\n");
    koshi_lattice *plain = NULL, *least = NULL;
    koshi_error *err = NULL;
    CHECK_OK(koshi_lattice_determinize(lattice, NULL, NULL, &plain, NULL, &err), err);
    CHECK_OK(koshi_lattice_minimize(plain, 1, 0, &least, &err), err);
    CHECK(info_of(plain).num_states == 7 && info_of(least).num_states == 4 && info_of(least).num_arcs == 4);
    CHECK(info_of(least).best_graph_cost == 0.75 && info_of(least).best_acoustic_cost == 1);
    CHECK(koshi_lattice_free(least) == KOSHI_OK);
    CHECK_STATUS(KOSHI_E_CONFIG, koshi_lattice_minimize(plain, 1, -1, &least, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_minimize(plain, NAN, 0, &least, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_minimize(plain, 1, 0, NULL, &err), err);
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, koshi_lattice_minimize(lattice, 1, 0, &least, &err), err);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK && koshi_lattice_free(plain) == KOSHI_OK);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_lattice_minimize(plain, 1, 0, &least, &err), err);
}

/* To compact form and back, and costs to the start. */
static void changes_the_form(void)
{
    koshi_lattice *raw = lattice_from("\n0 1 1 5 1,0\n1 2 2 0 0.5,2\n2 3 3 6 0.25,0\n3 0,1\n\n");
    koshi_lattice *compact = NULL, *back = NULL, *pushed = NULL;
    koshi_error *err = NULL;
    size_t len = 0;
    CHECK_OK(koshi_lattice_to_compact(raw, &compact, &err), err);
    CHECK(info_of(compact).is_compact == 1 && info_of(compact).num_arcs == 2);
    CHECK(koshi_lattice_string(compact, 0, &len)[1] == 2 && len == 2);
    CHECK_OK(koshi_lattice_to_raw(compact, &back, &err), err);
    CHECK(info_of(back).is_compact == 0 && info_of(back).num_arcs == 3 && info_of(back).best_graph_cost == 1.75);
    CHECK_OK(koshi_lattice_push(compact, 1, &pushed, &err), err);
    CHECK(koshi_lattice_arcs(pushed, &len)[0].graph_cost == 1.75f && len == 2);
    CHECK(koshi_lattice_arcs(pushed, NULL)[0].acoustic_cost == 3 && koshi_lattice_final_costs(pushed, NULL)[2].acoustic_cost == 0);
    CHECK(koshi_lattice_string(pushed, 0, &len)[2] == 3 && len == 3);
    CHECK_STATUS(KOSHI_E_UNSUPPORTED, koshi_lattice_push(raw, 1, &back, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_push(compact, NAN, &back, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_lattice_to_raw(compact, NULL, &err), err);
    CHECK(koshi_lattice_free(raw) == KOSHI_OK && koshi_lattice_free(back) == KOSHI_OK);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_lattice_to_compact(raw, &back, &err), err);
    CHECK(koshi_lattice_free(compact) == KOSHI_OK && koshi_lattice_free(pushed) == KOSHI_OK);
}

/* case_b34: a cycle does not even become a lattice. */
static void refuses_cycles(void)
{
    static const char text[] = "\n0 1 1 7 0,1\n1 0 2 8 0,1\n1 0,0\n\n";
    koshi_lattice *lattice = NULL;
    koshi_error *err = NULL;
    CHECK_STATUS(KOSHI_E_FORMAT,
                 koshi_lattice_from_memory((const unsigned char *)text, strlen(text), &lattice, &err), err);
    CHECK(lattice == NULL);
}

int main(void)
{
    checks_defaults();
    keeps_the_better_way();
    knows_phones();
    refuses_bad_options();
    keeps_the_best_path_under_a_cap();
    merges_equal_endings();
    changes_the_form();
    refuses_cycles();
    return 0;
}
