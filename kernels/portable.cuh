// What every kernel stands on, and the only file that kernels include: block-wide scan and
// reductions, costs as ordered integers, the packed minimum, dynamic shared memory. It is compiled by nvcc,
// by NVRTC (which has no standard headers) and, for tests, by g++ behind soft/simt.h.
//
// Rules for kernels: README.md beside this file.
#ifndef KOSHI_PORTABLE_CUH
#define KOSHI_PORTABLE_CUH

typedef unsigned int koshi_u32;
typedef int koshi_i32;
typedef unsigned long long koshi_u64;
typedef long long koshi_i64;
typedef unsigned char koshi_u8;
typedef unsigned short koshi_u16;

static_assert(sizeof(koshi_u16) == 2 && sizeof(koshi_u32) == 4 && sizeof(koshi_u64) == 8, "as the host counts");

#define KOSHI_WARP 32u
#define KOSHI_FULL_MASK 0xffffffffu

// `KOSHI_DYNAMIC_SHARED(name);` in a kernel: its dynamic shared memory, as bytes, aligned to 16.
#ifndef KOSHI_DYNAMIC_SHARED
#define KOSHI_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

// ---- costs as integers of the same order ----

// Less for a smaller float, equal only for the same bits; -0.0 comes just before 0.0. NaN has no place.
__device__ __forceinline__ koshi_u32 koshi_ordered_from_float(float value) {
    const koshi_u32 bits = __float_as_uint(value);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float koshi_float_from_ordered(koshi_u32 ordered) {
    return __uint_as_float((ordered & 0x80000000u) != 0 ? ordered & 0x7fffffffu : ~ordered);
}

// A cost and what it belongs to in one word: less for a smaller cost, ties to the smaller argument.
__device__ __forceinline__ koshi_u64 koshi_pack(float cost, koshi_u32 argument) {
    return ((koshi_u64)koshi_ordered_from_float(cost) << 32) | argument;
}

__device__ __forceinline__ float koshi_packed_cost(koshi_u64 packed) {
    return koshi_float_from_ordered((koshi_u32)(packed >> 32));
}

__device__ __forceinline__ koshi_u32 koshi_packed_argument(koshi_u64 packed) { return (koshi_u32)packed; }

// Above every packed pair: what cells of `koshi_packed_min` begin with.
#define KOSHI_PACKED_NONE 0xffffffffffffffffull

// Lowers a cell to the pair if that is smaller; what stands there at the end does not depend on the
// order of callers. Gives what stood there before.
__device__ __forceinline__ koshi_u64 koshi_packed_min(koshi_u64 *cell, float cost, koshi_u32 argument) {
    return atomicMin(cell, koshi_pack(cost, argument));
}

// ---- inside a warp ----

__device__ __forceinline__ koshi_u32 koshi_lane() { return threadIdx.x % KOSHI_WARP; }

__device__ __forceinline__ koshi_u32 koshi_warp() { return threadIdx.x / KOSHI_WARP; }

__device__ __forceinline__ koshi_u32 koshi_least(koshi_u32 a, koshi_u32 b) { return b < a ? b : a; }
__device__ __forceinline__ koshi_u64 koshi_least(koshi_u64 a, koshi_u64 b) { return b < a ? b : a; }
__device__ __forceinline__ koshi_u32 koshi_most(koshi_u32 a, koshi_u32 b) { return a < b ? b : a; }
__device__ __forceinline__ koshi_u64 koshi_most(koshi_u64 a, koshi_u64 b) { return a < b ? b : a; }

// Sum over this lane and those before it. All 32 lanes call.
__device__ __forceinline__ koshi_u32 koshi_warp_inclusive_sum(koshi_u32 value) {
    for (koshi_u32 step = 1; step < KOSHI_WARP; step *= 2) {
        const koshi_u32 before = __shfl_up_sync(KOSHI_FULL_MASK, value, step);
        if (koshi_lane() >= step) value += before;
    }
    return value;
}

// ---- over the block ----
//
// Blocks are one-dimensional and a multiple of 32 threads, at most 1024. Every thread of the block calls,
// with a scratch in shared memory that nothing else uses meanwhile. Each function ends with a
// barrier after its last use of the scratch, so the same one may follow at once.

struct koshi_block_scratch {
    koshi_u64 words[32];
};

// Of one value a thread: the sum of those before it, and in `total` of all; modulo 2^32.
__device__ __forceinline__ koshi_u32 koshi_block_exclusive_sum(koshi_u32 value, koshi_block_scratch *scratch,
                                                               koshi_u32 *total) {
    const koshi_u32 inclusive = koshi_warp_inclusive_sum(value);
    if (koshi_lane() == KOSHI_WARP - 1) scratch->words[koshi_warp()] = inclusive;
    __syncthreads();
    koshi_u32 before = 0, all = 0;
    for (koshi_u32 warp = 0; warp < blockDim.x / KOSHI_WARP; warp++) {
        const koshi_u32 sum = (koshi_u32)scratch->words[warp];
        if (warp < koshi_warp()) before += sum;
        all += sum;
    }
    *total = all;
    __syncthreads();
    return before + inclusive - value;
}

// One of the reductions below: `combine` is associative and commutative.
#define KOSHI_BLOCK_REDUCE(name, type, combine)                                                                       \
    __device__ __forceinline__ type name(type value, koshi_block_scratch *scratch) {                                  \
        for (koshi_u32 step = KOSHI_WARP / 2; step > 0; step /= 2) {                                                  \
            const type other = __shfl_xor_sync(KOSHI_FULL_MASK, value, (int)step);                                    \
            value = combine(value, other);                                                                            \
        }                                                                                                             \
        if (koshi_lane() == 0) scratch->words[koshi_warp()] = (koshi_u64)value;                                       \
        __syncthreads();                                                                                              \
        value = (type)scratch->words[0];                                                                              \
        for (koshi_u32 warp = 1; warp < blockDim.x / KOSHI_WARP; warp++) {                                            \
            value = combine(value, (type)scratch->words[warp]);                                                       \
        }                                                                                                             \
        __syncthreads();                                                                                              \
        return value;                                                                                                 \
    }

__device__ __forceinline__ koshi_u32 koshi_sum(koshi_u32 a, koshi_u32 b) { return a + b; }
__device__ __forceinline__ koshi_u64 koshi_sum(koshi_u64 a, koshi_u64 b) { return a + b; }

// The sum, least or greatest of one value a thread, given to all of them.
KOSHI_BLOCK_REDUCE(koshi_block_sum, koshi_u32, koshi_sum)
KOSHI_BLOCK_REDUCE(koshi_block_sum, koshi_u64, koshi_sum)
KOSHI_BLOCK_REDUCE(koshi_block_min, koshi_u32, koshi_least)
KOSHI_BLOCK_REDUCE(koshi_block_min, koshi_u64, koshi_least)
KOSHI_BLOCK_REDUCE(koshi_block_max, koshi_u32, koshi_most)
KOSHI_BLOCK_REDUCE(koshi_block_max, koshi_u64, koshi_most)

#undef KOSHI_BLOCK_REDUCE

#endif
