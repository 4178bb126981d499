// The race detector: what `g++ -fsanitize=thread` calls at each access of a kernel, answered here by
// CUDA's rules instead of its own run-time library.
//
// Two accesses to the same bytes race if one of them writes, they are not both atomic (or volatile),
// and nothing orders them. In one block, __syncthreads orders all threads, __syncwarp the lanes of its
// mask; other warp intrinsics order no memory. Nothing orders two blocks of one launch. Launches are
// ordered by their stream. Flags and fences are not followed: data handed over by them has to be
// volatile to count as ordered.

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <unordered_map>

#include "soft.h"

namespace soft::race {
namespace {

// One access: by whom, when, to which bytes of a cell of four.
struct Access {
    uint32_t launch = 0, block = 0;
    uint32_t epoch = 0;  // barriers of the block before it
    uint32_t clock = 0;  // of the lane's own
    uint16_t thread = 0;
    uint8_t bytes = 0;
    bool atomic = false;
    const void *code = nullptr;
};

// The last write; the last read, and the last before it by another thread of its warp and by another
// warp. Who writes next is not all of these, and what orders it with one orders it with those that were
// forgotten for it, but for rare patterns of masks.
struct Cell {
    Access write, read, other_thread, other_warp;
};

constexpr size_t page_bytes = 4096;
struct Page {
    Cell cells[page_bytes / 4];
};

bool on = false;
std::unordered_map<uintptr_t, Page> pages;
uintptr_t last_page = 0;
Page *last_page_cells = nullptr;

uint32_t launch_number, block_number, epoch;
unsigned running;
// For each thread, the clocks of its warp's lanes that it has seen.
std::vector<std::array<uint32_t, 32>> clocks;
uintptr_t shared_begin, shared_end, dynamic_begin, dynamic_end;

std::set<std::pair<const void *, const void *>> known;
std::string found;

bool is_shared(uintptr_t at) {
    return (at >= shared_begin && at < shared_end) || (at >= dynamic_begin && at < dynamic_end);
}

bool ordered(const Access &before, bool shared) {
    if (before.launch != launch_number || before.bytes == 0) return true;
    if (before.block != block_number) return shared;  // the next block's shared memory is another
    if (before.thread == running || before.epoch != epoch) return true;
    return before.thread / 32 == running / 32 && clocks[running][before.thread % 32] >= before.clock;
}

// File and line, if addr2line can tell.
std::string place(const void *code) {
    Dl_info info;
    if (!dladdr(code, &info) || !info.dli_fname) return "?";
    char command[1200];
    const auto offset = static_cast<const char *>(code) - static_cast<const char *>(info.dli_fbase) - 1;
    snprintf(command, sizeof command, "addr2line -e '%s' 0x%tx 2>/dev/null", info.dli_fname, offset);
    char line[600] = "?";
    if (FILE *output = popen(command, "r")) {
        if (!fgets(line, sizeof line, output)) line[0] = 0;
        pclose(output);
    }
    std::string text(line);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
}

std::string describe(const Access &access, const char *what) {
    return std::string(what) + " by thread " + std::to_string(access.thread) + " of block " +
           std::to_string(access.block) + " at " + place(access.code);
}

void tell(const Access &before, bool before_writes, const Access &now, bool writes, bool shared) {
    if (known.size() >= 8 || !known.insert({before.code, now.code}).second) return;
    found += std::string(found.empty() ? "" : "; ") + "race in " + (shared ? "shared" : "device") +
             " memory: " + describe(before, before_writes ? "write" : "read") + " and " +
             describe(now, writes ? "write" : "read");
}

bool races(const Access &before, const Access &now, bool shared) {
    return (before.bytes & now.bytes) && !(before.atomic && now.atomic) && !ordered(before, shared);
}

void touch(uintptr_t at, unsigned bytes, bool writes, bool atomic, bool shared, const void *code) {
    if (at / page_bytes != last_page || !last_page_cells) {
        last_page = at / page_bytes;
        last_page_cells = &pages[last_page];
    }
    Cell &cell = last_page_cells->cells[at % page_bytes / 4];
    const uint8_t mask = ((1u << bytes) - 1) << at % 4;
    const Access now = {launch_number,     block_number, epoch,  clocks[running][running % 32],
                        uint16_t(running), mask,         atomic, code};
    if (races(cell.write, now, shared)) tell(cell.write, true, now, writes, shared);
    if (writes) {
        for (const Access &read : {cell.read, cell.other_thread, cell.other_warp}) {
            if (races(read, now, shared)) tell(read, false, now, true, shared);
        }
        cell.write = now;
        return;
    }
    if (cell.read.block != block_number || cell.read.thread / 32 != running / 32) {
        cell.other_warp = cell.read;
    } else if (cell.read.thread != running) {
        cell.other_thread = cell.read;
    }
    cell.read = now;
}

void access(const void *address, size_t bytes, bool writes, bool atomic, const void *code) {
    traffic_of::access(address, bytes, writes, atomic);
    if (!on || !simt_now) return;
    const auto at = reinterpret_cast<uintptr_t>(address);
    const bool shared = is_shared(at);
    if (!shared && !memory::holds(-1, address, bytes)) return;  // the thread's own stack, or constants
    for (size_t done = 0; done < bytes;) {
        const size_t part = std::min(bytes - done, 4 - (at + done) % 4);
        touch(at + done, unsigned(part), writes, atomic, shared, code);
        done += part;
    }
}

}  // namespace

void begin_launch() {
    on = settings.build == "race";
    if (!on) return;
    launch_number++;
    known.clear();
    found.clear();
}

std::string end_launch() { return on ? found : std::string(); }

void begin_block(unsigned block, unsigned threads, const void *shared, const void *end, const void *dynamic,
                 const void *dynamic_end_) {
    if (!on) return;
    block_number = block;
    epoch = 0;
    clocks.assign(threads, {});
    for (unsigned thread = 0; thread < threads; thread++) clocks[thread][thread % 32] = 1;
    shared_begin = reinterpret_cast<uintptr_t>(shared);
    shared_end = reinterpret_cast<uintptr_t>(end);
    dynamic_begin = reinterpret_cast<uintptr_t>(dynamic);
    dynamic_end = reinterpret_cast<uintptr_t>(dynamic_end_);
}

void run_thread(unsigned index) { running = index; }

void barrier() { epoch++; }

void sync_warp(unsigned warp, unsigned mask) {
    if (!on) return;
    std::array<uint32_t, 32> joined{};
    for (unsigned lane = 0; lane < 32; lane++) {
        if (!(mask >> lane & 1)) continue;
        for (unsigned at = 0; at < 32; at++) joined[at] = std::max(joined[at], clocks[warp * 32 + lane][at]);
    }
    for (unsigned lane = 0; lane < 32; lane++) {
        if (!(mask >> lane & 1)) continue;
        clocks[warp * 32 + lane] = joined;
        clocks[warp * 32 + lane][lane]++;
    }
}

}  // namespace soft::race

