// Runs a launch: its blocks one after another, the threads of a block as fibers that are switched
// at barriers, warp collectives and, if the schedule wants so, at atomics and fences.

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>
#include <numeric>

#include "soft.h"

namespace soft {

Stats stats;
std::vector<uint64_t> thread_steps;

namespace {

enum class Waits { no, barrier, collective, ended };

struct Thread : simt::Seen {
    unsigned index;
    Waits waits;
    simt::Site site;  // where it waits
    // Of the collective it came to: what it brought and what it gets.
    simt::Collective what;
    unsigned mask;
    uint64_t value;
    unsigned argument;
    uint64_t result;
    uint64_t steps, steps_at_barrier;
};

// Lanes that came to one collective and wait for the rest of its mask.
struct Gathering {
    unsigned mask, arrived;
};

struct Warp {
    unsigned lanes, ended;  // as masks
    std::vector<Gathering> gatherings;
};

constexpr unsigned most_threads = 1024;
// Atomics and fences in a row after which others get a turn under any schedule: somebody may spin.
constexpr unsigned patience = 4096;
constexpr uint64_t most_points = uint64_t(1) << 33;

Fiber fibers[most_threads], scheduler;
std::unique_ptr<Thread[]> threads{new Thread[most_threads]};
std::vector<Warp> warps;
const Launch *launch;
bool failed, illegal_address;

unsigned count, ended, at_barrier, barrier_votes;
simt::Site barrier_site;
unsigned last_vote;
uint64_t ready[most_threads / 64];
uint64_t random_state;
unsigned points_in_a_row;
uint64_t points;
uint64_t block_span;

Thread *current() { return static_cast<Thread *>(simt_now); }

uint64_t random_number() {  // xorshift64*
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1dull;
}

void set_ready(unsigned index, bool is) {
    const uint64_t bit = uint64_t(1) << (index % 64);
    if (is) {
        ready[index / 64] |= bit;
    } else {
        ready[index / 64] &= ~bit;
    }
}

// The first ready thread at or after `from`, around the end; count if there is none.
unsigned ready_after(unsigned from) {
    const unsigned words = (count + 63) / 64;
    for (unsigned step = 0; step <= words; step++) {
        const unsigned word = (from / 64 + step) % words;
        uint64_t bits = ready[word];
        if (step == 0) bits &= ~uint64_t(0) << (from % 64);
        if (bits) return word * 64 + __builtin_ctzll(bits);
    }
    return count;
}

// The last ready thread at or before `from`, around the beginning.
unsigned ready_before(unsigned from) {
    const unsigned words = (count + 63) / 64;
    for (unsigned step = 0; step <= words; step++) {
        const unsigned word = (from / 64 + words * 2 - step) % words;
        uint64_t bits = ready[word];
        if (step == 0) bits &= ~uint64_t(0) >> (63 - from % 64);
        if (bits) return word * 64 + 63 - __builtin_clzll(bits);
    }
    return count;
}

unsigned pick(unsigned from) {
    switch (settings.schedule) {
        case Schedule::round_robin:
            return ready_after((from + 1) % count);
        case Schedule::reverse:
            return ready_before((from + count - 1) % count);
        default:
            return ready_after(random_number() % count);
    }
}

std::string where(const simt::Site &site) { return std::string(site.file) + ":" + std::to_string(site.line); }

const char *name_of(simt::Collective what) {
    switch (what) {
        case simt::Collective::shuffle:
            return "a shuffle";
        case simt::Collective::ballot:
            return "a ballot";
        case simt::Collective::match_any:
            return "__match_any_sync";
        default:
            return "__syncwarp";
    }
}

std::string name(const Thread &thread) { return thread_name(thread.thread, thread.block); }

std::string doing(const Thread &thread) {
    switch (thread.waits) {
        case Waits::barrier:
            return "waits at the barrier of " + where(thread.site);
        case Waits::collective:
            return std::string("waits in ") + name_of(thread.what) + " at " + where(thread.site);
        case Waits::ended:
            return "has ended";
        default:
            return "runs";
    }
}

// Leaves the kernel for good; what its threads hold is forgotten.
[[noreturn]] void fail(const std::string &text) {
    failed = true;
    report = std::string("kernel ") + launch->kernel->name + ": " + text;
    Fiber gone;
    switch_fiber(gone, scheduler, true);
    abort();
}

void switch_to(unsigned from, unsigned to) {
    points_in_a_row = 0;
    if (to == from) return;
    stats.switches++;
    simt_now = &threads[to];
    race::run_thread(to);
    switch_fiber(fibers[from], fibers[to], false);
}

// Nobody can go on: says who waits for whom.
[[noreturn]] void stuck() {
    const Thread *waiting = nullptr;
    for (unsigned at = 0; at < count && !waiting; at++) {
        if (threads[at].waits == Waits::collective) waiting = &threads[at];
    }
    if (!waiting) fail("no thread can go on");
    const unsigned first = waiting->index / 32 * 32;
    for (unsigned lane = 0; lane < 32; lane++) {
        if (!(waiting->mask >> lane & 1)) continue;
        const Thread &other = threads[first + lane];
        if (other.waits == Waits::collective && other.mask == waiting->mask) continue;
        fail(name(*waiting) + " " + doing(*waiting) + " for " + name(other) + ", which " + doing(other));
    }
    fail(name(*waiting) + " " + doing(*waiting) + " for ever");
}

// Lets another thread run; comes back when this one is picked again.
void go_on(unsigned from) {
    const unsigned to = pick(from);
    if (to == count) stuck();
    switch_to(from, to);
}

void release_barrier() {
    uint64_t slowest = 0;
    for (unsigned at = 0; at < count; at++) {
        Thread &thread = threads[at];
        thread.waits = Waits::no;
        set_ready(at, true);
        slowest = std::max(slowest, thread.steps - thread.steps_at_barrier);
        thread.steps_at_barrier = thread.steps;
    }
    block_span += slowest;
    traffic.barriers++;
    last_vote = barrier_votes;
    at_barrier = barrier_votes = 0;
    race::barrier();
}

void end_thread() {
    Thread &thread = *current();
    thread.waits = Waits::ended;
    set_ready(thread.index, false);
    ended++;
    if (at_barrier > 0) {
        for (unsigned at = 0; at < count; at++) {
            if (threads[at].waits != Waits::barrier) continue;
            fail(name(thread) + " has ended, but " + name(threads[at]) + " " + doing(threads[at]));
        }
    }
    Warp &warp = warps[thread.index / 32];
    const unsigned bit = 1u << thread.index % 32;
    warp.ended |= bit;
    for (const Gathering &gathering : warp.gatherings) {
        if (!(gathering.mask & bit)) continue;
        const Thread &other = threads[thread.index / 32 * 32 + __builtin_ctz(gathering.arrived)];
        fail(name(thread) + " has ended, but " + name(other) + " " + doing(other) + " for it");
    }
    if (ended == count) {
        switch_fiber(fibers[thread.index], scheduler, true);
    } else {
        const unsigned to = pick(thread.index);
        if (to == count) stuck();
        points_in_a_row = 0;
        stats.switches++;
        simt_now = &threads[to];
        race::run_thread(to);
        switch_fiber(fibers[thread.index], fibers[to], true);
    }
    abort();
}

void body() {
    launch->kernel->call(launch->arguments);
    end_thread();
}

// All lanes of the mask are here: what each of them gets.
void complete(unsigned first, unsigned mask, simt::Collective what) {
    traffic.collectives++;
    unsigned votes = 0;
    for (unsigned lane = 0; lane < 32; lane++) {
        if ((mask >> lane & 1) && threads[first + lane].value != 0) votes |= 1u << lane;
    }
    for (unsigned lane = 0; lane < 32; lane++) {
        if (!(mask >> lane & 1)) continue;
        Thread &thread = threads[first + lane];
        thread.waits = Waits::no;
        set_ready(thread.index, true);
        thread.result = votes;
        if (what == simt::Collective::shuffle) {
            // What a lane that does not take part would give is undefined.
            const bool there = thread.argument < 32 && (mask >> thread.argument & 1);
            thread.result = there ? threads[first + thread.argument].value : settings.poison * 0x0101010101010101ull;
        } else if (what == simt::Collective::match_any) {
            unsigned same = 0;
            for (unsigned other = 0; other < 32; other++) {
                if ((mask >> other & 1) && threads[first + other].value == thread.value) same |= 1u << other;
            }
            thread.result = same;
        }
    }
    // The others order no memory.
    if (what == simt::Collective::sync) race::sync_warp(first / 32, mask);
}

bool same_site(const simt::Site &a, const simt::Site &b) { return a.line == b.line && std::string(a.file) == b.file; }

void prepare_block(unsigned block, unsigned char *dynamic_shared) {
    const dim3 &size = launch->block;
    const uint3 at = {block % launch->grid.x, block / launch->grid.x % launch->grid.y,
                      block / launch->grid.x / launch->grid.y};
    for (unsigned index = 0; index < count; index++) {
        Thread &thread = threads[index];
        thread = Thread{};
        thread.thread = {index % size.x, index / size.x % size.y, index / size.x / size.y};
        thread.block = at;
        thread.block_size = size;
        thread.grid_size = launch->grid;
        thread.dynamic_shared = dynamic_shared;
        thread.index = index;
        set_ready(index, true);
        make_fiber(fibers[index], body);
    }
    warps.assign((count + 31) / 32, Warp{});
    for (unsigned warp = 0; warp < warps.size(); warp++) {
        const unsigned lanes = std::min(32u, count - warp * 32);
        warps[warp].lanes = lanes == 32 ? ~0u : (1u << lanes) - 1;
    }
    ended = at_barrier = barrier_votes = 0;
    points_in_a_row = 0;
    block_span = 0;
}

constexpr size_t guard_bytes = 256;

bool run_block(unsigned block) {
    // Exactly as large as asked where AddressSanitizer watches its end, else followed by a guard.
    const size_t bytes = std::max<size_t>(launch->dynamic_shared, 1);
    std::unique_ptr<unsigned char, decltype(&free)> dynamic(
        static_cast<unsigned char *>(malloc(settings.build == "asan" ? bytes : bytes + guard_bytes)), free);
    if (!dynamic) {
        report = "no memory for a block's shared memory";
        return false;
    }
    memory::poison(dynamic.get(), settings.build == "asan" ? bytes : bytes + guard_bytes);
    const simt::Module &module = *launch->module;
    memory::poison(module.shared_begin, module.shared_end - module.shared_begin);
    prepare_block(block, dynamic.get());
    traffic_of::begin_block(module.shared_begin, module.shared_end);
    race::begin_block(block, count, module.shared_begin, module.shared_end, dynamic.get(), dynamic.get() + bytes);
    const unsigned first = pick(settings.schedule == Schedule::reverse ? 0 : count - 1);
    simt_now = &threads[first];
    race::run_thread(first);
    watch_faults(true);
    switch_fiber(scheduler, fibers[first], false);
    watch_faults(false);
    simt_now = nullptr;
    uint64_t slowest = 0;
    for (unsigned at = 0; at < count; at++) {
        slowest = std::max(slowest, threads[at].steps - threads[at].steps_at_barrier);
        stats.work += threads[at].steps;
        thread_steps[size_t(block) * count + at] = threads[at].steps;
    }
    stats.span = std::max(stats.span, block_span + slowest);
    stats.blocks++;
    if (failed) return false;
    for (size_t at = bytes; settings.build != "asan" && at < bytes + guard_bytes; at++) {
        if (dynamic.get()[at] == settings.poison) continue;
        report = std::string("kernel ") + launch->kernel->name + ": a thread of block " + std::to_string(block) +
                 " wrote past the " + std::to_string(launch->dynamic_shared) + " bytes of dynamic shared memory";
        return false;
    }
    return true;
}

}  // namespace

void touched(const void *address) {
    char text[32];
    snprintf(text, sizeof text, "%p", address);
    illegal_address = true;
    fail(name(*current()) + " touched the address " + text + ", which is nobody's");
}

std::string thread_name(const uint3 &thread, const uint3 &block) {
    const auto text = [](const uint3 &at) {
        return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
    };
    return "thread " + text(thread) + " of block " + text(block);
}

int run(const Launch &asked) {
    constexpr int illegal = 700, launch_failed = 719;  // CUDA's codes
    launch = &asked;
    failed = illegal_address = false;
    points = 0;
    count = asked.block.x * asked.block.y * asked.block.z;
    stats.work = stats.span = 0;
    std::vector<unsigned> blocks(size_t(asked.grid.x) * asked.grid.y * asked.grid.z);
    std::iota(blocks.begin(), blocks.end(), 0);
    thread_steps.assign(blocks.size() * count, 0);
    random_state = (settings.seed + 1) * 0x9e3779b97f4a7c15ull + stats.launches++;
    if (settings.schedule == Schedule::reverse) std::reverse(blocks.begin(), blocks.end());
    if (settings.schedule == Schedule::random) {
        for (size_t at = blocks.size(); at > 1; at--) std::swap(blocks[at - 1], blocks[random_number() % at]);
    }
    traffic_of::begin_launch();
    race::begin_launch();
    for (const unsigned block : blocks) {
        if (!run_block(block)) return illegal_address ? illegal : launch_failed;
    }
    std::string wrong = race::end_launch();
    if (wrong.empty()) wrong = memory::damaged();
    if (!wrong.empty()) report = std::string("kernel ") + asked.kernel->name + ": " + wrong;
    return wrong.empty() ? 0 : launch_failed;
}

}  // namespace soft

