// What a lane works with: the launch's parameters, the lane's own memory, what a frame reports.
// The structs are laid out the same in src/cuda/layout.rs.
#ifndef KOSHI_LANE_CUH
#define KOSHI_LANE_CUH

#include "portable.cuh"

// Threads of a block. Digit tables of the radix select have one entry a thread.
#define KOSHI_THREADS 256
#define KOSHI_WARPS (KOSHI_THREADS / KOSHI_WARP)
// Items that a thread takes of a tile: fewer barriers an item.
#define KOSHI_ITEMS 4
#define KOSHI_TILE (KOSHI_THREADS * KOSHI_ITEMS)

#define KOSHI_NONE 0xffffffffu
// Set in a destination word when the state has epsilon arcs, and in a link's source when that is
// a token of the same time.
#define KOSHI_HIGH_BIT 0x80000000u
#define KOSHI_INFINITY __uint_as_float(0x7f800000u)
#define KOSHI_LARGEST __uint_as_float(0x7f7fffffu)

// How a lane's launch ended.
enum KoshiStatus {
    KOSHI_DONE = 0,
    // No room in the output for another frame: the host makes room and launches again.
    KOSHI_OUTPUT_FULL = 1,
    KOSHI_NO_TOKENS = 2,
    // A candidate fell to -inf; `detail` is the least such arc.
    KOSHI_OVERFLOW = 3,
    // Even the tied best do not fit; `detail` says what: 0 candidates, 1 tokens, 2 links.
    KOSHI_CAPACITY = 4,
    // The least token fell to -inf.
    KOSHI_RANGE = 5,
    // The closure outgrew the lane's working memory before a capacity could be applied: the host
    // searches this time.
    KOSHI_WORKSPACE = 6,
};

// Flags of a frame.
#define KOSHI_MAX_ACTIVE_HELD 1u
#define KOSHI_CAPACITY_HELD 2u

// What a frame reports.
struct KoshiFrame {
    unsigned long long arcs;  // looked at
    unsigned out;             // word of the lane's output where the frame's begins
    unsigned tokens;      // handed over
    unsigned links;       // likewise: within the lattice beam
    unsigned emitting;    // of these, those of emitting arcs: they come first
    unsigned all_tokens;  // made
    unsigned all_links;   // made
    unsigned closed;     // tokens with epsilon arcs
    unsigned flags;
    float theta;   // that held in the end
    float wide;    // theta before any capacity struck
    float best;    // least candidate
    float least;   // least token
    float cutoff;  // of the next frame
    float next_beam;
};

// Words of a link in the output: source, arc, cost, destination token.
#define KOSHI_LINK_WORDS 4

// Words that a frame's output takes, without the tokens' extra costs behind it.
static __device__ __forceinline__ unsigned koshi_frame_words(const KoshiFrame &frame) {
    return 2 * frame.tokens + frame.closed + KOSHI_LINK_WORDS * frame.links;
}

// What a lane reports.
struct KoshiResult {
    unsigned frames;  // done
    unsigned status;
    unsigned detail;
    unsigned out_words;
};

// What a lane is given.
struct KoshiInput {
    unsigned long long emitters;  // word of the input where the emitters' triples begin
    const float *rows;            // scaled
    const unsigned *phrases;      // null without; then `KoshiSteps::emitters` stand behind the triples
    unsigned num_emitters;
    unsigned frames;
    unsigned begin;  // 1: the only frame is time 0, without a row
    float next_beam;
};

// The launch's parameters.
struct KoshiDecode {
    const unsigned *words;  // the graph's blocks
    const KoshiInput *inputs;
    const unsigned *input;
    unsigned *work;
    unsigned *out;
    KoshiFrame *frames;
    KoshiResult *results;
    unsigned long long work_words;  // a lane's share
    unsigned long long out_words;
    unsigned frames_per_lane;
    unsigned num_columns;
    unsigned wide;  // columns take 32 bits
    unsigned start;
    unsigned max_links;    // that the working memory holds, above all capacities
    unsigned max_tokens;   // likewise, at least token_capacity
    unsigned max_waiting;  // likewise, of those with epsilon arcs
    unsigned hash_slots;   // a power of two, more than two tiles above max_tokens
    unsigned candidate_capacity;
    unsigned token_capacity;
    unsigned link_capacity;
    unsigned max_active;
    unsigned min_active;
    float beam;
    float lattice_beam;
    float beam_delta;
};

static_assert(sizeof(KoshiFrame) == 64, "layout.rs");
static_assert(sizeof(KoshiResult) == 16, "layout.rs");
static_assert(sizeof(KoshiInput) == 40, "layout.rs");
static_assert(sizeof(KoshiDecode) == 136, "layout.rs");

// What a block shares.
struct KoshiShared {
    koshi_block_scratch scratch;
    unsigned digits[KOSHI_THREADS];
    unsigned digit;
    unsigned rank;
};

// What stage 1 found.
struct KoshiExpanded {
    float best;
    float theta;
    float wide;  // theta before a capacity struck
    unsigned arcs;
    unsigned status;
    unsigned detail;
};

