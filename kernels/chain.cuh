// What the chain objective's kernels share: parameters, the recursion's arithmetic, sums in a fixed order.
// The structs are laid out the same in src/cuda/chain_layout.rs; the recursion is that of src/chain/tile.rs.
#ifndef KOSHI_CHAIN_CUH
#define KOSHI_CHAIN_CUH

#include "portable.cuh"

// Most threads of a block of the recursion; the host asks for fewer where the graph is small.
#define KOSHI_CHAIN_THREADS 1024
// Threads of a block that handles one row.
#define KOSHI_CHAIN_ROW_THREADS 128
// Scores are clamped to this on both sides.
#define KOSHI_CHAIN_LIMIT 30.0f

// An arc: its probability, and the state or group at its other end.
struct __align__(8) KoshiChainArc {
    float prob;
    unsigned at;
};

// Some arcs that enter one state with one pdf. They end where those of the next group begin.
struct __align__(16) KoshiChainGroup {
    unsigned begin;
    unsigned pdf;
    unsigned state;
    unsigned place;  // among the groups of its pdf, all pdfs side by side
};

// What becomes of a sequence.
struct KoshiChainOutcome {
    double product;      // sum of alpha times beta at the first frame
    double occupancy;    // sum of the first frame's occupancies
    double occupancies;  // of all frames
    double squares;      // of the scores that are finite
    float prob;          // sum of the alphas behind the last frame
    unsigned reserved;
};

// The parameters of the recursion.
struct KoshiChain {
    const float *initial;           // by state
    const KoshiChainGroup *groups;  // by the state that they enter, then by pdf; one more at the end
    const KoshiChainArc *arcs_in;   // of the groups in their order; `at` is the source
    const unsigned *entering;       // where the groups of each state begin
    const unsigned *pdf_places;     // where the places of each pdf begin
    const KoshiChainArc *arcs_out;  // by source; `at` is the group
    const unsigned *pieces;         // where each piece of `arcs_out` begins: some arcs of one state
    const unsigned *leaving;        // where the pieces of each state begin
    const float *output;            // row frame * num_sequences + sequence
    const unsigned *lengths;        // frames of each sequence
    float *emissions;               // by row and pdf; the backward pass leaves the occupancies here
    float *alphas;                  // by sequence, frame and state
    float *work;                    // a sequence's share holds 2 groups + pieces + states
    float *scales;                  // by sequence and frame: what each frame was multiplied by
    KoshiChainOutcome *outcomes;
    unsigned long long stride;  // of the output
    unsigned long long seed;
    unsigned num_states;
    unsigned num_groups;
    unsigned num_pieces;
    unsigned num_pdfs;
    unsigned num_sequences;
    unsigned frames;
    unsigned backward;  // 1: a backward pass follows, so alphas and emissions of all frames are kept
    float leak;
    float threshold;  // occupancies below it are drawn; 0 for none
    unsigned reserved;
};

static_assert(sizeof(KoshiChainArc) == 8, "chain_layout.rs");
static_assert(sizeof(KoshiChainGroup) == 16, "chain_layout.rs");
static_assert(sizeof(KoshiChainOutcome) == 40, "chain_layout.rs");
static_assert(sizeof(KoshiChain) == 176, "chain_layout.rs");

// A sequence's share of the memory.
struct KoshiChainSequence {
    float *carried;        // by group: what it carries, or what a unit in it is worth later on
    float *contributions;  // by place
    float *partial;        // by piece
    float *beta;           // by state
};

static __device__ __forceinline__ KoshiChainSequence koshi_chain_sequence(const KoshiChain &chain, unsigned sequence) {
    const size_t words = 2 * size_t(chain.num_groups) + chain.num_pieces + chain.num_states;
    KoshiChainSequence it;
    it.carried = chain.work + sequence * words;
    it.contributions = it.carried + chain.num_groups;
    it.partial = it.contributions + chain.num_groups;
    it.beta = it.partial + chain.num_pieces;
    return it;
}