using namespace soft;

extern "C" {

simt::Seen *simt_now;

unsigned simt_barrier(simt::Site site, int predicate) {
    Thread &thread = *current();
    if (ended > 0) {
        for (unsigned at = 0; at < count; at++) {
            if (threads[at].waits != Waits::ended) continue;
            fail(name(thread) + " waits at the barrier of " + where(site) + ", but " + name(threads[at]) +
                 " has ended");
        }
    }
    thread.site = site;
    if (at_barrier > 0 && !same_site(site, barrier_site)) {
        for (unsigned at = 0; at < count; at++) {
            if (threads[at].waits != Waits::barrier) continue;
            fail("divergent barrier: " + name(thread) + " waits at that of " + where(site) + ", " + name(threads[at]) +
                 " at that of " + where(threads[at].site));
        }
    }
    barrier_site = site;
    barrier_votes += predicate != 0;
    thread.waits = Waits::barrier;
    set_ready(thread.index, false);
    if (++at_barrier == count) release_barrier();
    go_on(thread.index);
    return last_vote;
}

uint64_t simt_collective(simt::Site site, simt::Collective what, unsigned mask, uint64_t value, unsigned argument) {
    Thread &thread = *current();
    const unsigned lane = thread.index % 32, first = thread.index - lane;
    Warp &warp = warps[thread.index / 32];
    const std::string_view wrong = !(mask >> lane & 1)  ? ", which lacks its own lane"
                                   : mask & ~warp.lanes ? ", which names lanes that the block does not have"
                                   : mask & warp.ended  ? ", which names a thread that has ended"
                                                        : "";
    if (!wrong.empty()) {
        char text[16];
        snprintf(text, sizeof text, "0x%08x", mask);
        fail("wrong mask: " + name(thread) + " came to " + name_of(what) + " at " + where(site) + " with the mask " +
             text + std::string(wrong));
    }
    thread.site = site;
    thread.what = what;
    thread.mask = mask;
    thread.value = value;
    thread.argument = argument;
    thread.waits = Waits::collective;
    set_ready(thread.index, false);
    auto found = std::find_if(warp.gatherings.begin(), warp.gatherings.end(),
                              [&](const Gathering &gathering) { return gathering.mask == mask; });
    if (found == warp.gatherings.end()) found = warp.gatherings.insert(found, Gathering{mask, 0});
    if (found->arrived != 0) {
        const Thread &other = threads[first + __builtin_ctz(found->arrived)];
        // __syncwarp may be met at different places, what carries values may not.
        if (other.what != what || (what != simt::Collective::sync && !same_site(other.site, site))) {
            fail("divergent warp: " + name(thread) + " came to " + name_of(what) + " at " + where(site) + ", but " +
                 name(other) + " " + doing(other));
        }
    }
    found->arrived |= 1u << lane;
    if (found->arrived == mask) {
        warp.gatherings.erase(found);
        complete(first, mask, what);
    }
    go_on(thread.index);
    return thread.result;
}

void simt_point() {
    if (++points > most_points) fail(name(*current()) + " and others spin for ever");
    const bool turn = settings.schedule == Schedule::random && random_number() % 4 == 0;
    if (turn || ++points_in_a_row > patience) go_on(current()->index);
}

[[noreturn]] void simt_trap(simt::Site site) { fail(name(*current()) + " reached the trap of " + where(site)); }

// Called at each basic block of kernels of the build `steps`.
void __sanitizer_cov_trace_pc() {
    if (simt_now) current()->steps++;
}
}
