/* End points: options, what is found, and what is done there. */

#include "fst.h"

enum { dim = 2 };

/* One final state with two loops: label 1 is silence, label 2 the word 7. */
static koshi_decoder *decoder_of_loops(void)
{
    static const float finals[] = {0};
    static const struct fst_arc arcs[] = {{0, 1, 0, 0, 0}, {0, 2, 7, 0, 0}};
    return decoder_over(fst_graph(1, finals, arcs, 2));
}

/* `count` rows of the word, then `quiet` rows of silence. */
static float *speech_then_silence(size_t count, size_t quiet)
{
    float *rows = (float *)malloc((count + quiet) * dim * sizeof *rows);
    size_t row;
    CHECK(rows != NULL);
    for (row = 0; row < count + quiet; ++row) {
        rows[dim * row] = row < count ? -9.0f : 0.0f;
        rows[dim * row + 1] = row < count ? 0.0f : -9.0f;
    }
    return rows;
}

static koshi_endpoint_config config_with(koshi_endpoint_action action)
{
    koshi_endpoint_config config;
    koshi_error *err = NULL;
    CHECK_OK(koshi_endpoint_config_init(&config, sizeof config, &err), err);
    config.silence = KOSHI_SILENCE_ILABELS;
    config.action = action;
    return config;
}

static void set(koshi_decoder *decoder, koshi_endpoint_action action)
{
    static const int32_t silence[] = {1};
    koshi_endpoint_config config = config_with(action);
    koshi_error *err = NULL;
    CHECK_OK(koshi_decoder_set_endpoint_rules(decoder, &config, silence, 1, &err), err);
}

static koshi_endpoint found(const koshi_channel *channel)
{
    koshi_endpoint endpoint;
    koshi_error *err = NULL;
    memset(&endpoint, 0xee, sizeof endpoint);
    CHECK_OK(koshi_channel_endpoint(channel, &endpoint, sizeof endpoint, &err), err);
    CHECK(endpoint.struct_size == sizeof endpoint && endpoint.reserved == 0);
    return endpoint;
}

static void defaults(void)
{
    koshi_endpoint_config config = config_with(KOSHI_ENDPOINT_NOTE);
    static const koshi_endpoint_rule rules[5] = {
        {0, INFINITY, 5, 0}, {1, 2, 0.5, 0}, {1, 8, 1, 0}, {1, INFINITY, 2, 0}, {0, INFINITY, 0, 20}};
    CHECK(config.struct_size == sizeof config && config.segments_kept == 4);
    CHECK(memcmp(config.rules, rules, sizeof rules) == 0);
}

