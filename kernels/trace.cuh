// Stage 4: what leaves the device of a time: its tokens, and its links within the lattice beam.
#ifndef KOSHI_TRACE_CUH
#define KOSHI_TRACE_CUH

#include "lane.cuh"

// Words that the time at hand takes at most, extra costs included.
static __device__ __forceinline__ unsigned koshi_most_out(const KoshiLane &lane, unsigned pseudo) {
    return 3 * lane.num_tokens + lane.num_closed + KOSHI_LINK_WORDS * (lane.num_links - pseudo);
}

// Of tokens with phrases no bias states: they follow from the links, of which the first one into each token comes before all
// that leave it. Writes destination words, costs, closed tokens and links of the time to the lane's output from
// word `frame.out` on.
template <class Lane>
static __device__ void koshi_hand_over(const KoshiDecode &decode, const Lane &lane, KoshiShared &shared,
                                       unsigned pseudo, KoshiFrame &frame) {
    unsigned *words = lane.out + frame.out;
    for (unsigned token = threadIdx.x; token < lane.num_tokens; token += KOSHI_THREADS) {
        words[token] = koshi_word(lane, lane.token_slot[token]);
        words[lane.num_tokens + token] = __float_as_uint(koshi_alpha(lane, token));
    }
    words += 2 * size_t(lane.num_tokens);
    for (unsigned at = threadIdx.x; at < lane.num_closed; at += KOSHI_THREADS) {
        words[at] = lane.closed[at];
    }
    words += lane.num_closed;
    unsigned kept = 0, emitting = 0;
    for (unsigned tile = pseudo; tile < lane.num_links; tile += KOSHI_TILE) {
        unsigned keep = 0, count = 0;
        unsigned dst[KOSHI_ITEMS];
        const unsigned first = tile + threadIdx.x * KOSHI_ITEMS;
        for (unsigned at = 0; at < KOSHI_ITEMS; at++) {
            const unsigned link = first + at;
            dst[at] = 0;
            if (link < lane.num_links) {
                const unsigned slot = lane.link_to[link];
                const float alpha = koshi_float_from_ordered(unsigned(lane.hash_best[slot] >> 32));
                dst[at] = lane.hash_token[slot];
                if (lane.link_cost[link] - alpha <= decode.lattice_beam) {
                    keep |= 1u << at;
                    count += lane.link_src[link] & KOSHI_HIGH_BIT ? 1u : 0x10001u;
                }
            }
        }
        unsigned totals;
        size_t place = kept + (koshi_block_exclusive_sum(count, &shared.scratch, &totals) & 0xffff);
        for (unsigned at = 0; at < KOSHI_ITEMS; at++) {
            if (keep >> at & 1) {
                unsigned *out = words + KOSHI_LINK_WORDS * place;
                out[0] = lane.link_src[first + at];
                out[1] = lane.link_arc[first + at];
                out[2] = __float_as_uint(lane.link_cost[first + at]);
                out[3] = dst[at];
                place++;
            }
        }
        kept += totals & 0xffff;
        emitting += totals >> 16;
    }
    __syncthreads();
    frame.tokens = lane.num_tokens;
    frame.closed = lane.num_closed;
    frame.links = kept;
    frame.emitting = emitting;
    frame.all_tokens = lane.num_tokens;
    frame.all_links = lane.num_links - pseudo;
}

#endif
