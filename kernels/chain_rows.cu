// What the chain objective does with each row of the network output beside the recursion: scores that the host
// asks for, and the derivatives.
#include "chain.cuh"

// Some elements of each row, told by their pdfs.
struct KoshiChainElements {
    const unsigned *offsets;  // where those of each row begin
    const unsigned *pdfs;     // no pdf twice in a row
};

struct KoshiChainGather {
    const float *output;
    float *values;  // by element
    KoshiChainElements elements;
    unsigned long long stride;
};

// The parameters of the derivatives.
struct KoshiChainDerivative {
    const float *output;
    const float *occupancies;  // of the denominator, by row and pdf
    const float *row_weights;  // null: all 1
    const float *numerator;    // weighted occupancies, by element
    KoshiChainElements elements;
    float *deriv;       // null: not wanted
    float *xent_deriv;  // likewise
    unsigned long long stride;
    unsigned long long deriv_stride;
    unsigned long long xent_stride;
    unsigned num_pdfs;
    unsigned ok;  // 0: only the l2 part
    float weight;
    float l2;  // times weight
    float penalty;
    unsigned reserved;
};

// The parameters of adding the denominator's derivative to a matrix.
struct KoshiChainAdd {
    const float *occupancies;
    const unsigned *lengths;  // frames that are added, by sequence
    float *deriv;
    unsigned long long deriv_stride;
    unsigned num_pdfs;
    unsigned num_sequences;
    float weight;
    unsigned reserved;
};

static_assert(sizeof(KoshiChainGather) == 40, "chain_layout.rs");
static_assert(sizeof(KoshiChainDerivative) == 112, "chain_layout.rs");
static_assert(sizeof(KoshiChainAdd) == 48, "chain_layout.rs");

// One block a row, as in all of this file.
extern "C" __global__ void __launch_bounds__(KOSHI_CHAIN_ROW_THREADS) koshi_k_chain_gather(KoshiChainGather gather) {
    const float *row = gather.output + blockIdx.x * gather.stride;
    const unsigned end = gather.elements.offsets[blockIdx.x + 1];
    for (unsigned at = gather.elements.offsets[blockIdx.x] + threadIdx.x; at < end; at += blockDim.x) {
        gather.values[at] = row[gather.elements.pdfs[at]];
    }
}

// An overflow becomes the largest number.
static __device__ __forceinline__ float koshi_chain_bounded(float value) {
    const float largest = __uint_as_float(0x7f7fffffu);
    if (value != value) return 0.0f;
    value = value < -largest ? -largest : value;
    return value > largest ? largest : value;
}

// How far a score is beyond the limits, times the scale; nothing for one that is not finite.
static __device__ __forceinline__ float koshi_chain_beyond(float score, float scale) {
    if (!koshi_chain_finite(score)) return 0.0f;
    float clamped = score < -KOSHI_CHAIN_LIMIT ? -KOSHI_CHAIN_LIMIT : score;
    clamped = clamped > KOSHI_CHAIN_LIMIT ? KOSHI_CHAIN_LIMIT : clamped;
    return scale * (score - clamped);
}

// Derivatives of denominator, penalty and l2 term, then those of the numerator on top.
extern "C" __global__ void __launch_bounds__(KOSHI_CHAIN_ROW_THREADS) koshi_k_chain_derivative(KoshiChainDerivative it) {
    const float row_weight = it.row_weights != nullptr ? it.row_weights[blockIdx.x] : 1.0f;
    const float *scores = it.output + blockIdx.x * it.stride;
    const float *occupancies = it.occupancies + blockIdx.x * size_t(it.num_pdfs);
    float *deriv = it.deriv != nullptr ? it.deriv + blockIdx.x * it.deriv_stride : nullptr;
    float *xent_deriv = it.xent_deriv != nullptr ? it.xent_deriv + blockIdx.x * it.xent_stride : nullptr;
    for (unsigned pdf = threadIdx.x; pdf < it.num_pdfs; pdf += blockDim.x) {
        if (deriv != nullptr) {
            const float score = scores[pdf];
            float value = it.ok != 0 ? -it.weight * occupancies[pdf] - koshi_chain_beyond(score, it.penalty) : 0.0f;
            if (koshi_chain_finite(score)) value -= it.l2 * score;
            deriv[pdf] = koshi_chain_bounded(row_weight * value);
        }
        if (xent_deriv != nullptr) xent_deriv[pdf] = 0.0f;
    }
    __syncthreads();
    const unsigned end = it.ok != 0 ? it.elements.offsets[blockIdx.x + 1] : 0;
    for (unsigned at = it.elements.offsets[blockIdx.x] + threadIdx.x; at < end; at += blockDim.x) {
        const unsigned pdf = it.elements.pdfs[at];
        const float value = row_weight * it.numerator[at];
        if (deriv != nullptr) deriv[pdf] = koshi_chain_bounded(deriv[pdf] + value);
        if (xent_deriv != nullptr) xent_deriv[pdf] = koshi_chain_bounded(value);
    }
}

// Adds a multiple of the occupancies, of those frames that count.
extern "C" __global__ void __launch_bounds__(KOSHI_CHAIN_ROW_THREADS) koshi_k_chain_add(KoshiChainAdd add) {
    const unsigned sequence = blockIdx.x % add.num_sequences, frame = blockIdx.x / add.num_sequences;
    const float *occupancies = add.occupancies + blockIdx.x * size_t(add.num_pdfs);
    float *deriv = add.deriv + blockIdx.x * add.deriv_stride;
    const unsigned end = frame < add.lengths[sequence] ? add.num_pdfs : 0;
    for (unsigned pdf = threadIdx.x; pdf < end; pdf += blockDim.x) {
        deriv[pdf] += add.weight * occupancies[pdf];
    }
}
