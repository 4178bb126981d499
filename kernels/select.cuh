// Exact selection by rank: radix select on ordered integers, eight bits a pass.
#ifndef KOSHI_SELECT_CUH
#define KOSHI_SELECT_CUH

#include "lane.cuh"

// The key of rank `rank` (from 0) among the keys of items 0..count. `keys.key(item, key)` says
// whether the item counts; more than `rank` of them do. Items may be of any number: none is stored.
template <class Keys>
static __device__ unsigned koshi_select(KoshiShared &shared, const Keys &keys, unsigned count, unsigned rank) {
    unsigned prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        shared.digits[threadIdx.x] = 0;
        __syncthreads();
        for (unsigned long long item = threadIdx.x; item < count; item += KOSHI_THREADS) {
            unsigned key;
            if (keys.key(unsigned(item), key) && (shift == 24 || key >> (shift + 8) == prefix)) {
                atomicAdd(&shared.digits[key >> shift & 0xff], 1u);
            }
        }
        __syncthreads();
        const unsigned mine = shared.digits[threadIdx.x];
        unsigned total;
        const unsigned before = koshi_block_exclusive_sum(mine, &shared.scratch, &total);
        if (before <= rank && rank - before < mine) {
            shared.digit = threadIdx.x;
            shared.rank = rank - before;
        }
        __syncthreads();
        prefix = prefix << 8 | shared.digit;
        rank = shared.rank;
        __syncthreads();
    }
    return prefix;
}

// Rule 6: the largest cost such that at most `capacity` of the items' are <= it, where more than
// `capacity` items count. False where even the tied least do not fit.
template <class Keys>
static __device__ bool koshi_largest_fitting(KoshiShared &shared, const Keys &keys, unsigned count, unsigned capacity,
                                             float *bound) {
    const unsigned first_out = koshi_select(shared, keys, count, capacity);
    // Ties of the first that does not fit stay out together. 0 stands for none: no key is 0 (a NaN).
    unsigned largest = 0;
    for (unsigned long long item = threadIdx.x; item < count; item += KOSHI_THREADS) {
        unsigned key;
        if (keys.key(unsigned(item), key) && key < first_out && key > largest) {
            largest = key;
        }
    }
    largest = koshi_block_max(largest, &shared.scratch);
    *bound = koshi_float_from_ordered(largest);
    return largest != 0;
}

#endif
