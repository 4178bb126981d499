// What a CUDA compiler gives a kernel, for g++: the launch's variables, barriers, warp intrinsics,
// atomics. Every kernel is compiled behind this header when it is to run on the software device.
// What the rules for kernels forbid (printf, __activemask, float atomics, ...) is left out, so that
// it does not compile.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <utility>

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

namespace simt {

// Where in the source a thread stands, for messages and to tell one barrier from another.
struct Site {
    const char *file;
    int line;
};

// What a thread can see of its launch. The scheduler's own record begins with it.
struct Seen {
    uint3 thread, block;
    dim3 block_size, grid_size;
    unsigned char *dynamic_shared;
};

enum class Collective : int { shuffle, ballot, match_any, sync };

}  // namespace simt

extern "C" {
// The running thread. Calls below may let others run; it is set again before they return.
extern simt::Seen *simt_now;
// Waits for the whole block; gives how many threads came with a `predicate` that is not 0.
unsigned simt_barrier(simt::Site site, int predicate);
// Waits for the lanes of `mask`. shuffle: the value of lane `lane`; ballot: the lanes with a value
// that is not 0; match_any: the lanes with the same value.
uint64_t simt_collective(simt::Site site, simt::Collective what, unsigned mask, uint64_t value, unsigned lane);
// Another thread may run here; called at atomics and fences.
void simt_point();
// Ends the kernel with an error.
[[noreturn]] void simt_trap(simt::Site site);
}

namespace simt {

inline unsigned lane() {
    const Seen &now = *simt_now;
    return (now.thread.x + now.block_size.x * (now.thread.y + now.block_size.y * now.thread.z)) % 32;
}

template <class T>
T shuffle(Site site, unsigned mask, T value, unsigned from) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles carry 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = simt_collective(site, Collective::shuffle, mask, bits, from);
    memcpy(&value, &bits, sizeof value);
    return value;
}

template <class T>
T shfl(Site site, unsigned mask, T value, int from, int width = 32) {
    return shuffle(site, mask, value, (lane() & ~(width - 1u)) | (from & (width - 1u)));
}

template <class T>
T shfl_up(Site site, unsigned mask, T value, unsigned delta, int width = 32) {
    const unsigned first = lane() & ~(width - 1u);
    return shuffle(site, mask, value, lane() < first + delta ? lane() : lane() - delta);
}

template <class T>
T shfl_down(Site site, unsigned mask, T value, unsigned delta, int width = 32) {
    const unsigned end = (lane() & ~(width - 1u)) + width;
    return shuffle(site, mask, value, lane() + delta >= end ? lane() : lane() + delta);
}

template <class T>
T shfl_xor(Site site, unsigned mask, T value, int bits, int width = 32) {
    const unsigned end = (lane() & ~(width - 1u)) + width;
    return shuffle(site, mask, value, (lane() ^ bits) >= end ? lane() : lane() ^ bits);
}

inline unsigned ballot(Site site, unsigned mask, int predicate) {
    return unsigned(simt_collective(site, Collective::ballot, mask, predicate != 0, 0));
}

template <class T>
unsigned match_any(Site site, unsigned mask, T value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "matches are of 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return unsigned(simt_collective(site, Collective::match_any, mask, bits, 0));
}

inline void syncwarp(Site site, unsigned mask = 0xffffffffu) { simt_collective(site, Collective::sync, mask, 0, 0); }

// One OS thread runs everything, so reading and writing is enough. The accesses are volatile:
// the race detector takes those as atomic.
template <class T, class Change>
inline __attribute__((always_inline)) T atomic(T *cell, Change change) {
    simt_point();
    const T old = *const_cast<volatile T *>(cell);
    *const_cast<volatile T *>(cell) = change(old);
    return old;
}

}  // namespace simt

#define SIMT_SITE (simt::Site{__FILE__, __LINE__})

#define __syncthreads() ((void)simt_barrier(SIMT_SITE, 0))
#define __syncthreads_count(predicate) (int(simt_barrier(SIMT_SITE, (predicate) != 0)))
#define __syncthreads_or(predicate) (int(simt_barrier(SIMT_SITE, (predicate) != 0) != 0))
#define __syncthreads_and(predicate) (int(simt_barrier(SIMT_SITE, (predicate) == 0) == 0))
#define __syncwarp(...) simt::syncwarp(SIMT_SITE __VA_OPT__(, ) __VA_ARGS__)
#define __shfl_sync(...) simt::shfl(SIMT_SITE, __VA_ARGS__)
#define __shfl_up_sync(...) simt::shfl_up(SIMT_SITE, __VA_ARGS__)
#define __shfl_down_sync(...) simt::shfl_down(SIMT_SITE, __VA_ARGS__)
#define __shfl_xor_sync(...) simt::shfl_xor(SIMT_SITE, __VA_ARGS__)
#define __ballot_sync(mask, predicate) simt::ballot(SIMT_SITE, mask, (predicate) != 0)
#define __any_sync(mask, predicate) (int(simt::ballot(SIMT_SITE, mask, (predicate) != 0) != 0))
#define __all_sync(mask, predicate) (int(simt::ballot(SIMT_SITE, mask, (predicate) == 0) == 0))
#define __match_any_sync(mask, value) simt::match_any(SIMT_SITE, mask, value)
#define __trap() simt_trap(SIMT_SITE)

