// Stage 2: candidates to tokens, and epsilon arcs to the fixpoint, by levels of the graph.
//
// A state's slot keeps the least packed (cost, link): its cost, and the link that makes its token.
// So tokens are numbered by their least link, whatever thread came first.
#ifndef KOSHI_CLOSURE_CUH
#define KOSHI_CLOSURE_CUH

#include "lane.cuh"
#include "waiting.cuh"

// Enters a link into the hash; a slot that is new is counted.
template <class Lane>
static __device__ __forceinline__ void koshi_enter(const KoshiDecode &decode, const Lane &lane, unsigned link,
                                                   float cost, unsigned word, unsigned bias, unsigned &taken) {
    const unsigned slot = koshi_slot(lane, decode.hash_slots, word, bias, taken);
    lane.link_to[link] = slot;
    koshi_packed_min(&lane.hash_best[slot], cost, link);
}

// Makes tokens of the states that links `from`.. have found first. Those with epsilon arcs wait. False
// where they do not fit the working memory.
template <class Lane>
static __device__ bool koshi_make_tokens(const KoshiDecode &decode, Lane &lane, KoshiShared &shared, unsigned from) {
    for (unsigned tile = from; tile < lane.num_links; tile += KOSHI_TILE) {
        unsigned made = 0, waits = 0, counts = 0;
        const unsigned first = tile + threadIdx.x * KOSHI_ITEMS;
        for (unsigned at = 0; at < KOSHI_ITEMS; at++) {
            const unsigned link = first + at;
            if (link < lane.num_links) {
                const unsigned slot = lane.link_to[link];
                // Only one link is the slot's least, so only it asks for the token.
                if (unsigned(lane.hash_best[slot]) == link && lane.hash_token[slot] == KOSHI_NONE) {
                    const unsigned wait = koshi_word(lane, slot) >> 31;
                    made |= 1u << at;
                    waits |= wait << at;
                    counts += 1 + (wait << 16);
                }
            }
        }
        unsigned totals;
        const unsigned before = koshi_block_exclusive_sum(counts, &shared.scratch, &totals);
        if ((totals & 0xffff) > decode.max_tokens - lane.num_tokens) {
            return false;
        }
        unsigned token = lane.num_tokens + (before & 0xffff), waiting = lane.num_near + (before >> 16);
        for (unsigned at = 0; at < KOSHI_ITEMS; at++) {
            if (made >> at & 1) {
                const unsigned slot = lane.link_to[first + at];
                lane.hash_token[slot] = token;
                lane.token_slot[token] = slot;
                if (waits >> at & 1) {
                    lane.wait_level[waiting] = koshi_header(decode.words, koshi_word(lane, slot) & ~KOSHI_HIGH_BIT).level;
                    lane.wait_token[waiting] = token;
                    waiting++;
                }
                token++;
            }
        }
        lane.num_tokens += totals & 0xffff;
        lane.num_near += totals >> 16;
    }
    __syncthreads();
    return true;
}

// Epsilon arcs of the tokens whose turn it is.
template <class Lane>
struct KoshiTurnDegrees {
    const unsigned *words;
    Lane lane;

    __device__ __forceinline__ unsigned degree(unsigned at) const {
        unsigned bias;
        return koshi_header(words, koshi_state(lane, lane.turn[at], bias)).n_eps;
    }
};

