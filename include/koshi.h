/*
 * Koshi: speech decoding over weighted finite-state graphs.
 * Licence: Apache-2.0. This file is generated; do not edit it.
 *
 * Names. koshi_<type>_<verb>: `new` makes, `read` loads a file, `from_memory` loads bytes, `ref` and
 * `free` count, `init` fills a struct of the caller's with defaults. Costs are negative natural logs.
 *
 * Handles. Objects are known by handles, which look like pointers and are none: never follow one.
 * NULL, stale, doubly freed, foreign or invented handles are answered with KOSHI_E_HANDLE. Objects
 * that never change are counted: koshi_<type>_ref adds a count and returns the handle, and
 * koshi_<type>_free takes one back. An object keeps alive what it was made from, so handles may be
 * freed in any order, also while another thread is inside a call with them: that call ends normally.
 * koshi_<type>_free(NULL) is fine.
 *
 * Errors. A function that can fail returns a koshi_status and takes a last parameter `err`, which
 * may be NULL. Zero and above is success. On failure, and only then, *err gets a koshi_error that the
 * caller frees (NULL if not even that could be made). Results are written on success only. Plain
 * queries answer -1, NULL or NaN for a bad handle or index. Nothing is kept by thread, nothing is
 * printed, and no call ends the process.
 *
 * Memory of the caller (rows, texts, structs) is used during the call only, unless its function says
 * otherwise. Texts are UTF-8 and end with NUL. Strides count elements; what lies between rows is
 * never read. Arrays and texts that the library hands out are its own memory, not copies: they live
 * as long as the handle they were asked of, and are not to be written to or freed.
 *
 * Structs whose first field is `struct_size` may grow in later versions, at the end. Let
 * koshi_<type>_init(&x, sizeof x) fill those that you pass in, and then set what you want changed;
 * pass sizeof x with those that the library fills. A program and a library of different versions
 * then work together: an older program gets the behaviour that it knows, and a newer one
 * KOSHI_E_UNSUPPORTED if it sets what the library does not have.
 *
 * Threads. Any handle may be used from any thread. Calls that take `const T *` may run together on
 * one handle. A call that takes `T *` needs that handle for itself: while it runs, another call on
 * the same handle answers KOSHI_E_BUSY and does nothing. What different handles do never mixes.
 *
 * Callbacks take their `user_data` first and come with an optional `drop`, which runs exactly once,
 * also when the call that was given both fails. They run without locks of the library held and may
 * call the library; calls on the handle that is running them get KOSHI_E_BUSY. They must return: no
 * longjmp and no C++ exception may leave them. A koshi_<type>_free waits for callbacks that run on
 * another thread; from inside the callback it returns at once, and none follows.
 *
 * Floating point. Calls run in the default floating-point environment whatever the caller has set
 * (flush to zero, rounding), and put the caller's back.
 */


#ifndef KOSHI_H
#define KOSHI_H

#include <stddef.h>
#include <stdint.h>

// Major version of this header.
#define KOSHI_VERSION_MAJOR 0

// Minor version of this header.
#define KOSHI_VERSION_MINOR 1

// Patch version of this header.
#define KOSHI_VERSION_PATCH 0

// The values of a koshi_status. They are grouped by what the caller should do; new ones are
// only ever added, so treat an unknown negative one by its hundred.
enum koshi_status_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Done. Empty results are KOSHI_OK too.
    KOSHI_OK = 0,
    // Done, with less than was asked for (smaller effective beam, no alignment).
    KOSHI_OK_PARTIAL = 1,
    // -1xx, change the program. An argument is outside its domain: null, misaligned, a bad name.
    KOSHI_E_ARGUMENT = -101,
    // A handle is null, unknown, freed before, of another type, or poisoned by KOSHI_E_INTERNAL.
    KOSHI_E_HANDLE = -102,
    // The handle is in use by another call, or by the one that runs the callback.
    KOSHI_E_BUSY = -103,
    // The call does not fit the state of its object, as a push after finish.
    KOSHI_E_STATE = -104,
    // An option is outside its range, or two options contradict each other.
    KOSHI_E_CONFIG = -105,
    // Something known and not handled by this version, named in the message.
    KOSHI_E_UNSUPPORTED = -106,
    // -2xx, look at the input. The operating system refused an operation on a file or pipe.
    KOSHI_E_IO = -201,
    // Bytes of a file do not have the form that they should.
    KOSHI_E_FORMAT = -202,
    // The graph cannot be searched: no start state, epsilon cycle, label out of range.
    KOSHI_E_GRAPH = -203,
    // Dimensions do not agree.
    KOSHI_E_SHAPE = -204,
    // -3xx, this utterance stops here; what came before can be fetched and the channel begun
    // anew. A log-likelihood is NaN or +inf.
    KOSHI_E_SCORES = -301,
    // No token survived a frame.
    KOSHI_E_NO_TOKENS = -302,
    // Even the tied best of a frame do not fit a capacity.
    KOSHI_E_CAPACITY = -303,
    // -4xx, ask for less or wait. A queue is full; try again when it has drained.
    KOSHI_E_FULL = -401,
    // A limit that the caller set, or one of the library, is reached.
    KOSHI_E_LIMIT = -402,
    // Memory could not be had.
    KOSHI_E_NO_MEMORY = -403,
    // -5xx, look at the machine. No usable GPU; the message says why.
    KOSHI_E_NO_DEVICE = -501,
    // The GPU or its driver reported a failure.
    KOSHI_E_DEVICE = -502,
    // -6xx, look at your own code or wish. A callback of the caller reported failure.
    KOSHI_E_CALLBACK = -601,
    // The work was cancelled by the caller.
    KOSHI_E_CANCELLED = -602,
    // -7xx, a fault of the library itself. The handles that the call could change accept
    // only their free function from then on. Please report the message.
    KOSHI_E_INTERNAL = -701,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_status_code koshi_status_code;