static void refused(void)
{
    koshi_decoder *decoder = decoder_of_loops();
    koshi_channel *channel = open_channel(decoder);
    koshi_endpoint_config config;
    koshi_endpoint endpoint;
    koshi_error *err = NULL;
    static const int32_t labels[] = {1, 0};
    int what;
    for (what = 0; what < 6; ++what) {
        config = config_with(KOSHI_ENDPOINT_NOTE);
        if (what == 0)
            config.silence = 3;
        else if (what == 1)
            config.action = -1;
        else if (what == 2)
            config.segments_kept = 0;
        else if (what == 3)
            config.rules[4].must_contain_nonsilence = 2;
        else if (what == 4)
            config.rules[3].min_trailing_silence = NAN;
        else
            config.rules[2].max_relative_cost = -1;
        CHECK_STATUS(KOSHI_E_CONFIG, koshi_decoder_set_endpoint_rules(decoder, &config, labels, 1, &err), err);
    }
    config = config_with(KOSHI_ENDPOINT_NOTE);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decoder_set_endpoint_rules(decoder, &config, labels, 2, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decoder_set_endpoint_rules(decoder, &config, NULL, 1, &err), err);
    CHECK_OK(koshi_decoder_set_endpoint_rules(decoder, &config, NULL, 0, &err), err);
    config.silence = KOSHI_SILENCE_PHONES;
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_decoder_set_endpoint_rules(decoder, &config, labels, 1, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_decoder_set_endpoint_rules(NULL, NULL, NULL, 0, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_endpoint(channel, &endpoint, 4, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_endpoint(channel, NULL, sizeof endpoint, &err), err);
    CHECK_STATUS(KOSHI_E_HANDLE, koshi_channel_endpoint(NULL, &endpoint, sizeof endpoint, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_channel_segment(channel, 0, NULL, 0, NULL, NULL, &err), err);
    CHECK(koshi_channel_num_segments(NULL) == -1 && koshi_channel_num_segments(channel) == 0);
    CHECK(koshi_channel_free(channel) == KOSHI_OK && koshi_decoder_free(decoder) == KOSHI_OK);
}

/* A push stops behind the end point; the rows that are left go into the next utterance. */
static void stopped(void)
{
    koshi_decoder *decoder = decoder_of_loops();
    koshi_channel *channel;
    koshi_decoder_item item;
    koshi_endpoint endpoint;
    koshi_lattice *lattice;
    koshi_error *err = NULL;
    float *rows = speech_then_silence(10, 90);
    set(decoder, KOSHI_ENDPOINT_STOP);
    channel = open_channel(decoder);
    CHECK(found(channel).rule == 0);
    CHECK_STATUS(KOSHI_OK_PARTIAL, koshi_channel_push(channel, rows, 100, dim, dim, &err), err);
    CHECK(koshi_channel_num_frames(channel) == 60);
    endpoint = found(channel);
    CHECK(endpoint.rule == 2 && endpoint.frames == 60 && endpoint.trailing_silence == 50);
    CHECK(fabs(endpoint.seconds - 0.6) < 1e-9 && endpoint.relative_cost == 0);
    lattice = lattice_of(channel);
    CHECK(koshi_lattice_free(lattice) == KOSHI_OK);
    /* Not stopped again before begin, and the end point stands. */
    push(channel, rows + 60 * dim, 40, dim);
    CHECK(found(channel).frames == 60 && koshi_channel_num_frames(channel) == 100);
    CHECK_OK(koshi_channel_begin(channel, &err), err);
    CHECK(found(channel).rule == 0);
    memset(&item, 0, sizeof item);
    item.channel = channel;
    item.rows = rows;
    item.frames = 100;
    item.dim = item.stride = dim;
    CHECK_OK(koshi_decoder_advance(decoder, &item, 1, sizeof item, &err), err);
    CHECK(item.status == KOSHI_OK_PARTIAL && koshi_channel_num_frames(channel) == 60);
    /* Exactly to the end point is all that was asked. */
    CHECK_OK(koshi_channel_begin(channel, &err), err);
    push(channel, rows, 60, dim);
    CHECK(found(channel).rule == 2);
    free(rows);
    CHECK(koshi_channel_free(channel) == KOSHI_OK && koshi_decoder_free(decoder) == KOSHI_OK);
}

static void segments(void)
{
    koshi_decoder *decoder = decoder_of_loops();
    koshi_channel *channel;
    koshi_endpoint endpoint;
    koshi_path *path = NULL;
    koshi_lattice *lattice = NULL;
    koshi_lattice_summary info;
    koshi_error *err = NULL;
    static const int one_word[] = {7, 0}, none[] = {0};
    float *rows = speech_then_silence(1, 59);
    int times;
    set(decoder, KOSHI_ENDPOINT_SEGMENT);
    channel = open_channel(decoder);
    for (times = 0; times < 3; ++times) {
        push(channel, rows, 60, dim);
        CHECK(koshi_channel_num_segments(channel) == times + 1);
        CHECK(found(channel).segment == (uint64_t)times);
    }
    /* The nine rows of silence that were left are the beginning of the next segment. */
    CHECK_OK(koshi_channel_segment(channel, 2, &endpoint, sizeof endpoint, &path, &lattice, &err), err);
    CHECK(endpoint.rule == 2 && endpoint.segment == 2 && endpoint.first_frame == 111 && endpoint.frames == 171);
    CHECK(koshi_path_frames(path, NULL)[0] == 120);
    CHECK(has_words(path, one_word));
    CHECK_OK(koshi_lattice_info(lattice, &info, sizeof info, &err), err);
    CHECK(info.num_frames == 60 && koshi_lattice_free(lattice) == KOSHI_OK);
    /* Each result may be left out. */
    CHECK_OK(koshi_channel_segment(channel, 0, &endpoint, sizeof endpoint, NULL, NULL, &err), err);
    CHECK(endpoint.first_frame == 0 && endpoint.frames == 51);
    CHECK_OK(koshi_channel_segment(channel, 1, NULL, 0, &path, NULL, &err), err);
    CHECK(koshi_channel_num_frames(channel) == 180);
    CHECK(has_words(best_of(channel), none));
    CHECK_OK(koshi_channel_finish(channel, &err), err);
    CHECK(koshi_channel_free(channel) == KOSHI_OK && koshi_decoder_free(decoder) == KOSHI_OK);
    /* Paths and lattices outlive their channel. */
    CHECK(has_words(path, one_word));
    free(rows);
}

int main(void)
{
    defaults();
    refused();
    stopped();
    segments();
    return 0;
}