inline void __threadfence() { simt_point(); }
inline void __threadfence_block() { simt_point(); }

#define SIMT_ATOMIC(T)                                                                                              \
    inline T atomicAdd(T *cell, T value) {                                                                          \
        return simt::atomic(cell, [=](T old) { return (T)((unsigned long long)old + (unsigned long long)value); }); \
    }                                                                                                               \
    inline T atomicMin(T *cell, T value) {                                                                          \
        return simt::atomic(cell, [=](T old) { return value < old ? value : old; });                                \
    }                                                                                                               \
    inline T atomicMax(T *cell, T value) {                                                                          \
        return simt::atomic(cell, [=](T old) { return value > old ? value : old; });                                \
    }                                                                                                               \
    inline T atomicAnd(T *cell, T value) {                                                                          \
        return simt::atomic(cell, [=](T old) { return (T)(old & value); });                                         \
    }                                                                                                               \
    inline T atomicOr(T *cell, T value) {                                                                           \
        return simt::atomic(cell, [=](T old) { return (T)(old | value); });                                         \
    }                                                                                                               \
    inline T atomicXor(T *cell, T value) {                                                                          \
        return simt::atomic(cell, [=](T old) { return (T)(old ^ value); });                                         \
    }                                                                                                               \
    inline T atomicExch(T *cell, T value) {                                                                         \
        return simt::atomic(cell, [=](T) { return value; });                                                        \
    }                                                                                                               \
    inline T atomicCAS(T *cell, T expected, T value) {                                                              \
        return simt::atomic(cell, [=](T old) { return old == expected ? value : old; });                            \
    }
SIMT_ATOMIC(int)
SIMT_ATOMIC(unsigned)
SIMT_ATOMIC(unsigned long long)
#undef SIMT_ATOMIC

template <class To, class From>
inline To simt_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
inline int __float_as_int(float value) { return simt_bits<int>(value); }
inline unsigned __float_as_uint(float value) { return simt_bits<unsigned>(value); }
inline float __int_as_float(int bits) { return simt_bits<float>(bits); }
inline float __uint_as_float(unsigned bits) { return simt_bits<float>(bits); }
inline long long __double_as_longlong(double value) { return simt_bits<long long>(value); }
inline double __longlong_as_double(long long bits) { return simt_bits<double>(bits); }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(unsigned(bits)); }
inline int __clzll(long long bits) { return bits == 0 ? 64 : __builtin_clzll((unsigned long long)bits); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
template <class T>
inline T __ldg(const T *cell) {
    return *cell;
}

#define SIMT_LEAST_MOST(T)                                     \
    inline constexpr T min(T a, T b) { return b < a ? b : a; } \
    inline constexpr T max(T a, T b) { return a < b ? b : a; }
SIMT_LEAST_MOST(int)
SIMT_LEAST_MOST(unsigned)
SIMT_LEAST_MOST(long long)
SIMT_LEAST_MOST(unsigned long long)
#undef SIMT_LEAST_MOST
// As on a device, a NaN loses.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

#define threadIdx (simt_now->thread)
#define blockIdx (simt_now->block)
#define blockDim (simt_now->block_size)
#define gridDim (simt_now->grid_size)
#define warpSize 32

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// One block runs at a time, so a static of the module will do; it is poisoned before each block. `used`, or
// g++ takes some accesses to one that never escapes for its own, and shows them to no sanitizer.
#define __shared__ static __attribute__((section("simt_shared"), used))
#define KOSHI_DYNAMIC_SHARED(name) unsigned char *const name = simt_now->dynamic_shared

// What a kernels' object tells the driver of itself; the compiler's stand-in (compile.cpp) ends the
// source with SIMT_MODULE(SIMT_KERNEL(name, bound), ...).
namespace simt {

struct Kernel {
    const char *name;
    unsigned max_threads;
    unsigned parameters;
    const unsigned *parameter_bytes;
    void (*call)(void **arguments);
};

struct Module {
    const Kernel *kernels;
    size_t count;
    unsigned char *shared_begin, *shared_end;
};

// A kernel's parameters, out of its type.
template <auto>
struct Call;
template <class... Parameters, void (*kernel)(Parameters...)>
struct Call<kernel> {
    static constexpr unsigned bytes[] = {unsigned(sizeof(Parameters))..., 0};

    template <size_t... at>
    static void spread(void **arguments, std::index_sequence<at...>) {
        kernel(*static_cast<Parameters *>(arguments[at])...);
    }
    static void call(void **arguments) { spread(arguments, std::index_sequence_for<Parameters...>()); }
    static constexpr Kernel describe(const char *name, unsigned max_threads) {
        return {name, max_threads, sizeof...(Parameters), bytes, call};
    }
};

}  // namespace simt

extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_simt_shared[], __stop_simt_shared[];

#define SIMT_KERNEL(name, max_threads) simt::Call<name>::describe(#name, max_threads)
#define SIMT_MODULE(...)                                                                 \
    static const simt::Kernel simt_kernels[] = {__VA_ARGS__};                            \
    extern "C" __attribute__((visibility("default"))) const simt::Module simt_module = { \
        simt_kernels, sizeof simt_kernels / sizeof *simt_kernels, __start_simt_shared, __stop_simt_shared};