// A candidate.
struct KoshiCandidate {
    float cost;
    unsigned dst;
    unsigned src;
    unsigned arc;
};

// Without phrases an arc weighs what it does, and no token has a bias state.
struct KoshiNoSteps {
    __device__ __forceinline__ float emitting(unsigned, unsigned, float weight, unsigned &) const { return weight; }
    __device__ __forceinline__ float epsilon(unsigned, unsigned, float weight, unsigned &) const { return weight; }
};

// A lane's memory and state. Scalars are the same in all threads.
struct KoshiLane {
    typedef KoshiCandidate Candidate;
    // Whether several tokens of a time may be of one state.
    static const bool REPEATS = false;
    // Arcs that a thread takes of a tile.
    static const unsigned ITEMS = KOSHI_ITEMS;
    // State hash: least (cost, link) of the state, its destination word, its token.
    unsigned long long *hash_best;
    unsigned *hash_word;
    unsigned *hash_token;
    // Links of the time at hand, candidates of emitting arcs first.
    unsigned *link_src;
    unsigned *link_arc;
    float *link_cost;
    unsigned *link_to;  // destination word, and once that is entered its slot
    // Its tokens.
    unsigned *token_slot;
    // Tokens that emit: state, cost, place; and where their arcs begin among all.
    unsigned *emitters;
    unsigned *first;
    // Tokens that wait for the closure, those whose turn it is, where their arcs begin; those closed.
    // All but the last share memory with the emitting ones: none emit while a closure is made.
    unsigned *wait_level;
    unsigned *wait_token;
    unsigned *turn;
    unsigned *turn_first;
    unsigned *closed;
    unsigned *out;
    unsigned num_emitters;
    unsigned num_links;
    unsigned num_tokens;
    // Waiting tokens, near and far; near ones below the bound have their turn before the far ones.
    unsigned num_near;
    unsigned num_far;
    unsigned near_bound;
    unsigned num_closed;
    float next_beam;
};

// The lane's share of the working memory. Its size is `work_words` of src/cuda/layout.rs.
static __device__ KoshiLane koshi_lane_of(const KoshiDecode &decode, unsigned lane) {
    KoshiLane it;
    const size_t links = decode.max_links, tokens = decode.max_tokens, slots = decode.hash_slots;
    const size_t waiting = decode.max_waiting, emitters = decode.token_capacity;
    unsigned *at = decode.work + lane * decode.work_words;
    it.hash_best = reinterpret_cast<unsigned long long *>(at);
    at += 2 * slots;
    it.hash_word = at;
    at += slots;
    it.hash_token = at;
    at += slots;
    it.link_src = at;
    at += links;
    it.link_arc = at;
    at += links;
    it.link_cost = reinterpret_cast<float *>(at);
    at += links;
    it.link_to = at;
    at += links;
    it.token_slot = at;
    at += tokens;
    it.closed = at;
    at += waiting;
    it.emitters = at;
    it.first = at + 3 * emitters;
    it.wait_level = at;
    it.wait_token = at + waiting;
    it.turn = at + 2 * waiting;
    it.turn_first = at + 3 * waiting;
    it.out = decode.out + lane * decode.out_words;
    it.num_emitters = 0;
    it.num_links = 0;
    it.num_tokens = 0;
    it.num_near = 0;
    it.num_far = 0;
    it.near_bound = KOSHI_NONE;
    it.num_closed = 0;
    it.next_beam = 0.0f;
    return it;
}

// The header of a state's block (src/graph/blocks.rs).
struct KoshiHeader {
    unsigned n_emit;
    unsigned n_eps;
    unsigned level;
    unsigned first_arc;
    size_t body;  // word behind the header
};

// Words that a long header has more.
#define KOSHI_LONG_HEADER 3u

// The word behind a state's header, if that is short.
static __device__ __forceinline__ size_t koshi_body(unsigned state) { return size_t(state) * 2 + 2; }

static __device__ __forceinline__ KoshiHeader koshi_header(const unsigned *words, unsigned state) {
    KoshiHeader header;
    const size_t at = size_t(state) * 2;
    const unsigned packed = words[at];
    header.first_arc = words[at + 1];
    if (packed == 0xffffffffu) {
        header.n_emit = words[at + 2];
        header.n_eps = words[at + 3];
        header.level = words[at + 4];
        header.body = koshi_body(state) + KOSHI_LONG_HEADER;
    } else {
        header.n_emit = packed & 0xffffu;
        header.n_eps = packed >> 16 & 0xfffu;
        header.level = packed >> 28;
        header.body = koshi_body(state);
    }
    return header;
}

