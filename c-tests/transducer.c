/* Transducers over callbacks: who may call what from inside, when data is dropped, and what is written where. */

#include <math.h>

#include "check.h"

enum { VOCAB = 3, DIM = 2 };

struct networks {
    koshi_transducer *transducer;
    koshi_transducer_stream *stream; /* the one that asks */
    int states, drops, joins, busy_checks, cancel_inside, free_inside;
    koshi_status fail;
};

static koshi_status predict(void *user_data, const uint64_t *states_in, const int32_t *labels, size_t n,
                            uint64_t *states_out, float *outputs)
{
    struct networks *networks = (struct networks *)user_data;
    size_t at;
    for (at = 0; at < n; ++at) {
        CHECK(labels[at] >= 0 && labels[at] < VOCAB && (labels[at] != 0 || states_in[at] == 0));
        states_out[at] = labels[at] == 0 ? 0 : states_in[at] + 1;
        outputs[at] = (float)states_out[at];
    }
    networks->states += (int)n;
    return KOSHI_OK;
}

/* A label in each frame. */
static koshi_status join(void *user_data, const float *encoder_rows, const float *outputs, size_t n, float *scores)
{
    struct networks *networks = (struct networks *)user_data;
    koshi_error *err = NULL;
    size_t at;
    CHECK(networks->drops == 0);
    ++networks->joins;
    if (networks->busy_checks) {
        /* The stream is in use by the call that runs this very callback. */
        koshi_hypotheses *list = NULL;
        CHECK_STATUS(KOSHI_E_BUSY, koshi_transducer_stream_push(networks->stream, encoder_rows, 1, DIM, DIM, &err), err);
        CHECK_STATUS(KOSHI_E_BUSY, koshi_transducer_stream_finish(networks->stream, &list, &err), err);
        CHECK_STATUS(KOSHI_E_BUSY, koshi_transducer_stream_partial(networks->stream, &list, NULL, &err), err);
        CHECK_STATUS(KOSHI_E_BUSY, koshi_transducer_stream_commit(networks->stream, &list, &err), err);
        CHECK(list == NULL && koshi_transducer_stream_num_frames(networks->stream) == -1);
    }
    if (networks->cancel_inside)
        CHECK_OK(koshi_transducer_stream_cancel(networks->stream, &err), err);
    if (networks->free_inside && networks->stream != NULL) {
        CHECK(koshi_transducer_stream_free(networks->stream) == KOSHI_OK);
        CHECK(koshi_transducer_free(networks->transducer) == KOSHI_OK);
        networks->stream = NULL;
        CHECK(networks->drops == 0);
    }
    for (at = 0; at < n; ++at) {
        int due = encoder_rows[at * DIM] == outputs[at];
        scores[at * VOCAB] = due ? 0 : 5;
        scores[at * VOCAB + 1] = due ? 5 : 0;
        scores[at * VOCAB + 2] = -INFINITY;
    }
    return networks->fail;
}

static void release_state(void *user_data, koshi_transducer_part part, uint64_t state)
{
    struct networks *networks = (struct networks *)user_data;
    CHECK(part == KOSHI_TRANSDUCER_PREDICTOR && state < 1000);
    --networks->states;
    CHECK(networks->states >= 0);
}

static void count_drop(void *user_data)
{
    struct networks *networks = (struct networks *)user_data;
    CHECK(networks->states == 0);
    ++networks->drops;
}

static koshi_transducer_ops ops_of(void)
{
    koshi_transducer_ops ops;
    memset(&ops, 0, sizeof ops);
    ops.struct_size = sizeof ops;
    ops.vocab_size = VOCAB;
    ops.encoder_dim = DIM;
    ops.output_dim = 1;
    ops.predict = predict;
    ops.join = join;
    ops.release_state = release_state;
    return ops;
}

static koshi_transducer *transducer_of(struct networks *networks)
{
    koshi_error *err = NULL;
    koshi_transducer_ops ops = ops_of();
    memset(networks, 0, sizeof *networks);
    CHECK_OK(koshi_transducer_new(&ops, networks, count_drop, &networks->transducer, &err), err);
    return networks->transducer;
}

static koshi_transducer_stream *stream_of(struct networks *networks, koshi_transducer_method search)
{
    koshi_error *err = NULL;
    koshi_transducer_config config;
    CHECK_OK(koshi_transducer_config_init(&config, sizeof config, &err), err);
    config.search = search;
    config.commit_frames = 20;
    CHECK_OK(koshi_transducer_stream_new(networks->transducer, &config, &networks->stream, &err), err);
    return networks->stream;
}

