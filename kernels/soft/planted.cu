// Each kernel here but the first has one bug, which the software device has to catch by the means named
// with it. `tests/soft_cuda_planted.rs` runs them.

#include "portable.cuh"

// No bug: each thread gives its block's sum of in[], by a tree in shared memory.
extern "C" __global__ void __launch_bounds__(128) koshi_sound(const unsigned *in, unsigned *out) {
    __shared__ unsigned cells[128];
    cells[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) cells[threadIdx.x] += cells[threadIdx.x + half];
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = cells[0];
}

// A barrier is missing between writing and reading another thread's cell: schedules, races.
extern "C" __global__ void __launch_bounds__(128) koshi_missing_barrier(const unsigned *in, unsigned *out) {
    __shared__ unsigned cells[128];
    cells[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    out[blockIdx.x * blockDim.x + threadIdx.x] = cells[blockDim.x - 1 - threadIdx.x];
}

// The last steps of the tree have no barrier, as if a warp ran in lock-step: schedules, races.
extern "C" __global__ void __launch_bounds__(128) koshi_lock_step(const unsigned *in, unsigned *out) {
    __shared__ unsigned cells[128];
    cells[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half >= 32; half /= 2) {
        if (threadIdx.x < half) cells[threadIdx.x] += cells[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x < 32) {
        for (unsigned half = 16; half > 0; half /= 2) cells[threadIdx.x] += cells[threadIdx.x + half];
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = cells[0];
}

// Threads count without an atomic: races.
extern "C" __global__ void __launch_bounds__(128) koshi_plain_counter(const unsigned *in, unsigned *out) {
    __shared__ unsigned count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    count += in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = count;
}

// The blocks write one cell of device memory: races.
extern "C" __global__ void __launch_bounds__(128) koshi_two_blocks(const unsigned *in, unsigned *out) {
    if (threadIdx.x == 0) out[0] = in[blockIdx.x];
}

// Half of the block waits at another barrier: the scheduler.
extern "C" __global__ void __launch_bounds__(128) koshi_divergent_barrier(const unsigned *in, unsigned *out) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 64) {
        out[at] = in[at];
        __syncthreads();
    } else {
        out[at] = in[at] + 1;
        __syncthreads();
    }
}

// A thread leaves before the barrier: the scheduler.
extern "C" __global__ void __launch_bounds__(128) koshi_early_return(const unsigned *in, unsigned *out) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 77) return;
    __syncthreads();
    out[at] = in[at];
}

// Eight lanes shuffle under the mask of all: the scheduler.
extern "C" __global__ void __launch_bounds__(128) koshi_wrong_mask(const unsigned *in, unsigned *out) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned value = in[at];
    if (koshi_lane() < 8) value = __shfl_sync(0xffffffffu, value, 0);
    out[at] = value;
}

// Lanes shuffle under a mask that lacks them: the scheduler.
extern "C" __global__ void __launch_bounds__(128) koshi_not_in_mask(const unsigned *in, unsigned *out) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = __shfl_sync(0x0000ffffu, in[at], 0);
}

// Shared memory that nobody set: the poison.
extern "C" __global__ void __launch_bounds__(128) koshi_uninitialised(const unsigned *in, unsigned *out) {
    __shared__ unsigned sum;
    atomicAdd(&sum, in[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// The last block writes behind its output: the guards, AddressSanitizer.
extern "C" __global__ void __launch_bounds__(128) koshi_overrun(const unsigned *in, unsigned *out) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at + 1] = in[at];
}

// Reads behind its input: AddressSanitizer.
extern "C" __global__ void __launch_bounds__(128) koshi_read_overrun(const unsigned *in, unsigned *out) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = in[at + 1];
}

// Writes behind a static array of shared memory: AddressSanitizer.
extern "C" __global__ void __launch_bounds__(128) koshi_shared_overrun(const unsigned *in, unsigned *out) {
    __shared__ unsigned cells[100];
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned *const mine = cells + threadIdx.x;
    *mine = in[at];
    __syncthreads();
    out[at] = cells[0];
}

// Shifts by the width of the type: UndefinedBehaviorSanitizer.
extern "C" __global__ void __launch_bounds__(128) koshi_wide_shift(const unsigned *in, unsigned *out) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = in[at] << (threadIdx.x + 1);
}

// A thread takes a number for a pointer: the scheduler.
extern "C" __global__ void __launch_bounds__(128) koshi_wild_pointer(const unsigned *in, unsigned *out) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = in[at];
    if (at == 130) *(unsigned *)(koshi_u64)in[at] = 1;
}
