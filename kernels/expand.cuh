// Stage 1: every emitting arc of every emitting token, under the exact bound.
//
// Arcs are numbered through all tokens by a prefix sum over out-degrees; threads take them in turn
// and find the token by binary search, so work is spread whatever the degrees.
#ifndef KOSHI_EXPAND_CUH
#define KOSHI_EXPAND_CUH

#include "lane.cuh"
#include "select.cuh"

// The arcs of the lane's emitting tokens.
template <class Lane>
struct KoshiArcs {
    const unsigned *words;
    const float *costs;  // scaled, by column
    const unsigned *emitters;
    const unsigned *first;
    unsigned count;
    unsigned wide;
    Lane lane;

    // Cost of arc `item` of all, which belongs to emitter `owner`, and the bias state behind it.
    __device__ __forceinline__ float cost(unsigned item, unsigned owner, KoshiHeader &header, unsigned &place,
                                          unsigned &bias) const {
        header = koshi_header(words, emitters[3 * size_t(owner)]);
        place = item - first[owner];
        const unsigned *arcs = words + header.body;
        const float weight = __uint_as_float(arcs[place]);
        const unsigned *columns = arcs + 2 * size_t(header.n_emit);
        const unsigned column = wide ? columns[place] : reinterpret_cast<const unsigned short *>(columns)[place];
        const float weighed = koshi_steps(lane).emitting(owner, header.first_arc + place, weight, bias);
        return __uint_as_float(emitters[3 * size_t(owner) + 1]) + (weighed + costs[column]);
    }

    __device__ __forceinline__ typename Lane::Candidate candidate(unsigned item, unsigned owner) const {
        KoshiHeader header;
        unsigned place, bias = 0;
        typename Lane::Candidate it;
        it.cost = cost(item, owner, header, place, bias);
        koshi_set_bias(it, bias);
        it.dst = words[header.body + header.n_emit + place];
        it.src = emitters[3 * size_t(owner) + 2];
        it.arc = header.first_arc + place;
        return it;
    }
};

// Emitting arcs of the lane's emitting tokens.
struct KoshiEmitterDegrees {
    const unsigned *words;
    const unsigned *emitters;

    __device__ __forceinline__ unsigned degree(unsigned at) const {
        return koshi_header(words, emitters[3 * size_t(at)]).n_emit;
    }
};

// Appends the candidates within `theta`, while they fit, and counts all of them.
template <class Lane>
static __device__ unsigned koshi_append_candidates(const KoshiArcs<Lane> &arcs, unsigned total, float theta,
                                                   const KoshiDecode &decode, const Lane &lane, KoshiShared &shared) {
    unsigned count = 0, owner = 0;
    for (unsigned long long tile = 0; tile < total; tile += Lane::ITEMS * KOSHI_THREADS) {
        typename Lane::Candidate found[Lane::ITEMS];
        unsigned keep = 0, within = 0;
        for (unsigned at = 0; at < Lane::ITEMS; at++) {
            const unsigned long long item = tile + at * KOSHI_THREADS + threadIdx.x;
            if (item < total) {
                owner = koshi_owner(arcs.first, arcs.count, unsigned(item), owner);
                found[at] = arcs.candidate(unsigned(item), owner);
                if (found[at].cost <= theta) {
                    keep |= 1u << at;
                    within++;
                }
            }
        }
        unsigned tile_count;
        unsigned place = count + koshi_block_exclusive_sum(within, &shared.scratch, &tile_count);
        for (unsigned at = 0; at < Lane::ITEMS; at++) {
            if (keep >> at & 1) {
                if (place < decode.candidate_capacity) {
                    lane.link_cost[place] = found[at].cost;
                    lane.link_to[place] = found[at].dst;
                    lane.link_src[place] = found[at].src;
                    lane.link_arc[place] = found[at].arc;
                    koshi_set_link_bias(lane, place, koshi_bias_of(found[at]));
                }
                place++;
            }
        }
        count += tile_count;
    }
    __syncthreads();
    return count;
}

// Keys of the arcs within a bound, for the radix select: any number of them, none is stored.
template <class Lane>
struct KoshiArcKeys {
    KoshiArcs<Lane> arcs;
    float theta;
    mutable unsigned owner;

    __device__ __forceinline__ bool key(unsigned item, unsigned &key) const {
        KoshiHeader header;
        unsigned place, bias = 0;
        owner = koshi_owner(arcs.first, arcs.count, item, item >= arcs.first[owner] ? owner : 0);
        const float cost = arcs.cost(item, owner, header, place, bias);
        key = koshi_ordered_from_float(cost);
        return cost <= theta;
    }
};

// Fills the lane's links with the candidates of the frame.
template <class Lane>
static __device__ KoshiExpanded koshi_expand(const KoshiDecode &decode, Lane &lane, KoshiShared &shared,
                                             const float *costs) {
    KoshiExpanded found;
    found.status = KOSHI_DONE;
    found.detail = 0;
    found.theta = found.wide = 0.0f;
    const KoshiEmitterDegrees degrees = {decode.words, lane.emitters};
    if (Lane::REPEATS && !koshi_can_number(shared, degrees, lane.num_emitters)) {
        found.status = KOSHI_WORKSPACE;
        return found;
    }
    found.arcs = koshi_number(shared, degrees, lane.num_emitters, lane.first);
    const KoshiArcs<Lane> arcs = {decode.words, costs, lane.emitters, lane.first, lane.num_emitters, decode.wide, lane};

    float best = KOSHI_INFINITY;
    unsigned owner = 0, least_arc = KOSHI_NONE;
    for (unsigned long long item = threadIdx.x; item < found.arcs; item += KOSHI_THREADS) {
        KoshiHeader header;
        unsigned place, bias = 0;
        owner = koshi_owner(lane.first, lane.num_emitters, unsigned(item), owner);
        const float cost = arcs.cost(unsigned(item), owner, header, place, bias);
        if (cost < best) {
            best = cost;
        }
        if (cost == -KOSHI_INFINITY && header.first_arc + place < least_arc) {
            least_arc = header.first_arc + place;
        }
    }
    const unsigned long long least = koshi_block_min(koshi_pack(best, least_arc), &shared.scratch);
    found.best = koshi_float_from_ordered(unsigned(least >> 32));
    lane.num_links = 0;
    if (found.best == KOSHI_INFINITY) {
        found.status = KOSHI_NO_TOKENS;
        return found;
    }
    if (found.best == -KOSHI_INFINITY) {
        found.status = KOSHI_OVERFLOW;
        found.detail = unsigned(least);
        return found;
    }
    found.theta = found.best + lane.next_beam;
    if (found.theta > KOSHI_LARGEST) {
        found.theta = KOSHI_LARGEST;
    }
    found.wide = found.theta;
    unsigned count = koshi_append_candidates(arcs, found.arcs, found.theta, decode, lane, shared);
    if (count > decode.candidate_capacity) {
        const KoshiArcKeys<Lane> keys = {arcs, found.theta, 0};
        if (!koshi_largest_fitting(shared, keys, found.arcs, decode.candidate_capacity, &found.theta)) {
            found.status = KOSHI_CAPACITY;
            found.detail = 0;
            return found;
        }
        count = koshi_append_candidates(arcs, found.arcs, found.theta, decode, lane, shared);
    }
    lane.num_links = count;
    return found;
}

#endif