static const float ROWS[6][DIM] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}};

static void check_six(koshi_hypotheses *list)
{
    size_t count = 77, at;
    const int32_t *labels = koshi_hypotheses_labels(list, 0, &count);
    const uint32_t *frames = koshi_hypotheses_frames(list, 0, NULL);
    CHECK(koshi_hypotheses_len(list) == 1 && count == 6);
    for (at = 0; at < count; ++at)
        CHECK(labels[at] == 1 && frames[at] == at);
    CHECK(koshi_hypotheses_finished(list, 0) == 1 && koshi_hypotheses_posterior(list, 0) == 1);
    CHECK(koshi_hypotheses_score(list, 0) < 0 && isnan(koshi_hypotheses_score(list, 1)));
}

static void refused(void)
{
    koshi_error *err = NULL;
    struct networks networks;
    koshi_transducer *transducer = (koshi_transducer *)garbage(8);
    koshi_transducer_ops good = ops_of(), ops = good;
    memset(&networks, 0, sizeof networks);
    ops.predict = NULL;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_transducer_new(&ops, &networks, count_drop, &transducer, &err), err);
    ops = good, ops.join = NULL;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_transducer_new(&ops, &networks, count_drop, &transducer, &err), err);
    ops = good, ops.vocab_size = 1;
    CHECK_STATUS(KOSHI_E_CONFIG, koshi_transducer_new(&ops, &networks, count_drop, &transducer, &err), err);
    ops = good, ops.blank = VOCAB;
    CHECK_STATUS(KOSHI_E_CONFIG, koshi_transducer_new(&ops, &networks, count_drop, &transducer, &err), err);
    ops = good, ops.scores = 2;
    CHECK_STATUS(KOSHI_E_CONFIG, koshi_transducer_new(&ops, &networks, count_drop, &transducer, &err), err);
    ops = good, ops.struct_size = 8;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_transducer_new(&ops, &networks, count_drop, &transducer, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_transducer_new(NULL, &networks, count_drop, &transducer, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_transducer_new(&good, &networks, count_drop, NULL, &err), err);
    CHECK(transducer == garbage(8) && networks.drops == 8);
    CHECK(koshi_transducer_free(NULL) == KOSHI_OK && koshi_transducer_stream_free(NULL) == KOSHI_OK);
    CHECK(koshi_hypotheses_free(NULL) == KOSHI_OK && koshi_hypotheses_len(NULL) == -1);
}

static void a_stream_keeps_its_transducer(void)
{
    koshi_error *err = NULL;
    struct networks networks;
    koshi_transducer *transducer = transducer_of(&networks);
    koshi_transducer_stream *stream = stream_of(&networks, KOSHI_TRANSDUCER_TSD);
    koshi_hypotheses *list = NULL, *again;
    size_t stable = 77;
    networks.busy_checks = 1;
    CHECK_OK(koshi_transducer_stream_push(stream, ROWS[0], 4, DIM, DIM, &err), err);
    CHECK(koshi_transducer_free(transducer) == KOSHI_OK && koshi_transducer_free(transducer) == KOSHI_E_HANDLE);
    CHECK(networks.drops == 0 && networks.states > 0);
    CHECK_OK(koshi_transducer_stream_push(stream, ROWS[4], 2, DIM, DIM, &err), err);
    CHECK(koshi_transducer_stream_num_frames(stream) == 6);
    CHECK_OK(koshi_transducer_stream_partial(stream, &list, &stable, &err), err);
    CHECK(stable <= 6 && koshi_hypotheses_finished(list, 0) == 0);
    CHECK(koshi_hypotheses_free(list) == KOSHI_OK);
    CHECK_OK(koshi_transducer_stream_finish(stream, &list, &err), err);
    CHECK(networks.states == 0);
    check_six(list);
    again = koshi_hypotheses_ref(list);
    CHECK(again == list && koshi_hypotheses_free(list) == KOSHI_OK);
    CHECK(koshi_transducer_stream_free(stream) == KOSHI_OK);
    CHECK(networks.drops == 1);
    check_six(list); /* counted twice, freed once */
    CHECK(koshi_hypotheses_free(list) == KOSHI_OK && koshi_hypotheses_free(list) == KOSHI_E_HANDLE);
}

