// Kernels that use all that portable.cuh offers, and what no graph of a test is large enough for, and that tests compare
// with plain sums on the host.

#include "lane.cuh"
#include "portable.cuh"

// Sum of those before, of all, least and greatest, of 32 and 64 bits, one value a thread.
extern "C" __global__ void __launch_bounds__(1024) koshi_test_block(const koshi_u32 *in, koshi_u32 *before, koshi_u32 *of_block, koshi_u64 *wide) {
    __shared__ koshi_block_scratch scratch;
    const koshi_u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    const koshi_u32 value = in[at];
    koshi_u32 total;
    before[at] = koshi_block_exclusive_sum(value, &scratch, &total);
    const koshi_u32 sum = koshi_block_sum(value, &scratch);
    const koshi_u32 least = koshi_block_min(value, &scratch);
    const koshi_u32 most = koshi_block_max(value, &scratch);
    const koshi_u64 far = (koshi_u64)value << 20 | threadIdx.x;
    const koshi_u64 far_sum = koshi_block_sum(far, &scratch);
    const koshi_u64 far_least = koshi_block_min(far, &scratch);
    const koshi_u64 far_most = koshi_block_max(far, &scratch);
    if (threadIdx.x == blockDim.x - 1) {
        koshi_u32 *const out = of_block + 4 * blockIdx.x;
        out[0] = total;
        out[1] = sum;
        out[2] = least;
        out[3] = most;
        wide[3 * blockIdx.x] = far_sum;
        wide[3 * blockIdx.x + 1] = far_least;
        wide[3 * blockIdx.x + 2] = far_most;
    }
}

// Ordered integers there and back, and the least pair of the whole grid.
extern "C" __global__ void __launch_bounds__(256) koshi_test_costs(const float *costs, koshi_u32 count, koshi_u32 *ordered, float *back, koshi_u64 *least) {
    for (koshi_u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) {
        ordered[at] = koshi_ordered_from_float(costs[at]);
        back[at] = koshi_float_from_ordered(ordered[at]);
        koshi_packed_min(least, costs[at], at);
    }
}

// Turns the values of each block round, through dynamic shared memory.
extern "C" __global__ void __launch_bounds__(256) koshi_test_reverse(koshi_u32 *values) {
    KOSHI_DYNAMIC_SHARED(bytes);
    koshi_u32 *const cells = (koshi_u32 *)bytes;
    koshi_u32 *const mine = values + blockIdx.x * blockDim.x;
    cells[threadIdx.x] = mine[threadIdx.x];
    __syncthreads();
    mine[threadIdx.x] = cells[blockDim.x - 1 - threadIdx.x];
}

struct KoshiGivenDegrees {
    const koshi_u32 *degrees;

    __device__ koshi_u32 degree(koshi_u32 at) const { return degrees[at]; }
};

// Whether the items of in[0] owners, with the degrees behind it, can be numbered in 32 bits.
extern "C" __global__ void __launch_bounds__(256) koshi_test_can_number(const koshi_u32 *in, koshi_u32 *can) {
    __shared__ KoshiShared shared;
    const bool they_can = koshi_can_number(shared, KoshiGivenDegrees{in + 1}, in[0]);
    if (threadIdx.x == 0) can[0] = they_can;
}
