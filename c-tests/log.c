/* Log messages: silent by default, handed to a callback, whose data is dropped exactly once. */

#include "check.h"

struct sink {
    int messages;
    int drops;
    int again;
};

static void take(void *user_data, int32_t level, const char *target, const char *message)
{
    struct sink *sink = (struct sink *)user_data;
    CHECK(sink->drops == 0);
    CHECK(level >= KOSHI_LOG_ERROR && level <= KOSHI_LOG_TRACE);
    CHECK(strncmp(target, "koshi", 5) == 0);
    CHECK(message[0] != '\0' && strchr(message, '\n') == NULL);
    ++sink->messages;
}

/* Asks what the library was just about to tell: no lock is held meanwhile. */
static void take_and_ask(void *user_data, int32_t level, const char *target, const char *message)
{
    take(user_data, level, target, message);
    CHECK(koshi_cuda_device_count() >= 0 && koshi_cuda_why_not() != NULL);
}

/* Replaces itself from inside: returns at once, and the drop waits until it has left. */
static void take_and_stop(void *user_data, int32_t level, const char *target, const char *message)
{
    struct sink *sink = (struct sink *)user_data;
    koshi_error *err = NULL;
    take(user_data, level, target, message);
    ++sink->again;
    CHECK_OK(koshi_log_set(NULL, NULL, NULL, KOSHI_LOG_OFF, &err), err);
    CHECK(sink->drops == 0);
}

static void drop(void *user_data)
{
    ++((struct sink *)user_data)->drops;
}

/* Something that is logged at KOSHI_LOG_DEBUG each time. */
static void make_noise(void)
{
    koshi_error *err = NULL;
    CHECK_STATUS(KOSHI_E_NO_DEVICE, koshi_cuda_device_info(-1, (koshi_cuda_device *)garbage(64), sizeof(koshi_cuda_device), &err),
                 err);
}

int main(void)
{
    koshi_error *err = NULL;
    struct sink first = {0, 0, 0}, second = {0, 0, 0}, quiet = {0, 0, 0}, refused = {0, 0, 0}, inner = {0, 0, 0},
                asking = {0, 0, 0};

    CHECK_OK(koshi_log_set(take_and_ask, &asking, drop, KOSHI_LOG_TRACE, &err), err);
    (void)koshi_cuda_why_not();
    CHECK(asking.messages == 1);
    CHECK_OK(koshi_log_set(NULL, NULL, NULL, KOSHI_LOG_OFF, &err), err);
    CHECK(asking.drops == 1);

    make_noise();
    CHECK_OK(koshi_log_set(take, &first, drop, KOSHI_LOG_TRACE, &err), err);
    make_noise();
    CHECK(first.messages > 0 && first.drops == 0);

    CHECK_OK(koshi_log_set(take, &second, drop, KOSHI_LOG_DEBUG, &err), err);
    CHECK(first.drops == 1);
    make_noise();
    CHECK(second.messages > 0);

    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_log_set(take, &refused, drop, 6, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_log_set(take, &refused, drop, -1, &err), err);
    CHECK(refused.drops == 2 && second.drops == 0);

    CHECK_OK(koshi_log_set(take, &quiet, drop, KOSHI_LOG_ERROR, &err), err);
    CHECK(second.drops == 1);
    make_noise();
    CHECK(quiet.messages == 0);

    CHECK_OK(koshi_log_set(take_and_stop, &inner, drop, KOSHI_LOG_TRACE, &err), err);
    CHECK(quiet.drops == 1);
    make_noise();
    CHECK(inner.messages == 1 && inner.again == 1 && inner.drops == 1);
    make_noise();
    CHECK(inner.messages == 1);

    CHECK_OK(koshi_log_set(NULL, &second, drop, KOSHI_LOG_OFF, &err), err);
    CHECK(second.drops == 2);
    CHECK(first.drops == 1 && quiet.drops == 1 && inner.drops == 1);
    return 0;
}