// The compiler's names; see gcc/sanitizer.def.
extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}

#define CALLER __builtin_return_address(0)
#define PLAIN(bytes)                                                                                   \
    void __tsan_read##bytes(void *at) { soft::race::access(at, bytes, false, false, CALLER); }         \
    void __tsan_write##bytes(void *at) { soft::race::access(at, bytes, true, false, CALLER); }         \
    void __tsan_volatile_read##bytes(void *at) { soft::race::access(at, bytes, false, true, CALLER); } \
    void __tsan_volatile_write##bytes(void *at) { soft::race::access(at, bytes, true, true, CALLER); }
#define UNALIGNED(bytes)                                                                                         \
    void __tsan_unaligned_read##bytes(void *at) { soft::race::access(at, bytes, false, false, CALLER); }         \
    void __tsan_unaligned_write##bytes(void *at) { soft::race::access(at, bytes, true, false, CALLER); }         \
    void __tsan_unaligned_volatile_read##bytes(void *at) { soft::race::access(at, bytes, false, true, CALLER); } \
    void __tsan_unaligned_volatile_write##bytes(void *at) { soft::race::access(at, bytes, true, true, CALLER); }
PLAIN(1)
PLAIN(2) PLAIN(4) PLAIN(8) PLAIN(16) UNALIGNED(2) UNALIGNED(4) UNALIGNED(8) UNALIGNED(16)

    void __tsan_read_range(void *at, size_t bytes) {
    soft::race::access(at, bytes, false, false, CALLER);
}
void __tsan_write_range(void *at, size_t bytes) { soft::race::access(at, bytes, true, false, CALLER); }
}
