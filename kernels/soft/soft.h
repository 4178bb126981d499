// The software device inside: what its files share. One lock guards all of it (driver.cpp), so that
// nothing below needs one of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "simt.h"

namespace soft {

// ---- control.cpp: settings, and what tests can ask ----

enum class Schedule { round_robin, reverse, random };

// The n-th call of a driver function from now on that answers `code` instead.
struct Fault {
    std::string function;
    long calls_left;
    int code;
};

// The n-th copy to the host from now on, of which a word (counted round its end) is changed on the way.
struct Flip {
    long copies_left;
    uint64_t word;
    uint32_t mask;
};

struct Settings {
    Schedule schedule = Schedule::round_robin;
    uint64_t seed = 0;
    bool lazy = false;
    unsigned char poison = 0xcb;
    int devices = 1;
    size_t memory = size_t(4) << 30;
    int capability = 75;
    int driver = 13000;
    size_t shared = 65536;        // most dynamic shared memory that a kernel may opt in to
    std::string build = "plain";  // how kernels are compiled: plain, asan, race, steps, traffic
    std::string source;           // the text of binary images, which cannot be looked into
    bool refuse_binary = false;
    std::vector<Fault> faults;
    std::vector<Flip> flips;
};
extern Settings settings;

// Reads "key=value,..." into the settings; false for what it does not know.
bool configure(const char *text);
// Code that the call shall fail with, or 0.
int injected(const char *function);
// Changes what was copied to the host, if that is asked for.
void flip(void *copied, size_t bytes);

// What the last failed kernel, copy or compilation did wrong.
extern std::string report;

// ---- fiber.cpp: threads of a block as stacks that are switched between ----

struct Fiber {
    void *stack_pointer = nullptr;
    unsigned char *stack = nullptr;
    void *sanitizer_stack = nullptr;
    bool left_open = false;
};
constexpr size_t stack_bytes = 128 << 10;

// Readies a fiber to run `body`, which ends by switching away for good (`from_ends`).
void make_fiber(Fiber &fiber, void (*body)());
void switch_fiber(Fiber &from, Fiber &to, bool from_ends);

// ---- block.cpp: the scheduler ----

struct Launch {
    const simt::Kernel *kernel;
    const simt::Module *module;
    dim3 grid, block;
    size_t dynamic_shared;
    void **arguments;
};

// Runs a kernel to its end; CUDA's code, with `report` set, if it failed.
int run(const Launch &launch);
// Ends the kernel whose running thread touched what is not there.
[[noreturn]] void touched(const void *address);

// ---- fault.cpp ----

// While it is on, a segmentation fault of this OS thread goes to `touched`.
void watch_faults(bool on);

struct Stats {
    uint64_t launches, blocks, switches;
    // Basic blocks run by the kernels of the build `steps`: by all threads together, and along the
    // longest way through the last launch, where between two barriers the slowest thread counts.
    uint64_t work, span;
    // Calls of the driver that can be made to fail.
    uint64_t calls;
    // Streams, events, modules and retained contexts that there are now.
    uint64_t objects;
    // Copies to the host that have run.
    uint64_t copies_out;
};
extern Stats stats;
// Basic blocks run by each thread of the last launch, block after block.
extern std::vector<uint64_t> thread_steps;

std::string thread_name(const uint3 &thread, const uint3 &block);

// ---- traffic.cpp: loads, stores and atomics of kernels of the build `traffic`, and waits of all, since the device
// was loaded ----

struct Traffic {
    // Numbers, and bytes; atomics, and volatile accesses that write, count as atomics alone.
    struct Of {
        uint64_t loads, loaded, stores, stored, atomics;
    };
    Of device, shared;
    uint64_t barriers;     // of blocks
    uint64_t collectives;  // of warps
};
extern Traffic traffic;

namespace traffic_of {
void begin_launch();
void begin_block(const void *shared, const void *shared_end);
void access(const void *address, size_t bytes, bool writes, bool atomic);
}  // namespace traffic_of

// ---- race.cpp: who wrote and read what, and in which order ----

namespace race {
void begin_launch();
// Races found since then, as text.
std::string end_launch();
void begin_block(unsigned block, unsigned threads, const void *shared, const void *shared_end, const void *dynamic,
                 const void *dynamic_end);
void run_thread(unsigned index);
void barrier();
void sync_warp(unsigned warp, unsigned mask);
}  // namespace race

// ---- memory.cpp: device and pinned memory ----

namespace memory {
// CUDA's codes, 0 for success.
int take(int device, size_t bytes, void **cell);
int release(int device, void *cell);
int take_pinned(size_t bytes, void **cell);
int release_pinned(void *cell);
// Ends the process where a queued copy reads or writes memory that is to be freed.
void not_under_a_copy(const void *cell);
// Whether all of it lies in one allocation; of any device for a negative one.
bool holds(int device, const void *cell, size_t bytes);
bool pinned(const void *cell);
int device_of(const void *cell);
size_t used(int device);
void poison(void *cell, size_t bytes);
// An allocation that something wrote beside, as text; empty if there is none.
std::string damaged();
}  // namespace memory

// ---- stream.cpp: what is asked of the device, in order ----

struct Stream;

// A primary context.
struct Context {
    int device = 0;
    int retained = 0;
    int sticky = 0;  // CUDA's code after a failed kernel, which every later call answers
    Stream *null_stream = nullptr;
    std::vector<Stream *> streams;
};

// Memory that an operation reads or writes.
struct Range {
    const void *first = nullptr;
    size_t bytes = 0;
};

struct Operation {
    uint64_t number;
    std::function<void()> run;
    Range from, to;
};

struct Stream {
    Context *context;
    bool blocking;  // as the null stream's partner
    std::deque<Operation> queue;
    bool destroyed = false;  // what is queued runs, and nobody else can name it
};

// Runs what stands in the stream up to an operation, and what that has to wait for.
void drain(Stream &stream, uint64_t upto = UINT64_MAX);
void drain(Context &context);
void drain_all();
// Puts an operation behind the others; it runs now unless the device is lazy. Gives its number.
uint64_t enqueue(Stream &stream, std::function<void()> run, Range from = {}, Range to = {});
// Whether something that is queued reads or writes these bytes.
bool is_queued(const void *first, size_t bytes);
Context &context_of(int device);
// The stream of a handle, which may be the null stream; null for a handle that is none.
Stream *stream_of(Context &context, void *handle);

// ---- compile.cpp: kernels' text to a shared object ----

// The object of this text, made by g++ unless it lies there from before; empty with `report` set on failure.
std::string compile(const std::string &text);
std::string compile_file(const std::string &path);

// Before the object's path in what stands for PTX.
constexpr const char *ptx_mark = "// object of the software device: ";

}  // namespace soft