static void from_inside(void)
{
    koshi_error *err = NULL;
    struct networks networks;
    koshi_transducer *transducer = transducer_of(&networks);
    koshi_transducer_stream *stream = stream_of(&networks, KOSHI_TRANSDUCER_ALSD);
    networks.cancel_inside = 1;
    CHECK_STATUS(KOSHI_E_CANCELLED, koshi_transducer_stream_push(stream, ROWS[0], 6, DIM, DIM, &err), err);
    CHECK(networks.joins == 1 && networks.states == 0);
    CHECK(koshi_transducer_stream_free(stream) == KOSHI_OK && koshi_transducer_free(transducer) == KOSHI_OK);
    CHECK(networks.drops == 1);
    /* Freed by its own callback: the call ends normally, and everything goes with it. */
    transducer_of(&networks);
    stream = stream_of(&networks, KOSHI_TRANSDUCER_NSC);
    networks.free_inside = 1;
    CHECK_OK(koshi_transducer_stream_push(stream, ROWS[0], 6, DIM, DIM, &err), err);
    CHECK(networks.joins > 1 && networks.drops == 1 && networks.states == 0);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_transducer_stream_push(stream, ROWS[0], 1, DIM, DIM, &err), err);
}

static void whole_utterances(void)
{
    koshi_error *err = NULL;
    struct networks networks;
    koshi_transducer *transducer = transducer_of(&networks);
    koshi_transducer_utterance utterances[3];
    koshi_hypotheses *lists[3] = {NULL, NULL, NULL};
    koshi_transducer_calls calls;
    size_t at;
    memset(utterances, 0, sizeof utterances);
    for (at = 0; at < 3; ++at) {
        utterances[at].rows = ROWS[0];
        utterances[at].frames = at == 1 ? 0 : 6;
        utterances[at].dim = utterances[at].stride = DIM;
        utterances[at].status = 77;
    }
    CHECK_OK(koshi_transducer_search(transducer, NULL, utterances, 3, sizeof utterances[0], lists, &err), err);
    for (at = 0; at < 3; ++at) {
        CHECK(utterances[at].status == KOSHI_OK && utterances[at].error == NULL && lists[at] != NULL);
        if (at != 1)
            check_six(lists[at]);
        CHECK(koshi_hypotheses_free(lists[at]) == KOSHI_OK);
        lists[at] = (koshi_hypotheses *)garbage(16);
    }
    CHECK_OK(koshi_transducer_call_counts(transducer, &calls, sizeof calls, &err), err);
    CHECK(calls.join_calls == (uint64_t)networks.joins && calls.states == 0 && calls.predict_rows > 0);
    /* What is about the call itself leaves everything alone. */
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_transducer_search(transducer, NULL, utterances, 3, 8, lists, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT,
                 koshi_transducer_search(transducer, NULL, utterances, 3, sizeof utterances[0], NULL, &err), err);
    CHECK(lists[0] == garbage(16) && utterances[0].status == KOSHI_OK);
    CHECK_OK(koshi_transducer_search(transducer, NULL, NULL, 0, sizeof utterances[0], NULL, &err), err);
    /* Each utterance has its own failure, with its reason. */
    utterances[1].frames = 6, utterances[1].stride = 1; /* rows that overlap */
    utterances[2].rows = NULL;
    CHECK_STATUS(KOSHI_OK_PARTIAL,
                 koshi_transducer_search(transducer, NULL, utterances, 3, sizeof utterances[0], lists, &err), err);
    CHECK(utterances[0].status == KOSHI_OK && koshi_hypotheses_len(lists[0]) == 1);
    CHECK(utterances[1].status == KOSHI_E_SHAPE && utterances[2].status == KOSHI_E_ARGUMENT);
    CHECK(strstr(koshi_error_message(utterances[1].error), "utterance 1") != NULL);
    CHECK(koshi_hypotheses_free(lists[0]) == KOSHI_OK && lists[1] == NULL && lists[2] == NULL);
    for (at = 1; at < 3; ++at)
        CHECK(koshi_error_free(utterances[at].error) == KOSHI_OK);
    utterances[1].frames = 0, utterances[1].stride = DIM, utterances[2].rows = ROWS[0];
    networks.fail = -5;
    CHECK_STATUS(KOSHI_OK_PARTIAL,
                 koshi_transducer_search(transducer, NULL, utterances, 3, sizeof utterances[0], lists, &err), err);
    CHECK(utterances[1].status == KOSHI_OK && koshi_hypotheses_len(lists[1]) == 1);
    CHECK(koshi_hypotheses_free(lists[1]) == KOSHI_OK);
    for (at = 0; at < 3; at += 2) {
        CHECK(utterances[at].status == KOSHI_E_CALLBACK && lists[at] == NULL);
        CHECK(koshi_error_status(utterances[at].error) == KOSHI_E_CALLBACK);
        CHECK(strstr(koshi_error_message(utterances[at].error), "join returned status -5") != NULL);
        CHECK(koshi_error_free(utterances[at].error) == KOSHI_OK);
    }
    CHECK(koshi_transducer_free(transducer) == KOSHI_OK && networks.drops == 1);
}