#else
typedef int32_t koshi_status_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How much a log message matters.
enum koshi_log_level
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // As a greatest level: nothing at all.
    KOSHI_LOG_OFF = 0,
    // Something failed that no status could tell.
    KOSHI_LOG_ERROR = 1,
    // Something is not as it should be, and the work goes on.
    KOSHI_LOG_WARN = 2,
    // What the library chose and why, once an object.
    KOSHI_LOG_INFO = 3,
    // For those who look for a fault.
    KOSHI_LOG_DEBUG = 4,
    // Everything.
    KOSHI_LOG_TRACE = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_log_level koshi_log_level;
#else
typedef int32_t koshi_log_level;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Why a call failed: a status, one line of text, and the chain of causes. Immutable and counted.
typedef struct koshi_error koshi_error;

// What a call answers: a koshi_status_code. Zero and above is success.
typedef int32_t koshi_status;

// Takes a log message: a level, the part of the library that speaks, and one line of UTF-8,
// both valid for the call only. Runs on whichever thread has something to say, possibly on
// several at once. What the callback itself causes to be logged is dropped.
typedef void (*koshi_log_fn)(void *user_data, int32_t level, const char *target, const char *message);

// Called once when the library will never use `user_data` again. May be NULL.
typedef void (*koshi_drop_fn)(void *user_data);

// A GPU. Filled by koshi_cuda_device_info.
typedef struct {
    // Bytes that were filled.
    uint32_t struct_size;
    // Compute capability, the number before the dot.
    uint32_t compute_major;
    // Compute capability, the number behind the dot.
    uint32_t compute_minor;
    // Streaming multiprocessors.
    uint32_t multiprocessors;
    // Bytes of device memory.
    uint64_t total_memory;
    // Name of the model. Lives as long as the library.
    const char *name;
    // Latest CUDA version that the driver speaks, as 13000 for 13.0.
    uint32_t driver_version;
    // Always 0.
    uint32_t reserved;
} koshi_cuda_device;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Version of the loaded library: major * 1000000 + minor * 1000 + patch.
uint32_t koshi_version(void);

// Version of the loaded library as text, "major.minor.patch". Lives as long as the library.
const char *koshi_version_string(void);

// Name of a status, as "KOSHI_E_IO"; "KOSHI_E_UNKNOWN" for a number that this version does
// not know. The text lives as long as the library.
const char *koshi_status_name(koshi_status status);

// Status that the failed call answered; KOSHI_E_HANDLE for a bad handle.
koshi_status koshi_error_status(const koshi_error *error);

// What went wrong, in one line of UTF-8 that names the file, byte offset, frame, arc or
// argument at fault and ends with the messages of the causes; NULL for a bad handle.
// The text lives as long as the error.
const char *koshi_error_message(const koshi_error *error);

// The error behind this one, NULL if there is none or the handle is bad. It belongs to
// `error` and lives as long; count it with koshi_error_ref to keep it longer.
const koshi_error *koshi_error_cause(const koshi_error *error);

// Counts `error` once more and returns it; NULL for a bad handle.
koshi_error *koshi_error_ref(const koshi_error *error);

// Takes back one count of `error`; the last one frees it. NULL is fine.
koshi_status koshi_error_free(koshi_error *error);

// Sends log messages up to `max_level` (a koshi_log_level) to `function`, in place of the
// callback set before; NULL turns them off. `drop` runs once when `user_data` is no longer
// used, also when this call fails. Returns when no thread runs the callback set before,
// or at once when called from inside it. Any thread, any time.
// Fails with KOSHI_E_STATE in a Rust program that has set a logger of its own.
koshi_status koshi_log_set(koshi_log_fn function,
                           void *user_data,
                           koshi_drop_fn drop,
                           int32_t max_level,
                           koshi_error **err);

// Number of GPUs that can be used; 0 where there is none or no driver. The driver is asked
// once, at the first call. Never fails.
int32_t koshi_cuda_device_count(void);

// Why koshi_cuda_device_count is 0, in one line of UTF-8; empty where it is not. Lives as long
// as the library.
const char *koshi_cuda_why_not(void);

// Describes GPU `index` (from 0) in `*info` of `size` bytes.
// KOSHI_E_NO_DEVICE where there is no such GPU.
koshi_status koshi_cuda_device_info(int32_t index, koshi_cuda_device *info, size_t size, koshi_error **err);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KOSHI_H */