// Row of a frame of a sequence.
static __device__ __forceinline__ size_t koshi_chain_row(const KoshiChain &chain, unsigned sequence, unsigned frame) {
    return size_t(frame) * chain.num_sequences + sequence;
}

static __device__ __forceinline__ float *koshi_chain_alphas(const KoshiChain &chain, unsigned sequence,
                                                            unsigned frame) {
    const size_t kept = chain.backward != 0 ? size_t(chain.frames) + 1 : 2;
    const size_t at = chain.backward != 0 ? frame : frame % 2;
    return chain.alphas + (sequence * kept + at) * chain.num_states;
}

static __device__ __forceinline__ float *koshi_chain_emissions(const KoshiChain &chain, unsigned sequence,
                                                               unsigned frame) {
    const size_t row = chain.backward != 0 ? koshi_chain_row(chain, sequence, frame) : sequence;
    return chain.emissions + row * chain.num_pdfs;
}

static __device__ __forceinline__ bool koshi_chain_finite(float value) {
    return (__float_as_uint(value) & 0x7f800000u) != 0x7f800000u;
}

// e^y of the clamped score, NaN as the lower limit: the operations of src/chain/exp.rs, so the same bits.
static __device__ __forceinline__ float koshi_chain_exp(float y) {
    const float round = 12582912.0f;
    y = y >= -KOSHI_CHAIN_LIMIT ? y : -KOSHI_CHAIN_LIMIT;
    y = y <= KOSHI_CHAIN_LIMIT ? y : KOSHI_CHAIN_LIMIT;
    const float shifted = y * 1.44269504f + round;
    const float whole = shifted - round;
    const float r = (y - whole * 0.6933594f) - whole * -2.1219444e-4f;
    float sum = 1.0f / 5040.0f;
    sum = sum * r + 1.0f / 720.0f;
    sum = sum * r + 1.0f / 120.0f;
    sum = sum * r + 1.0f / 24.0f;
    sum = sum * r + 1.0f / 6.0f;
    sum = sum * r + 0.5f;
    const float mantissa = (sum * r * r + r) + 1.0f;
    const unsigned exponent = __float_as_uint(shifted) - __float_as_uint(round);
    return mantissa * __uint_as_float((exponent + 127u) << 23);
}

// The sum over arcs of probability times what stands at their other end: pairs in float32, added up in float64.
static __device__ __forceinline__ float koshi_chain_weigh(const KoshiChainArc *arcs, unsigned begin, unsigned end,
                                                          const float *ends) {
    double sum = 0.0;
    unsigned at = begin;
    for (; end - at >= 2; at += 2) {
        const KoshiChainArc one = arcs[at], two = arcs[at + 1];
        sum += double(ends[one.at] * one.prob + ends[two.at] * two.prob);
    }
    if (at < end) {
        const KoshiChainArc arc = arcs[at];
        sum += double(ends[arc.at] * arc.prob);
    }
    return float(sum);
}

// Sum over a warp, the same bits in every lane: always the same pairs. All 32 lanes call.
static __device__ __forceinline__ double koshi_chain_warp_sum(double value) {
    for (int step = int(KOSHI_WARP) / 2; step > 0; step /= 2) {
        value += __shfl_xor_sync(KOSHI_FULL_MASK, value, step);
    }
    return value;
}

struct KoshiChainScratch {
    double sums[32];
};

// Sum over the block, in an order that the number of threads alone decides. Every thread calls; there is a barrier
// before the sum and one behind the last use of the scratch.
static __device__ __forceinline__ double koshi_chain_sum(double value, KoshiChainScratch *scratch) {
    value = koshi_chain_warp_sum(value);
    if (koshi_lane() == 0) scratch->sums[koshi_warp()] = value;
    __syncthreads();
    value = koshi_lane() < blockDim.x / KOSHI_WARP ? scratch->sums[koshi_lane()] : 0.0;
    value = koshi_chain_warp_sum(value);
    __syncthreads();
    return value;
}

#endif