// Makes links of the epsilon arcs of the tokens whose turn it is. False where they do not fit the
// working memory.
template <class Lane>
static __device__ bool koshi_follow(const KoshiDecode &decode, Lane &lane, KoshiShared &shared, unsigned turn,
                                    unsigned arcs, float theta) {
    // New states are counted a tile late, with the next one's sum: two tiles may so go beyond max_tokens.
    unsigned owner = 0, taken = 0, states = lane.num_tokens;
    for (unsigned long long tile = 0; tile < arcs; tile += Lane::ITEMS * KOSHI_THREADS) {
        typename Lane::Candidate found[Lane::ITEMS];
        unsigned keep = 0, within = taken << 16;
        taken = 0;
        for (unsigned at = 0; at < Lane::ITEMS; at++) {
            const unsigned long long item = tile + at * KOSHI_THREADS + threadIdx.x;
            if (item < arcs) {
                owner = koshi_owner(lane.turn_first, turn, unsigned(item), owner);
                const unsigned token = lane.turn[owner];
                unsigned bias = 0, to = 0;
                const KoshiHeader header = koshi_header(decode.words, koshi_state(lane, token, bias));
                const unsigned place = unsigned(item) - lane.turn_first[owner];
                const size_t columns = decode.wide ? header.n_emit : (size_t(header.n_emit) + 1) / 2;
                const unsigned *weights = decode.words + header.body + 2 * size_t(header.n_emit) + columns;
                const unsigned arc = header.first_arc + header.n_emit + place;
                const float weight = koshi_steps(lane).epsilon(bias, arc, __uint_as_float(weights[place]), to);
                found[at].cost = koshi_alpha(lane, token) + weight;
                if (found[at].cost <= theta) {
                    found[at].dst = weights[header.n_eps + place];
                    found[at].src = token | KOSHI_HIGH_BIT;
                    found[at].arc = arc;
                    koshi_set_bias(found[at], to);
                    keep |= 1u << at;
                    within++;
                }
            }
        }
        unsigned totals;
        const unsigned before = koshi_block_exclusive_sum(within, &shared.scratch, &totals);
        const unsigned count = totals & 0xffff;
        states += totals >> 16;
        if (count > decode.max_links - lane.num_links || states > decode.max_tokens) {
            return false;
        }
        unsigned link = lane.num_links + (before & 0xffff);
        for (unsigned at = 0; at < Lane::ITEMS; at++) {
            if (keep >> at & 1) {
                lane.link_src[link] = found[at].src;
                lane.link_arc[link] = found[at].arc;
                lane.link_cost[link] = found[at].cost;
                koshi_enter(decode, lane, link, found[at].cost, found[at].dst, koshi_bias_of(found[at]), taken);
                link++;
            }
        }
        lane.num_links += count;
    }
    __syncthreads();
    return true;
}

// Tokens and links of the candidates, which are all within theta. Adds the epsilon arcs looked at
// to `looked_at`. False where the working memory does not do.
template <class Lane>
static __device__ bool koshi_close(const KoshiDecode &decode, Lane &lane, KoshiShared &shared, float theta,
                                   unsigned long long *looked_at) {
    lane.num_tokens = 0;
    lane.num_near = lane.num_far = 0;
    lane.near_bound = KOSHI_NONE;
    lane.num_closed = 0;
    // There are no more candidates than tokens fit.
    unsigned taken = 0;
    for (unsigned link = threadIdx.x; link < lane.num_links; link += KOSHI_THREADS) {
        koshi_enter(decode, lane, link, lane.link_cost[link], lane.link_to[link], koshi_link_bias(lane, link), taken);
    }
    __syncthreads();
    bool fits = koshi_make_tokens(decode, lane, shared, 0);
    while (fits && lane.num_near + lane.num_far > 0) {
        const unsigned turn = koshi_take_turn(decode, lane, shared);
        const KoshiTurnDegrees<Lane> degrees = {decode.words, lane};
        if (Lane::REPEATS && !koshi_can_number(shared, degrees, turn)) {
            return false;
        }
        const unsigned arcs = koshi_number(shared, degrees, turn, lane.turn_first);
        *looked_at += arcs;
        const unsigned from = lane.num_links;
        fits = koshi_follow(decode, lane, shared, turn, arcs, theta) && koshi_make_tokens(decode, lane, shared, from);
    }
    return fits;
}

// Empties the slots of the lane's tokens: there are no others in use after koshi_close.
template <class Lane>
static __device__ void koshi_empty_hash(const Lane &lane) {
    for (unsigned token = threadIdx.x; token < lane.num_tokens; token += KOSHI_THREADS) {
        koshi_empty_slot(lane, lane.token_slot[token]);
    }
    __syncthreads();
}

// Empties all of the hash.
template <class Lane>
static __device__ void koshi_empty_whole_hash(const KoshiDecode &decode, const Lane &lane) {
    __syncthreads();
    for (unsigned slot = threadIdx.x; slot < decode.hash_slots; slot += KOSHI_THREADS) {
        koshi_empty_slot(lane, slot);
    }
    __syncthreads();
}

#endif
