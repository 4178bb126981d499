// Stage 1: every emitting arc of every emitting token, under the exact bound.
//
// Arcs are numbered through all tokens by a prefix sum over out-degrees, and each warp weighs an equal stretch of them,
// so work is spread whatever the degrees. Costs and owners are kept behind the candidates' places, where links of epsilon
// arcs come later: who is within the bound is then one load an arc.
#ifndef KOSHI_EXPAND_CUH
#define KOSHI_EXPAND_CUH

#include "lane.cuh"
#include "select.cuh"

// Arcs that a thread takes of a tile of weighed ones.
#define KOSHI_WEIGHED_ITEMS 8

// What an arc costs, which emitter it belongs to, and the bias state behind it.
struct KoshiWeighed {
    float cost;
    unsigned owner;
    unsigned bias;
};

// The arcs of the lane's emitting tokens.
template <class Lane>
struct KoshiArcs {
    const unsigned *words;
    const float *costs;  // scaled, by column
    const unsigned *emitters;
    const unsigned *first;
    unsigned count;
    unsigned wide;
    unsigned kept;     // arcs that there is room for
    unsigned kept_at;  // the link whose place the first of them takes
    Lane lane;

    __device__ __forceinline__ float emitter_cost(unsigned owner) const {
        return __uint_as_float(emitters[3 * size_t(owner) + 1]);
    }

    // Arc `place` of an emitter of cost `cost`.
    __device__ __forceinline__ KoshiWeighed weigh(unsigned owner, float cost, const KoshiHeader &header,
                                                  unsigned place) const {
        KoshiWeighed it = {0.0f, owner, 0};
        const unsigned *arcs = words + header.body;
        const float weight = __uint_as_float(arcs[place]);
        const unsigned *columns = arcs + 2 * size_t(header.n_emit);
        const float score = costs[wide ? columns[place] : reinterpret_cast<const unsigned short *>(columns)[place]];
        it.cost = cost + (koshi_steps(lane).emitting(owner, header.first_arc + place, weight, it.bias) + score);
        return it;
    }

    __device__ __forceinline__ float kept_cost(unsigned item) const { return lane.link_cost[kept_at + item]; }

    // Arc `item` of all, when all have been weighed: as it is kept, or anew.
    __device__ __forceinline__ KoshiWeighed weighed(unsigned item) const {
        if (item < kept) {
            const unsigned at = kept_at + item;
            return KoshiWeighed{kept_cost(item), lane.link_src[at], koshi_link_bias(lane, at)};
        }
        const unsigned owner = koshi_owner(first, count, item, 0);
        const KoshiHeader header = koshi_header(words, emitters[3 * size_t(owner)]);
        return weigh(owner, emitter_cost(owner), header, item - first[owner]);
    }

    __device__ __forceinline__ void keep(unsigned item, const KoshiWeighed &it) const {
        if (item < kept) {
            const unsigned at = kept_at + item;
            lane.link_cost[at] = it.cost;
            lane.link_src[at] = it.owner;
            koshi_set_link_bias(lane, at, it.bias);
        }
    }

