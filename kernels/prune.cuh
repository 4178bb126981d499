// Prunes what a launch hands over, where it would not fit and before it crosses the bus: tokens and links of the
// chunk that no end within the lattice beam can need, whatever frames follow. The tokens of the last time all
// count with extra 0 and all stay, in their places.
//
// A frame's output is destination words, costs, closed tokens, links, and behind them one word a
// token for its extra cost: a bound from below, 0 or more, so that its bits are ordered as they are.
#ifndef KOSHI_PRUNE_CUH
#define KOSHI_PRUNE_CUH

#include "lane.cuh"

// A frame of the output.
struct KoshiHanded {
    unsigned *words;
    float *alphas;
    unsigned *closed;
    unsigned *links;
    unsigned *extras;
};

static __device__ __forceinline__ KoshiHanded koshi_handed(unsigned *out, const KoshiFrame &frame) {
    KoshiHanded it;
    it.words = out + frame.out;
    it.alphas = reinterpret_cast<float *>(it.words + frame.tokens);
    it.closed = it.words + 2 * frame.tokens;
    it.links = it.closed + frame.closed;
    it.extras = it.links + KOSHI_LINK_WORDS * frame.links;
    return it;
}

// Extra cost of the best path through link `at`, in bits; +inf past the lattice beam.
static __device__ __forceinline__ unsigned koshi_through(const KoshiHanded &handed, unsigned at, float lattice_beam) {
    const unsigned *link = handed.links + KOSHI_LINK_WORDS * at;
    const float sum = (__uint_as_float(link[2]) - handed.alphas[link[3]]) +
                      __uint_as_float(*const_cast<volatile unsigned *>(&handed.extras[link[3]]));
    return sum <= lattice_beam ? __float_as_uint(sum) : 0x7f800000u;
}

// Passes the extra costs of a time on to the tokens that its links come from: first along epsilon
// links, to the fixpoint (minima do not depend on the order), then to the time before.
static __device__ void koshi_pass_back(const KoshiFrame &frame, const KoshiHanded &handed, unsigned *before,
                                       float lattice_beam) {
    for (int changed = frame.links > frame.emitting; changed;) {
        changed = 0;
        for (unsigned at = frame.emitting + threadIdx.x; at < frame.links; at += KOSHI_THREADS) {
            const unsigned source = handed.links[KOSHI_LINK_WORDS * at] & ~KOSHI_HIGH_BIT;
            const unsigned extra = koshi_through(handed, at, lattice_beam);
            changed |= extra < atomicMin(&handed.extras[source], extra);
        }
        changed = __syncthreads_or(changed);
    }
    if (before) {
        for (unsigned at = threadIdx.x; at < frame.emitting; at += KOSHI_THREADS) {
            const unsigned source = handed.links[KOSHI_LINK_WORDS * at];
            atomicMin(&before[source], koshi_through(handed, at, lattice_beam));
        }
    }
    __syncthreads();
}