// Numbers the items of `count` owners through: `first[i]` is where those of owner i begin, and the result how many there
// are, fewer than 2^32. Without phrases owners are distinct states and items their arcs, so there are no more than
// the graph has.
template <class Degrees>
static __device__ unsigned koshi_number(KoshiShared &shared, const Degrees &degrees, unsigned count, unsigned *first) {
    unsigned sum = 0;
    for (unsigned tile = 0; tile < count; tile += KOSHI_TILE) {
        unsigned own[KOSHI_ITEMS], mine = 0;
        const unsigned from = tile + threadIdx.x * KOSHI_ITEMS;
        for (unsigned at = 0; at < KOSHI_ITEMS; at++) {
            own[at] = from + at < count ? degrees.degree(from + at) : 0;
            mine += own[at];
        }
        unsigned total;
        unsigned before = sum + koshi_block_exclusive_sum(mine, &shared.scratch, &total);
        for (unsigned at = 0; at < KOSHI_ITEMS; at++) {
            if (from + at < count) {
                first[from + at] = before;
            }
            before += own[at];
        }
        sum += total;
    }
    __syncthreads();
    return sum;
}

// Whether the items of `count` owners are few enough to be numbered.
template <class Degrees>
static __device__ bool koshi_can_number(KoshiShared &shared, const Degrees &degrees, unsigned count) {
    unsigned long long mine = 0;
    for (unsigned at = threadIdx.x; at < count; at += KOSHI_THREADS) {
        mine += degrees.degree(at);
    }
    return koshi_block_sum(koshi_u64(mine), &shared.scratch) < KOSHI_NONE;
}

// Which of `count` owners item `item` belongs to: the last whose first item is not past it. `from`
// is an owner that is not past it either. Doubling steps first: the next item of a thread is near.
static __device__ __forceinline__ unsigned koshi_owner(const unsigned *first, unsigned count, unsigned item,
                                                       unsigned from) {
    unsigned low = from, step = 1;
    while (step < count - low && first[low + step] <= item) {
        low += step;
        step *= 2;
    }
    unsigned high = step < count - low ? low + step : count;
    while (high - low > 1) {
        const unsigned middle = low + (high - low) / 2;
        if (first[middle] <= item) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

// The same by a whole warp, all of whose lanes ask for the same item.
static __device__ __forceinline__ unsigned koshi_warp_owner(const unsigned *first, unsigned count, unsigned item) {
    unsigned low = 0;
    while (count > 1) {
        const unsigned step = (count + KOSHI_WARP - 1) / KOSHI_WARP, at = koshi_lane() * step;
        const unsigned passed =
            step * (__popc(__ballot_sync(KOSHI_FULL_MASK, at < count && first[low + at] <= item)) - 1);
        low += passed;
        count = koshi_least(step, count - passed);
    }
    return low;
}

// The slot of a state in the lane's hash; if it is new, taken and counted. There are always free slots.
// This and what follows has its like for lanes with phrases, in bias.cuh; here bias states are nothing.
static __device__ __forceinline__ unsigned koshi_slot(const KoshiLane &lane, unsigned slots, unsigned word, unsigned,
                                                      unsigned &taken) {
    unsigned slot = ((word & ~KOSHI_HIGH_BIT) * 0x9e3779b1u) >> __clz(int(slots - 1)) & (slots - 1);
    for (;;) {
        const unsigned found = atomicCAS(&lane.hash_word[slot], KOSHI_NONE, word);
        if (found == KOSHI_NONE) {
            taken++;
            return slot;
        }
        if (found == word) {
            return slot;
        }
        slot = (slot + 1) & (slots - 1);
    }
}

// Cost of a token before the subtraction of the least.
static __device__ __forceinline__ float koshi_alpha(const KoshiLane &lane, unsigned token) {
    return koshi_float_from_ordered(unsigned(lane.hash_best[lane.token_slot[token]] >> 32));
}

// State of a token. Others may be trying its slot for another state, which leaves it as it is: so volatile.
static __device__ __forceinline__ unsigned koshi_state(const KoshiLane &lane, unsigned token, unsigned &) {
    const volatile unsigned *words = lane.hash_word;
    return words[lane.token_slot[token]] & ~KOSHI_HIGH_BIT;
}

// Destination word of a slot in use.
static __device__ __forceinline__ unsigned koshi_word(const KoshiLane &lane, unsigned slot) {
    return lane.hash_word[slot];
}

static __device__ __forceinline__ void koshi_empty_slot(const KoshiLane &lane, unsigned slot) {
    lane.hash_best[slot] = ~0ull;
    lane.hash_word[slot] = KOSHI_NONE;
    lane.hash_token[slot] = KOSHI_NONE;
}

static __device__ __forceinline__ KoshiNoSteps koshi_steps(const KoshiLane &) { return KoshiNoSteps{}; }

static __device__ __forceinline__ unsigned koshi_bias_of(const KoshiCandidate &) { return 0; }
static __device__ __forceinline__ void koshi_set_bias(KoshiCandidate &, unsigned) {}
static __device__ __forceinline__ unsigned koshi_link_bias(const KoshiLane &, unsigned) { return 0; }
static __device__ __forceinline__ void koshi_set_link_bias(const KoshiLane &, unsigned, unsigned) {}
static __device__ __forceinline__ unsigned koshi_slot_bias(const KoshiLane &, unsigned) { return 0; }
static __device__ __forceinline__ void koshi_set_emitter_bias(const KoshiLane &, size_t, unsigned) {}

#endif
