// Tokens that wait for the closure, taken by ascending level, at a cost that follows those of a round.
//
// The near ones, of the least levels, stand at the left of the list in no order, the far ones at its right; far
// ones are not looked at again before all near ones of lesser levels have had their turn.
#ifndef KOSHI_WAITING_CUH
#define KOSHI_WAITING_CUH

#include "lane.cuh"

// Near tokens are sought out anew when there are more, and then at most as many are chosen (but for those of
// one level, which all have their turn at once). So as many tokens as lie between come or go
// from one time that all waiting ones are looked at to the next.
#define KOSHI_MOST_NEAR (4 * KOSHI_TILE)
#define KOSHI_NEAR (2 * KOSHI_TILE)

// Where waiting token `item` of all stands.
static __device__ __forceinline__ unsigned koshi_waiting(const KoshiDecode &decode, const KoshiLane &lane,
                                                         unsigned item) {
    return item < lane.num_near ? item : item + (decode.max_waiting - lane.num_near - lane.num_far);
}

// A level such that, of more than KOSHI_NEAR waiting tokens, one to KOSHI_NEAR lie below it, or all those of the
// least level and no others. By counts of 256 ranges of levels, narrowed down while the first is too large.
static __device__ unsigned koshi_near_bound(const KoshiDecode &decode, const KoshiLane &lane, KoshiShared &shared) {
    const unsigned total = lane.num_near + lane.num_far;
    unsigned least = KOSHI_NONE, most = 0;
    for (unsigned item = threadIdx.x; item < total; item += KOSHI_THREADS) {
        const unsigned level = lane.wait_level[koshi_waiting(decode, lane, item)];
        least = min(least, level);
        most = max(most, level);
    }
    least = koshi_block_min(least, &shared.scratch);
    most = koshi_block_max(most, &shared.scratch);
    for (;;) {
        const unsigned span = most - least;
        const unsigned shift = span < KOSHI_THREADS ? 0 : 24 - __clz(int(span));
        shared.digits[threadIdx.x] = 0;
        __syncthreads();
        for (unsigned item = threadIdx.x; item < total; item += KOSHI_THREADS) {
            const unsigned level = lane.wait_level[koshi_waiting(decode, lane, item)];
            if (level <= most) {
                atomicAdd(&shared.digits[(level - least) >> shift], 1u);
            }
        }
        __syncthreads();
        const unsigned mine = shared.digits[threadIdx.x];
        unsigned all;
        const unsigned before = koshi_block_exclusive_sum(mine, &shared.scratch, &all);
        const unsigned passes = before + mine > KOSHI_NEAR ? threadIdx.x : KOSHI_NONE;
        const unsigned first = koshi_block_min(passes, &shared.scratch);
        if (first > 0) {
            return least + (first << shift);
        }
        if (shift == 0) {
            return least + 1;
        }
        most = least + (1u << shift) - 1;
    }
}

// Parts all waiting tokens into near and far ones anew. The lists of the turn lend their memory.
static __device__ void koshi_regroup(const KoshiDecode &decode, KoshiLane &lane, KoshiShared &shared) {
    const unsigned total = lane.num_near + lane.num_far;
    const unsigned bound = total > KOSHI_MOST_NEAR ? koshi_near_bound(decode, lane, shared) : KOSHI_NONE;
    unsigned near = 0, far = 0;
    for (unsigned tile = 0; tile < total; tile += KOSHI_THREADS) {
        const unsigned item = tile + threadIdx.x;
        unsigned level = 0, token = 0, is_near = 0;
        if (item < total) {
            const unsigned at = koshi_waiting(decode, lane, item);
            level = lane.wait_level[at];
            token = lane.wait_token[at];
            is_near = level < bound;
        }
        unsigned tile_near;
        const unsigned before = koshi_block_exclusive_sum(is_near, &shared.scratch, &tile_near);
        if (item < total) {
            const unsigned to = is_near ? near + before : decode.max_waiting - 1 - (far + threadIdx.x - before);
            lane.turn_first[to] = level;
            lane.turn[to] = token;
        }
        near += tile_near;
        far += min(total - tile, unsigned(KOSHI_THREADS)) - tile_near;
    }
    __syncthreads();
    lane.num_near = near;
    lane.num_far = far;
    for (unsigned item = threadIdx.x; item < total; item += KOSHI_THREADS) {
        const unsigned at = koshi_waiting(decode, lane, item);
        lane.wait_level[at] = lane.turn_first[at];
        lane.wait_token[at] = lane.turn[at];
    }
    __syncthreads();
    lane.near_bound = far > 0 ? bound : KOSHI_NONE;
}

static __device__ unsigned koshi_least_level(const KoshiLane &lane, KoshiShared &shared) {
    unsigned least = KOSHI_NONE;
    for (unsigned at = threadIdx.x; at < lane.num_near; at += KOSHI_THREADS) {
        least = min(least, lane.wait_level[at]);
    }
    return koshi_block_min(least, &shared.scratch);
}

// Moves the waiting tokens of the least level to `turn`, and appends them to the closed ones. Gives their number.
static __device__ unsigned koshi_take_turn(const KoshiDecode &decode, KoshiLane &lane, KoshiShared &shared) {
    unsigned level = koshi_least_level(lane, shared);
    if (level >= lane.near_bound || lane.num_near > KOSHI_MOST_NEAR) {
        koshi_regroup(decode, lane, shared);
        level = koshi_least_level(lane, shared);
    }
    unsigned stay = 0, turn = 0;
    for (unsigned tile = 0; tile < lane.num_near; tile += KOSHI_TILE) {
        unsigned tokens[KOSHI_ITEMS], levels[KOSHI_ITEMS], counts = 0;
        const unsigned first = tile + threadIdx.x * KOSHI_ITEMS;
        for (unsigned at = 0; at < KOSHI_ITEMS; at++) {
            tokens[at] = levels[at] = 0;
            if (first + at < lane.num_near) {
                tokens[at] = lane.wait_token[first + at];
                levels[at] = lane.wait_level[first + at];
                counts += levels[at] == level ? 1u << 16 : 1u;
            }
        }
        unsigned totals;
        const unsigned before = koshi_block_exclusive_sum(counts, &shared.scratch, &totals);
        // All of the tile has been read, and what stays moves to the left.
        unsigned to_turn = turn + (before >> 16), to_stay = stay + (before & 0xffff);
        for (unsigned at = 0; at < KOSHI_ITEMS; at++) {
            if (first + at < lane.num_near) {
                if (levels[at] == level) {
                    lane.turn[to_turn] = tokens[at];
                    lane.closed[lane.num_closed + to_turn] = tokens[at];
                    to_turn++;
                } else {
                    lane.wait_level[to_stay] = levels[at];
                    lane.wait_token[to_stay] = tokens[at];
                    to_stay++;
                }
            }
        }
        stay += totals & 0xffff;
        turn += totals >> 16;
    }
    __syncthreads();
    lane.num_near = stay;
    lane.num_closed += turn;
    return turn;
}

#endif
