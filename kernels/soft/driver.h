// What the files of entry points share: CUDA's codes, the lock, the calling thread's context. Types of
// entry points are those of cuda.h, with handles as pointers and enums as ints.
#pragma once

#include <atomic>
#include <mutex>

#include "soft.h"

namespace soft {

enum Code : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    INVALID_PTX = 218,
    UNSUPPORTED_PTX_VERSION = 222,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_FAILED = 719,
};

extern std::mutex lock;
extern std::atomic<bool> initialized;
extern thread_local Context *current;

using Pointer = unsigned long long;
inline void *at(Pointer pointer) { return reinterpret_cast<void *>(pointer); }

}  // namespace soft

// Every call is counted for injected faults, under the one lock.
#define CALL(function)                            \
    const std::lock_guard<std::mutex> hold(lock); \
    if (const int code = injected(#function)) return code
#define INITIALIZED_CALL(function) \
    CALL(function);                \
    if (!initialized) return NOT_INITIALIZED
#define CONTEXT_CALL(function)         \
    INITIALIZED_CALL(function);        \
    Context *const here = current;     \
    if (!here) return INVALID_CONTEXT; \
    if (here->sticky) return here->sticky
#define STREAM_CALL(function, handle)                \
    CONTEXT_CALL(function);                          \
    Stream *const stream = stream_of(*here, handle); \
    if (!stream) return INVALID_HANDLE
#define NEEDED(pointer) \
    if (!(pointer)) return INVALID_VALUE