    // Makes arc `item` candidate `to`.
    __device__ __forceinline__ void append(unsigned item, unsigned to) const {
        const KoshiWeighed it = weighed(item);
        const KoshiHeader header = koshi_header(words, emitters[3 * size_t(it.owner)]);
        const unsigned place = item - first[it.owner];
        lane.link_cost[to] = it.cost;
        lane.link_to[to] = words[header.body + header.n_emit + place];
        lane.link_src[to] = emitters[3 * size_t(it.owner) + 2];
        lane.link_arc[to] = header.first_arc + place;
        koshi_set_link_bias(lane, to, it.bias);
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

// Weighs arcs `from`.. to before `until`, by one warp. Lowers the least cost, and the least arc that falls to -inf.
//
// Each lane holds one of 32 emitters that follow each other: what their arcs ask for comes by shuffles, and is loaded once
// for all of them, as a search for the owner of each arc in `first` would not be.
template <class Lane>
static __device__ void koshi_weigh_stretch(const KoshiArcs<Lane> &arcs, unsigned from, unsigned until, float &best,
                                           unsigned &least_arc) {
    unsigned window = from < until ? koshi_warp_owner(arcs.first, arcs.count, from) : 0;
    while (from < until) {
        const unsigned held = window + koshi_lane();
        unsigned first = KOSHI_NONE, state = 0, n_emit = 0;
        float cost = 0.0f;
        if (held < arcs.count) {
            first = arcs.first[held];
            state = arcs.emitters[3 * size_t(held)];
            cost = arcs.emitter_cost(held);
            const KoshiHeader header = koshi_header(arcs.words, state);
            n_emit = header.n_emit;
            state |= header.body == koshi_body(state) ? 0 : KOSHI_HIGH_BIT;
        }
        // Where their arcs end.
        const unsigned end =
            KOSHI_WARP < arcs.count - window ? koshi_least(until, arcs.first[window + KOSHI_WARP]) : until;
        for (unsigned row = from; row < end; row += koshi_least(KOSHI_WARP, end - row)) {
            const unsigned left = end - row;
            const unsigned item = row + koshi_least(koshi_lane(), left - 1);
            // The last of the emitters whose first arc is not past this one: those without arcs are not.
            unsigned owner = 0;
            for (unsigned step = KOSHI_WARP / 2; step > 0; step /= 2) {
                owner += __shfl_sync(KOSHI_FULL_MASK, first, owner + step) <= item ? step : 0;
            }
            const unsigned place = item - __shfl_sync(KOSHI_FULL_MASK, first, owner);
            const unsigned packed = __shfl_sync(KOSHI_FULL_MASK, state, owner);
            const float before = __shfl_sync(KOSHI_FULL_MASK, cost, owner);
            KoshiHeader header;
            header.n_emit = __shfl_sync(KOSHI_FULL_MASK, n_emit, owner);
            if (koshi_lane() < left) {
                const unsigned of = packed & ~KOSHI_HIGH_BIT;
                header.body = koshi_body(of) + (packed >> 31) * KOSHI_LONG_HEADER;
                header.first_arc = arcs.words[2 * size_t(of) + 1];
                const KoshiWeighed it = arcs.weigh(window + owner, before, header, place);
                arcs.keep(item, it);
                best = it.cost < best ? it.cost : best;
                if (it.cost == -KOSHI_INFINITY) {
                    least_arc = koshi_least(least_arc, header.first_arc + place);
                }
            }
        }
        from = end;
        window += KOSHI_WARP;
    }
}

// Appends the candidates within `theta`, while they fit, and counts all of them.
template <class Lane>
static __device__ unsigned koshi_append_candidates(const KoshiArcs<Lane> &arcs, unsigned total, float theta,
                                                   const KoshiDecode &decode, KoshiShared &shared) {
    const unsigned kept = koshi_least(total, arcs.kept);
    unsigned count = 0;
    for (unsigned long long tile = 0; tile < total; tile += KOSHI_WEIGHED_ITEMS * KOSHI_THREADS) {
        const unsigned long long mine = tile + threadIdx.x;
        unsigned within = 0;
        for (unsigned at = 0; at < KOSHI_WEIGHED_ITEMS; at++) {
            if (mine + at * KOSHI_THREADS < kept) {
                within |= unsigned(arcs.kept_cost(unsigned(mine) + at * KOSHI_THREADS) <= theta) << at;
            }
        }
        if (kept < total && tile + KOSHI_WEIGHED_ITEMS * KOSHI_THREADS > kept) {
#pragma unroll 1
            for (unsigned at = 0; at < KOSHI_WEIGHED_ITEMS; at++) {
                const unsigned long long item = mine + at * KOSHI_THREADS;
                if (item >= kept && item < total) {
                    within |= unsigned(arcs.weighed(unsigned(item)).cost <= theta) << at;
                }
            }
        }
        unsigned tile_count;
        unsigned place = count + koshi_block_exclusive_sum(__popc(within), &shared.scratch, &tile_count);
        for (; within != 0 && place < decode.candidate_capacity; within &= within - 1) {
            arcs.append(unsigned(mine) + (__ffs(int(within)) - 1) * KOSHI_THREADS, place);
            place++;
        }
        count += tile_count;
    }
    __syncthreads();
    return count;
}

// Keys of the arcs within a bound, for the radix select: any number of them.
template <class Lane>
struct KoshiArcKeys {
    KoshiArcs<Lane> arcs;
    float theta;

    __device__ __forceinline__ bool key(unsigned item, unsigned &key) const {
        const float cost = arcs.weighed(item).cost;
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
    const KoshiArcs<Lane> arcs = {decode.words,
                                  costs,
                                  lane.emitters,
                                  lane.first,
                                  lane.num_emitters,
                                  decode.wide,
                                  decode.max_links - decode.candidate_capacity,
                                  decode.candidate_capacity,
                                  lane};

    float best = KOSHI_INFINITY;
    unsigned least_arc = KOSHI_NONE;
    const unsigned stretch = found.arcs / KOSHI_WARPS + 1;
    const unsigned long long from = (unsigned long long)stretch * koshi_warp();
    if (from < found.arcs) {
        const unsigned begin = unsigned(from);
        koshi_weigh_stretch(arcs, begin, begin + koshi_least(stretch, found.arcs - begin), best, least_arc);
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
    unsigned count;
    while ((count = koshi_append_candidates(arcs, found.arcs, found.theta, decode, shared)) > decode.candidate_capacity) {
        const KoshiArcKeys<Lane> keys = {arcs, found.theta};
        if (!koshi_largest_fitting(shared, keys, found.arcs, decode.candidate_capacity, &found.theta)) {
            found.status = KOSHI_CAPACITY;
            found.detail = 0;
            return found;
        }
    }
    lane.num_links = count;
    return found;
}

#endif
