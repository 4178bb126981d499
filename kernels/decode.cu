// Advances lanes by a chunk of frames: one block a lane, no word with the host in between.
#include "closure.cuh"
#include "cutoff.cuh"
#include "expand.cuh"
#include "lane.cuh"
#include "trace.cuh"

// One time of a lane. Gives the status; frame.out says where to write.
static __device__ unsigned koshi_advance(const KoshiDecode &decode, KoshiLane &lane, KoshiShared &shared,
                                         const float *costs, bool begin, KoshiFrame &frame, unsigned *detail) {
    KoshiExpanded found;
    if (begin) {
        // The only candidate is the start state, at cost 0; no link leads to it.
        if (threadIdx.x == 0) {
            lane.link_cost[0] = 0.0f;
            lane.link_dst[0] = decode.start;
            lane.link_src[0] = 0;
            lane.link_arc[0] = 0;
        }
        __syncthreads();
        lane.num_links = 1;
        found = KoshiExpanded{0.0f, decode.beam, decode.beam, 0, KOSHI_DONE, 0};
    } else {
        found = koshi_expand(decode, lane, shared, costs);
        *detail = found.detail;
        if (found.status != KOSHI_DONE) {
            return found.status;
        }
    }
    const unsigned pseudo = begin ? 1 : 0;
    frame.arcs = found.arcs;
    frame.best = found.best;
    frame.wide = found.wide;
    const KoshiSettled settled = koshi_settle(decode, lane, shared, found, pseudo, &frame.arcs);
    frame.theta = settled.theta;
    frame.flags = settled.capacity_held ? KOSHI_CAPACITY_HELD : 0;
    *detail = settled.detail;
    if (settled.status != KOSHI_DONE) {
        return settled.status;
    }
    const bool good = koshi_choose_emitters(decode, lane, shared, frame);
    if (good) {
        koshi_hand_over(decode, lane, shared, pseudo, frame);
    }
    koshi_empty_hash(lane);
    return good ? KOSHI_DONE : KOSHI_RANGE;
}

extern "C" __global__ void __launch_bounds__(KOSHI_THREADS) koshi_k_decode(KoshiDecode decode) {
    __shared__ KoshiShared shared;
    const unsigned block = blockIdx.x;
    KoshiLane lane = koshi_lane_of(decode, block);
    const KoshiInput input = decode.inputs[block];
    // Load: the channel's emitting tokens.
    const unsigned *emitters = decode.input + input.emitters;
    for (size_t word = threadIdx.x; word < 3 * size_t(input.num_emitters); word += KOSHI_THREADS) {
        lane.emitters[word] = emitters[word];
    }
    lane.num_emitters = input.num_emitters;
    lane.next_beam = input.next_beam;
    __syncthreads();

    unsigned long long out = 0;
    unsigned status = KOSHI_DONE, detail = 0, done = 0;
    while (done < input.frames) {
        if (out + koshi_most_out(decode) > decode.out_words) {
            status = KOSHI_OUTPUT_FULL;
            break;
        }
        KoshiFrame frame = {};
        frame.out = unsigned(out);
        status = koshi_advance(decode, lane, shared, input.rows + size_t(done) * decode.num_columns, input.begin != 0, frame,
                               &detail);
        if (status != KOSHI_DONE) {
            break;
        }
        if (threadIdx.x == 0) {
            decode.frames[size_t(block) * decode.frames_per_lane + done] = frame;
        }
        out += koshi_frame_words(frame) + frame.tokens;
        done++;
    }
    if (threadIdx.x == 0) {
        decode.results[block] = KoshiResult{done, status, detail, unsigned(out)};
    }
}
