// Stage 3: capacities by exact selection (rule 6), and who emits next (rule 4).
#ifndef KOSHI_CUTOFF_CUH
#define KOSHI_CUTOFF_CUH

#include "closure.cuh"
#include "lane.cuh"
#include "select.cuh"

struct KoshiTokenKeys {
    KoshiLane lane;

    __device__ __forceinline__ bool key(unsigned token, unsigned &key) const {
        key = unsigned(lane.hash_best[lane.token_slot[token]] >> 32);
        return true;
    }
};

struct KoshiLinkKeys {
    const float *costs;

    __device__ __forceinline__ bool key(unsigned link, unsigned &key) const {
        key = koshi_ordered_from_float(costs[link]);
        return true;
    }
};

// Costs above the least are never negative, so their bits are ordered as they are.
struct KoshiAboveKeys {
    KoshiLane lane;
    float least;

    __device__ __forceinline__ bool key(unsigned token, unsigned &key) const {
        key = __float_as_uint(koshi_alpha(lane, token) - least);
        return true;
    }
};

// What became of a time.
struct KoshiSettled {
    float theta;
    unsigned status;
    unsigned detail;
    bool capacity_held;
};

// Keeps the candidates within theta, in their order, and takes them out of the hash.
template <class Lane>
static __device__ void koshi_drop_candidates(Lane &lane, KoshiShared &shared, unsigned count, float theta) {
    unsigned kept = 0;
    for (unsigned tile = 0; tile < count; tile += KOSHI_THREADS) {
        const unsigned at = tile + threadIdx.x;
        float cost = 0.0f;
        unsigned dst = 0, bias = 0, src = 0, arc = 0, keep = 0;
        if (at < count) {
            cost = lane.link_cost[at];
            dst = koshi_word(lane, lane.link_to[at]);
            bias = koshi_slot_bias(lane, lane.link_to[at]);
            src = lane.link_src[at];
            arc = lane.link_arc[at];
            keep = cost <= theta;
        }
        unsigned total;
        const unsigned place = kept + koshi_block_exclusive_sum(keep, &shared.scratch, &total);
        if (keep) {
            lane.link_cost[place] = cost;
            lane.link_to[place] = dst;
            lane.link_src[place] = src;
            lane.link_arc[place] = arc;
            koshi_set_link_bias(lane, place, bias);
        }
        kept += total;
    }
    __syncthreads();
    lane.num_links = kept;
    koshi_empty_hash(lane);
}

// Closes the lane's candidates and applies the capacities: tokens first, then links, until both
// fit. Theta only falls, so this ends. `pseudo`: links that lead nowhere, 1 at time 0. On success
// the hash holds the tokens; otherwise it is empty.
template <class Lane>
static __device__ KoshiSettled koshi_settle(const KoshiDecode &decode, Lane &lane, KoshiShared &shared,
                                            const KoshiExpanded &found, unsigned pseudo,
                                            unsigned long long *looked_at) {
    KoshiSettled settled = {found.theta, KOSHI_DONE, 0, found.theta < found.wide};
    for (;;) {
        unsigned candidates = lane.num_links;
        if (candidates == 0) {
            // With negative epsilon weights a bound on tokens or links may lie below every candidate.
            settled.status = KOSHI_CAPACITY;
            return settled;
        }
        if (!koshi_close(decode, lane, shared, settled.theta, looked_at)) {
            koshi_empty_whole_hash(decode, lane);
            settled.status = KOSHI_WORKSPACE;
            return settled;
        }
        bool fits;
        if (lane.num_tokens > decode.token_capacity) {
            settled.detail = 1;
            fits = koshi_largest_fitting(shared, KoshiTokenKeys{lane}, lane.num_tokens, decode.token_capacity,
                                         &settled.theta);
        } else if (lane.num_links - pseudo > decode.link_capacity) {
            settled.detail = 2;
            fits = koshi_largest_fitting(shared, KoshiLinkKeys{lane.link_cost + pseudo}, lane.num_links - pseudo,
                                         decode.link_capacity, &settled.theta);
        } else {
            return settled;
        }
        settled.capacity_held = true;
        if (!fits) {
            koshi_empty_hash(lane);
            settled.status = KOSHI_CAPACITY;
            return settled;
        }
        koshi_drop_candidates(lane, shared, candidates, settled.theta);
    }
}

// Rule 4, and the tokens that emit. Gives false where the least cost is -inf.
template <class Lane>
static __device__ bool koshi_choose_emitters(const KoshiDecode &decode, Lane &lane, KoshiShared &shared,
                                             KoshiFrame &frame) {
    unsigned least_key = KOSHI_NONE;
    for (unsigned token = threadIdx.x; token < lane.num_tokens; token += KOSHI_THREADS) {
        least_key = min(least_key, unsigned(lane.hash_best[lane.token_slot[token]] >> 32));
    }
    const float least = koshi_float_from_ordered(koshi_block_min(least_key, &shared.scratch));
    frame.least = least;
    if (least == -KOSHI_INFINITY) {
        return false;
    }
    const unsigned n = lane.num_tokens;
    frame.cutoff = frame.next_beam = KOSHI_INFINITY;
    if (n > decode.max_active || n > decode.min_active) {
        // `a[k] <= beam` holds exactly when more than k costs are within the beam.
        unsigned mine = 0;
        for (unsigned token = threadIdx.x; token < n; token += KOSHI_THREADS) {
            mine += koshi_alpha(lane, token) - least <= decode.beam;
        }
        unsigned within;
        koshi_block_exclusive_sum(mine, &shared.scratch, &within);
        unsigned rank = KOSHI_NONE;
        if (n > decode.max_active && within > decode.max_active) {
            rank = decode.max_active;
            frame.flags |= KOSHI_MAX_ACTIVE_HELD;
        } else if (n > decode.min_active) {
            if (decode.min_active > 0 && within <= decode.min_active) {
                rank = decode.min_active;
            } else {
                frame.cutoff = frame.next_beam = decode.beam;
            }
        }
        if (rank != KOSHI_NONE) {
            frame.cutoff = __uint_as_float(koshi_select(shared, KoshiAboveKeys{lane, least}, n, rank));
            frame.next_beam = frame.cutoff + decode.beam_delta;
        }
    }
    lane.next_beam = frame.next_beam;
    unsigned emitters = 0;
    for (unsigned tile = 0; tile < n; tile += KOSHI_THREADS) {
        const unsigned token = tile + threadIdx.x;
        float cost = 0.0f;
        unsigned emits = 0;
        if (token < n) {
            cost = koshi_alpha(lane, token) - least;
            emits = cost <= frame.cutoff;
        }
        unsigned total;
        const size_t place = emitters + koshi_block_exclusive_sum(emits, &shared.scratch, &total);
        if (emits) {
            unsigned bias = 0;
            lane.emitters[3 * place] = koshi_state(lane, token, bias);
            koshi_set_emitter_bias(lane, place, bias);
            lane.emitters[3 * place + 1] = __float_as_uint(cost);
            lane.emitters[3 * place + 2] = token;
        }
        emitters += total;
    }
    lane.num_emitters = emitters;
    __syncthreads();
    return true;
}

#endif
