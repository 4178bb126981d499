// The chain denominator's backward pass: one block takes one sequence back through all its frames, and leaves the
// occupancies of the pdfs where the emissions were. They are sums in a fixed order: nothing is added by atomics.
#include "chain.cuh"

// SplitMix64 (Steele, Lea and Flood 2014) at a counter, as in src/random.rs.
static __device__ __forceinline__ unsigned long long koshi_chain_random(unsigned long long seed,
                                                                        unsigned long long counter) {
    unsigned long long bits = seed + (counter + 1) * 0x9e3779b97f4a7c15ull;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
    return bits ^ (bits >> 31);
}

// An occupancy below the threshold becomes the threshold with as much probability as keeps its mean, else 0.
static __device__ __forceinline__ float koshi_chain_drawn(const KoshiChain &chain, float occupancy,
                                                          unsigned long long counter) {
    if (!(occupancy < chain.threshold)) return occupancy;
    const float uniform = float(unsigned(koshi_chain_random(chain.seed, counter) >> 40)) * (1.0f / 16777216.0f);
    return uniform * chain.threshold < occupancy ? chain.threshold : 0.0f;
}

// Lets the states be left to anywhere, as the forward pass did.
static __device__ __forceinline__ void koshi_chain_leak(const KoshiChain &chain, float *beta,
                                                        KoshiChainScratch *scratch) {
    double part = 0.0;
    for (unsigned state = threadIdx.x; state < chain.num_states; state += blockDim.x) {
        part += double(chain.initial[state] * beta[state]);
    }
    const float share = float(koshi_chain_sum(part, scratch) * double(chain.leak));
    for (unsigned state = threadIdx.x; state < chain.num_states; state += blockDim.x) {
        beta[state] += share;
    }
}

// What a unit in each group is worth later on, and what the group adds to its pdf's occupancy.
static __device__ __forceinline__ void koshi_chain_contribute(const KoshiChain &chain, const KoshiChainSequence &it,
                                                              unsigned sequence, unsigned frame) {
    const float *emissions = koshi_chain_emissions(chain, sequence, frame);
    const float *alphas = koshi_chain_alphas(chain, sequence, frame);
    const unsigned long long counter =
        koshi_chain_row(chain, sequence, frame) * (unsigned long long)chain.num_groups;
    for (unsigned at = threadIdx.x; at < chain.num_groups; at += blockDim.x) {
        const KoshiChainGroup group = chain.groups[at];
        const unsigned end = chain.groups[at + 1].begin;
        const float emission = emissions[group.pdf], beta = it.beta[group.state];
        const float carried = koshi_chain_weigh(chain.arcs_in, group.begin, end, alphas) * emission;
        it.carried[at] = beta * emission;
        it.contributions[group.place] = koshi_chain_drawn(chain, carried * beta, counter + at);
    }
}

// Occupancies of the frame's pdfs, a warp a pdf; gives the sum of this thread's share.
static __device__ __forceinline__ double koshi_chain_occupy(const KoshiChain &chain, const float *contributions,
                                                            float *occupancies) {
    double total = 0.0;
    for (unsigned pdf = koshi_warp(); pdf < chain.num_pdfs; pdf += blockDim.x / KOSHI_WARP) {
        double sum = 0.0;
        for (unsigned at = chain.pdf_places[pdf] + koshi_lane(); at < chain.pdf_places[pdf + 1]; at += KOSHI_WARP) {
            sum += double(contributions[at]);
        }
        sum = koshi_chain_warp_sum(sum);
        if (koshi_lane() == 0) {
            occupancies[pdf] = float(sum);
            total += double(float(sum));
        }
    }
    return total;
}

extern "C" __global__ void __launch_bounds__(KOSHI_CHAIN_THREADS) koshi_k_chain_backward(KoshiChain chain) {
    __shared__ KoshiChainScratch scratch;
    const unsigned sequence = blockIdx.x;
    const KoshiChainSequence it = koshi_chain_sequence(chain, sequence);
    const float share = 1.0f / chain.outcomes[sequence].prob;
    for (unsigned state = threadIdx.x; state < chain.num_states; state += blockDim.x) {
        it.beta[state] = share;
    }
    double all = 0.0, first = 0.0;
    for (unsigned frame = chain.lengths[sequence]; frame-- > 0;) {
        koshi_chain_leak(chain, it.beta, &scratch);
        __syncthreads();
        koshi_chain_contribute(chain, it, sequence, frame);
        __syncthreads();
        first = koshi_chain_occupy(chain, it.contributions, koshi_chain_emissions(chain, sequence, frame));
        all += first;
        for (unsigned piece = threadIdx.x; piece < chain.num_pieces; piece += blockDim.x) {
            it.partial[piece] = koshi_chain_weigh(chain.arcs_out, chain.pieces[piece], chain.pieces[piece + 1], it.carried);
        }
        __syncthreads();
        for (unsigned state = threadIdx.x; state < chain.num_states; state += blockDim.x) {
            double sum = 0.0;
            for (unsigned piece = chain.leaving[state]; piece < chain.leaving[state + 1]; piece++) {
                sum += double(it.partial[piece]);
            }
            it.beta[state] = float(sum);
        }
    }
    double product = 0.0;
    const float *alphas = koshi_chain_alphas(chain, sequence, 0);
    for (unsigned state = threadIdx.x; state < chain.num_states; state += blockDim.x) {
        product += double(alphas[state] * it.beta[state]);
    }
    product = koshi_chain_sum(product, &scratch);
    first = koshi_chain_sum(first, &scratch);
    all = koshi_chain_sum(all, &scratch);
    if (threadIdx.x == 0) {
        chain.outcomes[sequence].product = product;
        chain.outcomes[sequence].occupancy = first;
        chain.outcomes[sequence].occupancies = all;
    }
}
