/* Searches a transducer (RNN-T) whose networks are C functions.
 *
 *   cc transducer.c -lkoshi -o transducer
 *   ./transducer
 *
 * The networks are a toy that spells "hello": the prediction network knows how many letters were said, the
 * joint network compares that with what a row says is being said. A program with a real model runs it
 * inside the two callbacks, which get all hypotheses of a step at once, those of a batch of streams included.
 */

#include <stdio.h>
#include <stdlib.h>

#include <koshi.h>

/* Blank and four letters. An encoder row has the letter that is spoken, or 0, and its place in the word. */
enum { VOCAB = 5, ENCODER_DIM = 2, OUTPUT_DIM = 1 };
static const char LETTERS[] = "-helo";
static const float SPOKEN[][ENCODER_DIM] = {{1, 0}, {2, 1}, {0, 0}, {3, 2}, {3, 3}, {0, 0}, {4, 4}, {0, 0}};
enum { FRAMES = sizeof SPOKEN / sizeof SPOKEN[0] };

/* What the program keeps: how many states are out. A real model keeps its recurrent states here. */
struct networks {
    long states;
};

/* A state is the number of letters of a history; larger models hand out an index or an address. */
static koshi_status predict(void *user_data, const uint64_t *states_in, const int32_t *labels, size_t n,
                            uint64_t *states_out, float *outputs)
{
    struct networks *networks = (struct networks *)user_data;
    size_t at;
    for (at = 0; at < n; ++at) {
        states_out[at] = labels[at] == 0 ? 0 : states_in[at] + 1; /* the blank begins a history */
        outputs[at * OUTPUT_DIM] = (float)states_out[at];
    }
    networks->states += (long)n;
    return KOSHI_OK;
}

static koshi_status join(void *user_data, const float *encoder_rows, const float *outputs, size_t n, float *scores)
{
    size_t at;
    int label;
    (void)user_data;
    for (at = 0; at < n; ++at) {
        const float *row = encoder_rows + at * ENCODER_DIM;
        int due = row[0] != 0 && row[1] == outputs[at * OUTPUT_DIM];
        for (label = 0; label < VOCAB; ++label)
            scores[at * VOCAB + label] = label == (due ? (int)row[0] : 0) ? 4.0f : 0.1f * (float)label;
    }
    return KOSHI_OK;
}

static void release_state(void *user_data, koshi_transducer_part part, uint64_t state)
{
    struct networks *networks = (struct networks *)user_data;
    (void)part;
    (void)state;
    --networks->states;
}

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

static void print(const koshi_hypotheses *list, size_t index)
{
    size_t at, count;
    const int32_t *labels = koshi_hypotheses_labels(list, index, &count);
    const uint32_t *frames = koshi_hypotheses_frames(list, index, NULL);
    for (at = 0; at < count; ++at)
        printf("%c@%u ", LETTERS[labels[at]], (unsigned)frames[at]);
    printf("score %.3f posterior %.3f\n", koshi_hypotheses_score(list, index), koshi_hypotheses_posterior(list, index));
}

int main(void)
{
    koshi_error *err = NULL;
    static koshi_transducer_ops ops; /* all zero: no lm_predict */
    koshi_transducer_config config;
    koshi_transducer *transducer = NULL;
    koshi_transducer_stream *stream = NULL;
    koshi_hypotheses *list = NULL;
    struct networks networks = {0};
    size_t frame, at;

    ops.struct_size = sizeof ops;
    ops.vocab_size = VOCAB;
    ops.blank = 0;
    ops.encoder_dim = ENCODER_DIM;
    ops.output_dim = OUTPUT_DIM;
    ops.scores = KOSHI_TRANSDUCER_LOGITS;
    ops.predict = predict;
    ops.join = join;
    ops.release_state = release_state;
    check(koshi_transducer_new(&ops, &networks, NULL, &transducer, &err), &err);

    check(koshi_transducer_config_init(&config, sizeof config, &err), &err);
    config.search = KOSHI_TRANSDUCER_TSD;
    config.beam = 4;
    config.score_norm = 0;
    config.nbest = 3;

    /* A live stream: rows as they come, and what can no longer change. */
    check(koshi_transducer_stream_new(transducer, &config, &stream, &err), &err);
    for (frame = 0; frame < FRAMES; ++frame) {
        size_t stable;
        check(koshi_transducer_stream_push(stream, SPOKEN[frame], 1, ENCODER_DIM, ENCODER_DIM, &err), &err);
        check(koshi_transducer_stream_partial(stream, &list, &stable, &err), &err);
        printf("frame %d, %d stable: ", (int)frame, (int)stable);
        print(list, 0);
        koshi_hypotheses_free(list);
    }
    check(koshi_transducer_stream_finish(stream, &list, &err), &err);
    for (at = 0; at < (size_t)koshi_hypotheses_len(list); ++at)
        print(list, at);

    koshi_hypotheses_free(list);
    koshi_transducer_stream_free(stream);
    koshi_transducer_free(transducer);
    printf("%ld states left\n", networks.states);
    return networks.states == 0 ? 0 : 1;
}
