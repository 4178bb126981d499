// Prunes what a launch hands over, before it crosses the bus.
#include "prune.cuh"

extern "C" __global__ void __launch_bounds__(KOSHI_THREADS) koshi_k_lattice(KoshiDecode decode) {
    __shared__ KoshiShared shared;
    const unsigned block = blockIdx.x;
    const KoshiLane lane = koshi_lane_of(decode, block);
    KoshiFrame *frames = decode.frames + size_t(block) * decode.frames_per_lane;
    const unsigned out = koshi_prune(decode, lane, shared, frames, decode.results[block].frames, false);
    if (threadIdx.x == 0) {
        decode.results[block].out_words = out;
    }
}