// Moves what is left of a time to the left, to `to`; nothing moves over what is still to be read,
// since each part only shrinks. `places` gets the new place of each of its tokens, `before` has
// those of the time before (null: they have kept theirs).
static __device__ void koshi_move(KoshiFrame &frame, const KoshiHanded &from, unsigned *to, unsigned *places,
                                  const unsigned *before, bool last, float lattice_beam, KoshiShared &shared) {
    unsigned tokens = 0;
    for (unsigned tile = 0; tile < frame.tokens; tile += KOSHI_THREADS) {
        const unsigned token = tile + threadIdx.x;
        unsigned word = 0, keep = 0;
        if (token < frame.tokens) {
            word = from.words[token];
            keep = last || from.extras[token] != 0x7f800000u;
        }
        unsigned total;
        const unsigned place = tokens + koshi_block_exclusive_sum(keep, &shared.scratch, &total);
        if (token < frame.tokens) {
            places[token] = keep ? place : KOSHI_NONE;
        }
        if (keep) {
            to[place] = word;
        }
        tokens += total;
    }
    __syncthreads();

    to += tokens;
    // Costs of the links that stay are needed with their old destinations: those are read first.
    unsigned links = 0, emitting = 0;
    for (unsigned tile = 0; tile < frame.links; tile += KOSHI_THREADS) {
        const unsigned at = tile + threadIdx.x;
        unsigned *link = from.links + KOSHI_LINK_WORDS * at;
        unsigned src = 0, arc = 0, cost = 0, dst = 0, keep = 0;
        if (at < frame.links && koshi_through(from, at, lattice_beam) != 0x7f800000u) {
            const unsigned raw = link[0];
            keep = at < frame.emitting ? 0x10001u : 1u;
            src = at >= frame.emitting ? places[raw & ~KOSHI_HIGH_BIT] | KOSHI_HIGH_BIT : before ? before[raw] : raw;
            arc = link[1];
            cost = link[2];
            dst = places[link[3]];
        }
        unsigned totals;
        const unsigned sum = koshi_block_exclusive_sum(keep, &shared.scratch, &totals);
        if (keep) {
            unsigned *out = from.links + KOSHI_LINK_WORDS * (links + (sum & 0xffff));
            out[0] = src;
            out[1] = arc;
            out[2] = cost;
            out[3] = dst;
        }
        links += totals & 0xffff;
        emitting += totals >> 16;
    }
    __syncthreads();

    // Then costs of tokens, closed tokens, and the links once more, to their last place.
    unsigned kept = 0;
    for (unsigned tile = 0; tile < frame.tokens; tile += KOSHI_THREADS) {
        const unsigned token = tile + threadIdx.x;
        float alpha = 0.0f;
        unsigned keep = 0;
        if (token < frame.tokens) {
            alpha = from.alphas[token];
            keep = places[token] != KOSHI_NONE;
        }
        unsigned total;
        const unsigned place = kept + koshi_block_exclusive_sum(keep, &shared.scratch, &total);
        if (keep) {
            to[place] = __float_as_uint(alpha);
        }
        kept += total;
    }
    __syncthreads();
    to += tokens;
    unsigned closed = 0;
    for (unsigned tile = 0; tile < frame.closed; tile += KOSHI_THREADS) {
        const unsigned at = tile + threadIdx.x;
        unsigned place = KOSHI_NONE;
        if (at < frame.closed) {
            place = places[from.closed[at]];
        }
        const unsigned keep = place != KOSHI_NONE;
        unsigned total;
        const unsigned out = closed + koshi_block_exclusive_sum(keep, &shared.scratch, &total);
        if (keep) {
            to[out] = place;
        }
        closed += total;
    }
    __syncthreads();
    to += closed;
    const unsigned words = KOSHI_LINK_WORDS * links;
    for (unsigned tile = 0; tile < words; tile += KOSHI_THREADS) {
        const unsigned at = tile + threadIdx.x;
        unsigned word = 0;
        if (at < words) {
            word = from.links[at];
        }
        __syncthreads();
        if (at < words) {
            to[at] = word;
        }
        __syncthreads();
    }
    frame.tokens = tokens;
    frame.links = links;
    frame.emitting = emitting;
    frame.closed = closed;
}

// Prunes the first `count` frames of the lane's output; `again`: with room behind each for extra costs, since
// more frames follow. Gives the words that are left. The lists of the closure, but for the closed tokens, are lost.
static __device__ unsigned koshi_prune(const KoshiDecode &decode, const KoshiLane &lane, KoshiShared &shared,
                                       KoshiFrame *frames, unsigned count, bool again) {
    const float beam = decode.lattice_beam;
    for (unsigned at = 0; at < count; at++) {
        const KoshiFrame frame = frames[at];
        const KoshiHanded handed = koshi_handed(lane.out, frame);
        const unsigned extra = at + 1 == count ? 0 : 0x7f800000u;
        for (unsigned token = threadIdx.x; token < frame.tokens; token += KOSHI_THREADS) {
            handed.extras[token] = extra;
        }
    }
    __syncthreads();
    for (unsigned at = count; at-- > 0;) {
        const KoshiFrame frame = frames[at];
        unsigned *before = at > 0 ? koshi_handed(lane.out, frames[at - 1]).extras : nullptr;
        koshi_pass_back(frame, koshi_handed(lane.out, frame), before, beam);
    }

    // No tokens emit while this is made: places of the time at hand and of the time before.
    unsigned *places = lane.emitters, *before = lane.emitters + decode.token_capacity;
    unsigned out = 0;
    for (unsigned at = 0; at < count; at++) {
        KoshiFrame frame = frames[at];
        const KoshiHanded handed = koshi_handed(lane.out, frame);
        __syncthreads();
        koshi_move(frame, handed, lane.out + out, places, at > 0 ? before : nullptr, at + 1 == count, beam, shared);
        frame.out = out;
        if (threadIdx.x == 0) {
            frames[at] = frame;
        }
        out += koshi_frame_words(frame) + (again ? frame.tokens : 0);
        unsigned *const other = places;
        places = before;
        before = other;
        __syncthreads();
    }
    return out;
}

#endif
