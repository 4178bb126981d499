// The chain denominator's forward pass: one block takes one sequence through all its frames.
#include "chain.cuh"

// Exponentials of a frame's scores, times the frame's scale; gives the sum of the squares of this thread's finite ones.
static __device__ __forceinline__ double koshi_chain_emit(const KoshiChain &chain, unsigned sequence, unsigned frame,
                                                          float scale) {
    const float *row = chain.output + koshi_chain_row(chain, sequence, frame) * chain.stride;
    float *emissions = koshi_chain_emissions(chain, sequence, frame);
    double squares = 0.0;
    for (unsigned pdf = threadIdx.x; pdf < chain.num_pdfs; pdf += blockDim.x) {
        const float score = row[pdf];
        emissions[pdf] = koshi_chain_exp(score) * scale;
        if (koshi_chain_finite(score)) squares += double(score) * double(score);
    }
    return squares;
}

// Alphas of the next frame from what the groups carry; gives the sum of this thread's.
static __device__ __forceinline__ double koshi_chain_enter(const KoshiChain &chain, const float *carried, float *alphas) {
    double total = 0.0;
    for (unsigned state = threadIdx.x; state < chain.num_states; state += blockDim.x) {
        double sum = 0.0;
        for (unsigned group = chain.entering[state]; group < chain.entering[state + 1]; group++) {
            sum += double(carried[group]);
        }
        alphas[state] = float(sum);
        total += double(alphas[state]);
    }
    return total;
}

extern "C" __global__ void __launch_bounds__(KOSHI_CHAIN_THREADS) koshi_k_chain_forward(KoshiChain chain) {
    __shared__ KoshiChainScratch scratch;
    const unsigned sequence = blockIdx.x, frames = chain.lengths[sequence];
    float *const carried = koshi_chain_sequence(chain, sequence).carried;
    float *alphas = koshi_chain_alphas(chain, sequence, 0);
    double part = 0.0, squares = 0.0;
    for (unsigned state = threadIdx.x; state < chain.num_states; state += blockDim.x) {
        alphas[state] = chain.initial[state];
        part += double(alphas[state]);
    }
    for (unsigned frame = 0;; frame++) {
        const float total = float(koshi_chain_sum(part, &scratch));
        // Each state can be reached from anywhere with a small probability. A thread handles the states that it has made.
        const float leak = chain.leak * total;
        part = 0.0;
        for (unsigned state = threadIdx.x; state < chain.num_states; state += blockDim.x) {
            alphas[state] += chain.initial[state] * leak;
            part += double(alphas[state]);
        }
        if (frame == frames) break;
        const float scale = 1.0f / total;
        if (threadIdx.x == 0) chain.scales[size_t(sequence) * chain.frames + frame] = scale;
        squares += koshi_chain_emit(chain, sequence, frame, scale);
        __syncthreads();
        const float *emissions = koshi_chain_emissions(chain, sequence, frame);
        for (unsigned at = threadIdx.x; at < chain.num_groups; at += blockDim.x) {
            const KoshiChainGroup group = chain.groups[at];
            const unsigned end = chain.groups[at + 1].begin;
            carried[at] = koshi_chain_weigh(chain.arcs_in, group.begin, end, alphas) * emissions[group.pdf];
        }
        __syncthreads();
        alphas = koshi_chain_alphas(chain, sequence, frame + 1);
        part = koshi_chain_enter(chain, carried, alphas);
    }
    const double prob = koshi_chain_sum(part, &scratch);
    squares = koshi_chain_sum(squares, &scratch);
    if (threadIdx.x == 0) {
        KoshiChainOutcome outcome;
        outcome.product = 0.0;
        outcome.occupancy = 0.0;
        outcome.occupancies = 0.0;
        outcome.squares = squares;
        outcome.prob = float(prob);
        outcome.reserved = 0;
        chain.outcomes[sequence] = outcome;
    }
}
