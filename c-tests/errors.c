/* Errors: what a caller gets back for wrong arguments and wrong handles, and how errors are read. */

#include "check.h"

/* An error object, from a call that must fail. */
static koshi_error *some_error(void)
{
    koshi_error *err = NULL;
    CHECK(koshi_log_set(NULL, NULL, NULL, 99, &err) == KOSHI_E_ARGUMENT);
    CHECK(err != NULL);
    return err;
}

static void names(void)
{
    CHECK(strcmp(koshi_status_name(KOSHI_OK), "KOSHI_OK") == 0);
    CHECK(strcmp(koshi_status_name(KOSHI_OK_PARTIAL), "KOSHI_OK_PARTIAL") == 0);
    CHECK(strcmp(koshi_status_name(KOSHI_E_ARGUMENT), "KOSHI_E_ARGUMENT") == 0);
    CHECK(strcmp(koshi_status_name(KOSHI_E_INTERNAL), "KOSHI_E_INTERNAL") == 0);
    CHECK(strcmp(koshi_status_name(-12345), "KOSHI_E_UNKNOWN") == 0);
    CHECK(strcmp(koshi_status_name(7), "KOSHI_E_UNKNOWN") == 0);
}

static void an_error_says_what_was_wrong(void)
{
    koshi_error *err = some_error();
    CHECK(koshi_error_status(err) == KOSHI_E_ARGUMENT);
    CHECK(strstr(koshi_error_message(err), "max_level is 99") != NULL);
    CHECK(koshi_error_cause(err) == NULL);
    CHECK(koshi_error_ref(err) == err);
    CHECK(koshi_error_free(err) == KOSHI_OK);
    CHECK(koshi_error_status(err) == KOSHI_E_ARGUMENT);
    CHECK(koshi_error_free(err) == KOSHI_OK);
}

static void err_may_be_null_and_success_leaves_it(void)
{
    int mark = 0;
    koshi_error *err = (koshi_error *)garbage((uintptr_t)&mark);
    CHECK(koshi_log_set(NULL, NULL, NULL, 99, NULL) == KOSHI_E_ARGUMENT);
    CHECK(koshi_log_set(NULL, NULL, NULL, KOSHI_LOG_OFF, &err) == KOSHI_OK);
    CHECK(err == (koshi_error *)garbage((uintptr_t)&mark));
}

static void bad_handle(koshi_error *bad)
{
    CHECK(koshi_error_status(bad) == KOSHI_E_HANDLE);
    CHECK(koshi_error_message(bad) == NULL);
    CHECK(koshi_error_cause(bad) == NULL);
    CHECK(koshi_error_ref(bad) == NULL);
    CHECK(bad == NULL || koshi_error_free(bad) == KOSHI_E_HANDLE);
}

static void bad_handles(void)
{
    size_t at;
    int mark = 0;
    uintptr_t live = (uintptr_t)some_error();
    uintptr_t words[6];

    words[0] = 1;
    words[1] = (uintptr_t)&mark;          /* an address */
    words[2] = ~(uintptr_t)0;
    words[3] = live + 1000;               /* a generation that has not been */
    words[4] = live ^ ((uintptr_t)1 << 50); /* a slot that does not exist */
    words[5] = live ^ ((uintptr_t)9 << 58); /* another type */
    for (at = 0; at < sizeof words / sizeof words[0]; ++at)
        bad_handle((koshi_error *)garbage(words[at]));
    bad_handle(NULL);
    CHECK(koshi_error_free(NULL) == KOSHI_OK);

    CHECK(koshi_error_free((koshi_error *)live) == KOSHI_OK);
    bad_handle((koshi_error *)live);
    /* Slots are used again; old handles stay dead. */
    for (at = 0; at < 1000; ++at) {
        koshi_error *next = some_error();
        CHECK((uintptr_t)next != live);
        bad_handle((koshi_error *)live);
        CHECK(koshi_error_free(next) == KOSHI_OK);
    }
}

static void gpus(void)
{
    koshi_error *err = NULL;
    koshi_cuda_device info;
    int count = koshi_cuda_device_count();
    CHECK(count >= 0);
    CHECK((count == 0) == (koshi_cuda_why_not()[0] != '\0'));
    CHECK_STATUS(KOSHI_E_NO_DEVICE, koshi_cuda_device_info(count, &info, sizeof info, &err), err);
    CHECK_STATUS(KOSHI_E_NO_DEVICE, koshi_cuda_device_info(-1, &info, sizeof info, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_cuda_device_info(0, NULL, sizeof info, &err), err);
    CHECK_STATUS(KOSHI_E_ARGUMENT, koshi_cuda_device_info(0, &info, 3, &err), err);
    if (count > 0) {
        CHECK_OK(koshi_cuda_device_info(0, &info, sizeof info, &err), err);
        CHECK(info.struct_size == sizeof info && info.total_memory > 0 && info.name[0] != '\0');
    }
}

int main(void)
{
    names();
    an_error_says_what_was_wrong();
    err_may_be_null_and_success_leaves_it();
    bad_handles();
    gpus();
    return 0;
}