static void batches(void)
{
    koshi_error *err = NULL;
    struct networks networks;
    koshi_transducer *transducer = transducer_of(&networks);
    koshi_transducer_stream *stream = stream_of(&networks, KOSHI_TRANSDUCER_GREEDY);
    koshi_transducer_item items[4];
    koshi_hypotheses *list = NULL;
    size_t at;
    memset(items, 0, sizeof items);
    for (at = 0; at < 4; ++at) {
        items[at].stream = stream;
        items[at].rows = ROWS[0];
        items[at].frames = 6;
        items[at].dim = items[at].stride = DIM;
        items[at].last = 1;
    }
    items[1].stream = NULL;                                /* no handle */
    items[2].stride = 1;                                   /* rows that overlap */
    CHECK_STATUS(KOSHI_OK_PARTIAL, koshi_transducer_advance(transducer, items, 4, sizeof items[0], &err), err);
    CHECK(items[0].status == KOSHI_OK && items[1].status == KOSHI_E_HANDLE);
    CHECK(items[2].status == KOSHI_E_SHAPE && items[3].status == KOSHI_E_BUSY); /* the same stream twice */
    items[0].last = 2;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_transducer_advance(transducer, items, 1, sizeof items[0], &err), err);
    CHECK_OK(koshi_transducer_stream_finish(stream, &list, &err), err);
    check_six(list);
    CHECK(koshi_hypotheses_free(list) == KOSHI_OK && koshi_transducer_stream_free(stream) == KOSHI_OK);
    CHECK(koshi_transducer_free(transducer) == KOSHI_OK && networks.drops == 1);
}

/* A long stream: each label is handed out once, and what is left is short. */
static void commits(void)
{
    koshi_error *err = NULL;
    struct networks networks;
    koshi_transducer *transducer = transducer_of(&networks);
    koshi_transducer_stream *stream = stream_of(&networks, KOSHI_TRANSDUCER_TSD);
    koshi_hypotheses *list = NULL;
    float row[DIM] = {0, 0};
    const int32_t *labels;
    const uint32_t *frames;
    size_t frame, at, count, done = 0, stable;
    double score = 0;
    for (frame = 0; frame < 900; ++frame) {
        row[0] = (float)frame;
        CHECK_OK(koshi_transducer_stream_push(stream, row, 1, DIM, DIM, &err), err);
        if (frame % 10 != 9)
            continue;
        CHECK_OK(koshi_transducer_stream_commit(stream, &list, &err), err);
        labels = koshi_hypotheses_labels(list, 0, &count);
        frames = koshi_hypotheses_frames(list, 0, NULL);
        CHECK(koshi_hypotheses_len(list) == 1 && koshi_hypotheses_finished(list, 0) == 0);
        for (at = 0; at < count; ++at)
            CHECK(labels[at] == 1 && frames[at] == done + at);
        done += count;
        score += koshi_hypotheses_score(list, 0);
        CHECK(koshi_hypotheses_free(list) == KOSHI_OK);
        CHECK_OK(koshi_transducer_stream_partial(stream, &list, &stable, &err), err);
        koshi_hypotheses_labels(list, 0, &count);
        CHECK(done + count <= frame + 1 && count < 60 && stable <= count);
        CHECK(koshi_hypotheses_free(list) == KOSHI_OK);
    }
    CHECK(done > 800 && score < 0 && networks.states < 500);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_transducer_stream_commit(stream, NULL, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE,
                 koshi_transducer_stream_commit((koshi_transducer_stream *)garbage(8), &list, &err), err);
    CHECK_OK(koshi_transducer_stream_finish(stream, &list, &err), err);
    koshi_hypotheses_labels(list, 0, &count);
    CHECK(done + count == 900 && koshi_hypotheses_score(list, 0) <= score);
    CHECK(koshi_hypotheses_free(list) == KOSHI_OK);
    list = NULL;
    CHECK_STATUS(KOSHI_E_STATE, koshi_transducer_stream_commit(stream, &list, &err), err);
    CHECK(list == NULL && koshi_transducer_stream_free(stream) == KOSHI_OK);
    CHECK(koshi_transducer_free(transducer) == KOSHI_OK && networks.drops == 1);
}

int main(void)
{
    refused();
    a_stream_keeps_its_transducer();
    from_inside();
    whole_utterances();
    batches();
    commits();
    return 0;
}
