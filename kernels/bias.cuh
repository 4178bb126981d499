// Phrases: tokens that are a graph state and a bias state, and what the arcs between them cost more. What it means is
// said in src/search/bias.rs; the words of a list are laid out by src/cuda/phrases.rs.
#ifndef KOSHI_BIAS_CUH
#define KOSHI_BIAS_CUH

#include "lane.cuh"

// The further parameters of a launch with phrases.
struct KoshiBias {
    // Output labels: which arcs have one, how many have one before each 64 arcs, and these.
    const unsigned long long *labelled;
    const unsigned *before;
    const int *labels;
    unsigned *work;
    unsigned long long work_words;  // a lane's share
};

static_assert(sizeof(KoshiBias) == 40, "layout.rs");

// Steps from one bias state of a list to the next.
struct KoshiSteps {
    const unsigned long long *labelled;
    const unsigned *before;
    const int *labels;
    // Four words: where the labels of its arcs begin, where their ends do, and the known labels; the mask of these. Then
    // four words a state, and so on.
    const unsigned *list;
    // Of each token that emits its state in the list, and the cost of what an earlier list gives back.
    unsigned *emitters;
    // Of the lane's links, bias states of destinations, until these are entered.
    unsigned *links;

    __device__ __forceinline__ int olabel(unsigned arc) const {
        const unsigned long long word = labelled[arc / 64];
        const unsigned at = arc % 64;
        return word >> at & 1 ? labels[before[arc / 64] + __popcll(word & ((1ull << at) - 1))] : 0;
    }

    // State words: first arc, fallback, held, completed. There is one more at the end.
    __device__ __forceinline__ const unsigned *node(unsigned state) const { return list + 4 + 4 * size_t(state); }

    __device__ __forceinline__ float held(unsigned state) const { return __uint_as_float(node(state)[2]); }

