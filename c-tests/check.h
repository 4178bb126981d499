/* Checks for the C programs of this folder: the first one that fails ends the program. */

#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "koshi.h"

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);      \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

/* The call answers `wanted`; where it fails, with an error object of that status and a message. */
#define CHECK_STATUS(wanted, call, err)                                                      \
    do {                                                                                     \
        koshi_status check_status_ = (call);                                                 \
        check_status((wanted), check_status_, (err), #call, __FILE__, __LINE__);             \
        (err) = NULL;                                                                        \
    } while (0)

#define CHECK_OK(call, err) CHECK_STATUS(KOSHI_OK, call, err)

static inline void check_status(koshi_status wanted, koshi_status found, koshi_error *err, const char *call,
                                const char *file, int line)
{
    const char *message = err != NULL ? koshi_error_message(err) : "(no error object)";
    int good = wanted == found;
    good = good && (found >= 0 ? err == NULL : err != NULL && koshi_error_status(err) == found);
    good = good && (err == NULL || (message != NULL && message[0] != '\0' && strchr(message, '\n') == NULL));
    if (!good) {
        fprintf(stderr, "%s:%d: %s: %s where %s was expected: %s\n", file, line, call, koshi_status_name(found),
                koshi_status_name(wanted), message != NULL ? message : "(bad error object)");
        exit(1);
    }
    if (err != NULL && koshi_error_free(err) != KOSHI_OK) {
        fprintf(stderr, "%s:%d: the error of %s could not be freed\n", file, line, call);
        exit(1);
    }
}

/* Valgrind is some fifty times slower than the processor: programs then leave out repetitions. */
static inline int under_valgrind(void)
{
    const char *tool = getenv("KOSHI_C_TESTS");
    return tool != NULL && strcmp(tool, "valgrind") == 0;
}

/* The bits of the control register of SSE that flush to zero, once set. Valgrind's processor has no such modes. */
static inline unsigned flush_bits(void)
{
    return under_valgrind() ? 0 : 0x8040;
}

/* A pointer that the library never gave out. */
static inline void *garbage(uintptr_t value)
{
    return (void *)value;
}

#endif
