// Advances lanes by a chunk of frames: one block a lane, no word with the host in between.
#include "bias.cuh"
#include "closure.cuh"
#include "cutoff.cuh"
#include "expand.cuh"
#include "lane.cuh"
#include "prune.cuh"
#include "trace.cuh"

// Tokens and links of one time of a lane, in its working memory. Gives the status; if it is not good, the hash is
// empty.
template <class Lane>
static __device__ unsigned koshi_reach(const KoshiDecode &decode, Lane &lane, KoshiShared &shared,
                                       const float *costs, bool begin, KoshiFrame &frame, unsigned *detail) {
    KoshiExpanded found;
    if (begin) {
        // The only candidate is the start state, at cost 0; no link leads to it.
        if (threadIdx.x == 0) {
            lane.link_cost[0] = 0.0f;
            lane.link_to[0] = decode.start;
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
    frame.arcs = found.arcs;
    frame.best = found.best;
    frame.wide = found.wide;
    const KoshiSettled settled = koshi_settle(decode, lane, shared, found, begin ? 1 : 0, &frame.arcs);
    frame.theta = settled.theta;
    frame.flags = settled.capacity_held ? KOSHI_CAPACITY_HELD : 0;
    *detail = settled.detail;
    return settled.status;
}

// Makes room in the output for the time at hand, behind the `done` frames before it, which take `out` words. False
// where there is too little even after they have been pruned: then the host takes them.
static __device__ bool koshi_make_room(const KoshiDecode &decode, const KoshiLane &lane, KoshiShared &shared,
                                       KoshiFrame *frames, unsigned done, unsigned pseudo, unsigned long long &out) {
    const unsigned long long needed = koshi_most_out(lane, pseudo);
    if (out + needed <= decode.out_words) {
        return true;
    }
    out = koshi_prune(decode, lane, shared, frames, done, true);
    // Not before each of the frames to come.
    return out + max(needed, decode.out_words / 4) <= decode.out_words;
}

// Loads what an emitting token has besides its triple.
static __device__ void koshi_load_bias(const KoshiLane &, const unsigned *, unsigned) {}

static __device__ void koshi_load_bias(const KoshiBiasedLane &lane, const unsigned *pairs, unsigned count) {
    for (size_t word = threadIdx.x; word < 2 * size_t(count); word += KOSHI_THREADS) {
        lane.steps->emitters[word] = pairs[word];
    }
}

// Takes a lane through its frames.
template <class Lane>
static __device__ __forceinline__ void koshi_decode_lane(const KoshiDecode &decode, const KoshiInput &input, Lane &lane,
                                                         KoshiShared &shared) {
    const unsigned block = blockIdx.x;
    KoshiFrame *frames = decode.frames + size_t(block) * decode.frames_per_lane;
    const unsigned pseudo = input.begin;
    // Load: the channel's emitting tokens.
    const unsigned *emitters = decode.input + input.emitters;
    for (size_t word = threadIdx.x; word < 3 * size_t(input.num_emitters); word += KOSHI_THREADS) {
        lane.emitters[word] = emitters[word];
    }
    koshi_load_bias(lane, emitters + 3 * size_t(input.num_emitters), input.num_emitters);
    lane.num_emitters = input.num_emitters;
    lane.next_beam = input.next_beam;
    __syncthreads();

    unsigned long long out = 0;
    unsigned status = KOSHI_DONE, detail = 0, done = 0;
    while (done < input.frames) {
        KoshiFrame frame = {};
        const float *costs = input.rows + size_t(done) * decode.num_columns;
        status = koshi_reach(decode, lane, shared, costs, input.begin != 0, frame, &detail);
        if (status != KOSHI_DONE) {
            break;
        }
        if (!koshi_make_room(decode, lane, shared, frames, done, pseudo, out)) {
            status = KOSHI_OUTPUT_FULL;
        } else if (!koshi_choose_emitters(decode, lane, shared, frame)) {
            status = KOSHI_RANGE;
        } else {
            frame.out = unsigned(out);
            koshi_hand_over(decode, lane, shared, pseudo, frame);
            if (threadIdx.x == 0) {
                frames[done] = frame;
            }
            out += koshi_frame_words(frame) + frame.tokens;
            done++;
        }
        koshi_empty_hash(lane);
        if (status != KOSHI_DONE) {
            break;
        }
    }
    if (threadIdx.x == 0) {
        decode.results[block] = KoshiResult{done, status, detail, unsigned(out)};
    }
}

// Lanes without phrases. Of the others there is a launch beside this one, over the same lanes.
extern "C" __global__ void __launch_bounds__(KOSHI_THREADS) koshi_k_decode(KoshiDecode decode) {
    __shared__ KoshiShared shared;
    const KoshiInput input = decode.inputs[blockIdx.x];
    if (input.phrases == nullptr) {
        KoshiLane lane = koshi_lane_of(decode, blockIdx.x);
        koshi_decode_lane(decode, input, lane, shared);
    }
}

// Lanes with phrases.
extern "C" __global__ void __launch_bounds__(KOSHI_THREADS) koshi_k_decode_biased(KoshiDecode decode, KoshiBias bias) {
    __shared__ KoshiShared shared;
    __shared__ KoshiSteps steps;
    const KoshiInput input = decode.inputs[blockIdx.x];
    if (input.phrases != nullptr) {
        KoshiBiasedLane lane = koshi_biased_lane_of(decode, bias, blockIdx.x, input.phrases, &steps);
        koshi_decode_lane(decode, input, lane, shared);
    }
}