    // The state behind a label by the arcs of `state` alone, or KOSHI_NONE. Labels of a state ascend.
    __device__ __forceinline__ unsigned along(unsigned state, int label) const {
        const int *const all = reinterpret_cast<const int *>(list + list[0]);
        unsigned low = node(state)[0];
        const unsigned end = node(state + 1)[0];
        unsigned high = end;
        while (low < high) {
            const unsigned middle = low + (high - low) / 2;
            if (all[middle] < label) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low < end && all[low] == label ? list[list[1] + low] : KOSHI_NONE;
    }

    // What arc `arc` from state `from` weighs, on the way to which a token gives `back`; and the state behind it.
    __device__ __forceinline__ float weigh(unsigned from, float back, unsigned arc, float weight, unsigned &to) const {
        const int label = olabel(arc);
        to = from;
        if (label == 0) {
            return weight + back;
        }
        const unsigned mixed = unsigned(label) * 0x9e3779b1u;
        const unsigned word = 2 * (mixed >> 6 & list[3]) + (mixed >> 31), bit = mixed >> 26 & 31;
        if ((list[list[2] + word] >> bit & 1) == 0) {
            to = 0;
            return weight + (back - (0.0f - held(from)));
        }
        unsigned next = along(to, label);
        while (next == KOSHI_NONE && to != 0) {
            to = node(to)[1];
            next = along(to, label);
        }
        to = next == KOSHI_NONE ? 0 : next;
        const float gain = __uint_as_float(node(to)[3]) + held(to) - held(from);
        return weight + (back - gain);
    }

    // The same of an arc of emitting token `owner`.
    __device__ __forceinline__ float emitting(unsigned owner, unsigned arc, float weight, unsigned &to) const {
        const unsigned *const emitter = emitters + 2 * size_t(owner);
        return weigh(emitter[0], __uint_as_float(emitter[1]), arc, weight, to);
    }

    // The same of an epsilon arc of a token in state `from`.
    __device__ __forceinline__ float epsilon(unsigned from, unsigned arc, float weight, unsigned &to) const {
        return weigh(from, 0.0f, arc, weight, to);
    }
};

struct KoshiBiasedCandidate : KoshiCandidate {
    unsigned bias;
};

// A lane whose tokens have bias states: a slot's key is its destination word, and above it the bias state.
struct KoshiBiasedLane : KoshiLane {
    typedef KoshiBiasedCandidate Candidate;
    static const bool REPEATS = true;
    static const unsigned ITEMS = 1;  // with more, registers do not do for two blocks a multiprocessor
    unsigned long long *hash_key;  // where others have `hash_word` and `hash_token`
    const KoshiSteps *steps;       // shared by the block: registers are scarce
};

// The lane's share of the working memory, and of that for phrases (`bias_words` of src/cuda/layout.rs).
static __device__ KoshiBiasedLane koshi_biased_lane_of(const KoshiDecode &decode, const KoshiBias &bias, unsigned lane,
                                                       const unsigned *list, KoshiSteps *steps) {
    KoshiBiasedLane it;
    static_cast<KoshiLane &>(it) = koshi_lane_of(decode, lane);
    it.hash_key = reinterpret_cast<unsigned long long *>(it.hash_word);
    unsigned *at = bias.work + lane * bias.work_words;
    it.hash_token = at;
    at += decode.hash_slots;
    if (threadIdx.x == 0) {
        *steps = KoshiSteps{bias.labelled, bias.before, bias.labels, list, at + decode.max_links, at};
    }
    it.steps = steps;
    __syncthreads();
    return it;
}

static __device__ __forceinline__ const KoshiSteps &koshi_steps(const KoshiBiasedLane &lane) { return *lane.steps; }

static __device__ __forceinline__ unsigned koshi_slot(const KoshiBiasedLane &lane, unsigned slots, unsigned word,
                                                      unsigned bias, unsigned &taken) {
    const unsigned long long key = (unsigned long long)bias << 32 | word;
    const unsigned mixed = ((word & ~KOSHI_HIGH_BIT) + bias * 0x85ebca6bu) * 0x9e3779b1u;
    unsigned slot = mixed >> __clz(int(slots - 1)) & (slots - 1);
    for (;;) {
        const unsigned long long found = atomicCAS(&lane.hash_key[slot], ~0ull, key);
        if (found == ~0ull) {
            taken++;
            return slot;
        }
        if (found == key) {
            return slot;
        }
        slot = (slot + 1) & (slots - 1);
    }
}

static __device__ __forceinline__ unsigned koshi_word(const KoshiBiasedLane &lane, unsigned slot) {
    return unsigned(lane.hash_key[slot]);
}

static __device__ __forceinline__ void koshi_empty_slot(const KoshiBiasedLane &lane, unsigned slot) {
    lane.hash_best[slot] = ~0ull;
    lane.hash_key[slot] = ~0ull;
    lane.hash_token[slot] = KOSHI_NONE;
}

static __device__ __forceinline__ unsigned koshi_state(const KoshiBiasedLane &lane, unsigned token, unsigned &bias) {
    const volatile unsigned long long *keys = lane.hash_key;
    const unsigned long long key = keys[lane.token_slot[token]];
    bias = unsigned(key >> 32);
    return unsigned(key) & ~KOSHI_HIGH_BIT;
}

// Bias states where a candidate leads to, where a link that is not entered yet does, and of a slot.
static __device__ __forceinline__ unsigned koshi_bias_of(const KoshiBiasedCandidate &it) { return it.bias; }

static __device__ __forceinline__ void koshi_set_bias(KoshiBiasedCandidate &it, unsigned bias) { it.bias = bias; }

static __device__ __forceinline__ unsigned koshi_link_bias(const KoshiBiasedLane &lane, unsigned link) {
    return lane.steps->links[link];
}

static __device__ __forceinline__ void koshi_set_link_bias(const KoshiBiasedLane &lane, unsigned link, unsigned bias) {
    lane.steps->links[link] = bias;
}

static __device__ __forceinline__ unsigned koshi_slot_bias(const KoshiBiasedLane &lane, unsigned slot) {
    return unsigned(lane.hash_key[slot] >> 32);
}

// Emitting token `at` is of the list that holds: it gives nothing back.
static __device__ __forceinline__ void koshi_set_emitter_bias(const KoshiBiasedLane &lane, size_t at, unsigned bias) {
    lane.steps->emitters[2 * at] = bias;
    lane.steps->emitters[2 * at + 1] = 0;
}

#endif
