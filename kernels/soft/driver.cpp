// The driver's entry points: those that cudarc calls, and a few that a host may want. Types are those of
// cuda.h with handles as pointers and enums as ints.

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "soft.h"

using namespace soft;

namespace {

enum Code : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    INVALID_PTX = 218,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_FAILED = 719,
};

const std::map<int, std::pair<const char *, const char *>> texts = {
    {0, {"CUDA_SUCCESS", "no error"}},
    {1, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {2, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {3, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
    {100, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
    {101, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
    {200, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
    {201, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {209, {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"}},
    {218, {"CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"}},
    {400, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
    {500, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
    {600, {"CUDA_ERROR_NOT_READY", "device not ready"}},
    {700, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
    {701, {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"}},
    {702, {"CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"}},
    {719, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
    {801, {"CUDA_ERROR_NOT_SUPPORTED", "operation not supported"}},
    {999, {"CUDA_ERROR_UNKNOWN", "unknown error"}},
};

std::mutex lock;
std::atomic<bool> initialized{false};
thread_local Context *current = nullptr;
thread_local std::vector<Context *> pushed;

constexpr size_t plain_shared = 48 << 10;  // dynamic and static, without opting in to more
constexpr unsigned threads_a_multiprocessor = 1024, blocks_a_multiprocessor = 16;

struct Function {
    const simt::Kernel *kernel;
    const simt::Module *module;
    size_t most_dynamic;
};

struct Module {
    const simt::Module *object;
    std::map<std::string, std::unique_ptr<Function>> functions;
};

struct Event {
    Stream *stream = nullptr;
    uint64_t recorded = 0, done = 0;  // numbers of the operation that records it
    std::chrono::steady_clock::time_point time{};
    bool timed = true;
};

std::set<Module *> modules;
std::map<const Function *, Function *> functions;
std::map<Event *, std::shared_ptr<Event>> events;

size_t static_shared(const simt::Module &module) { return module.shared_end - module.shared_begin; }

int attribute(int which, int &value) {
    static const std::map<int, int> constant = {
        {1, 1024},       {2, 1024},   {3, 1024}, {4, 64},      {5, 2147483647}, {6, 65535},   {7, 65535},
        {8, 49152},      {9, 65536},  {10, 32},  {12, 65536},  {13, 1000000},   {16, 4},      {31, 1},
        {36, 1000000},   {37, 64},    {38, 4 << 20}, {39, int(threads_a_multiprocessor)}, {40, 2}, {41, 1},
        {82, 65536},     {106, int(blocks_a_multiprocessor)}, {115, 1},
    };
    if (which <= 0 || which > 160) return INVALID_VALUE;
    const auto found = constant.find(which);
    value = found == constant.end() ? 0 : found->second;
    if (which == 75) value = settings.capability / 10;
    if (which == 76) value = settings.capability % 10;
    if (which == 81 || which == 97) value = int(settings.shared);
    return SUCCESS;
}

// Copies between host and device, checked again when they run: memory may have been freed.
int copy(Stream &stream, void *to, const void *from, size_t bytes, bool to_device, bool from_device) {
    const int device = stream.context->device;
    if (bytes == 0) return SUCCESS;
    if ((to_device && !memory::holds(device, to, bytes)) || (from_device && !memory::holds(device, from, bytes))) {
        report = "a copy of " + std::to_string(bytes) + " bytes does not lie in one allocation";
        return INVALID_VALUE;
    }
    // A pageable source is taken before the call returns, as a driver does; a pinned one is read when the
    // copy runs.
    std::shared_ptr<std::vector<unsigned char>> taken;
    if (!from_device && !memory::pinned(from)) {
        const auto *first = static_cast<const unsigned char *>(from);
        taken = std::make_shared<std::vector<unsigned char>>(first, first + bytes);
    }
    const bool waits = !to_device && !memory::pinned(to);
    enqueue(stream, [=, &context = *stream.context] {
        const void *source = taken ? taken->data() : from;
        if ((to_device && !memory::holds(device, to, bytes)) || (from_device && !memory::holds(device, from, bytes))) {
            report = "a copy ran after its memory was freed";
            context.sticky = ILLEGAL_ADDRESS;
            return;
        }
        memmove(to, source, bytes);
    });
    if (waits) drain(stream);
    return stream.context->sticky;
}

int fill(Stream &stream, void *at, unsigned value, size_t width, size_t count) {
    const int device = stream.context->device;
    if (count == 0) return SUCCESS;
    if (count > SIZE_MAX / width || !memory::holds(device, at, count * width)) {
        report = "a fill of " + std::to_string(count * width) + " bytes does not lie in one allocation";
        return INVALID_VALUE;
    }
    enqueue(stream, [=, &context = *stream.context] {
        if (!memory::holds(device, at, count * width)) {
            report = "a fill ran after its memory was freed";
            context.sticky = ILLEGAL_ADDRESS;
            return;
        }
        auto *cell = static_cast<unsigned char *>(at);
        for (size_t step = 0; step < count; step++) memcpy(cell + step * width, &value, width);
    });
    return stream.context->sticky;
}

int launch(Stream &stream, Function &function, dim3 grid, dim3 block, size_t dynamic, void **parameters) {
    const uint64_t threads = uint64_t(block.x) * block.y * block.z;
    const char *wrong = nullptr;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0) wrong = "an empty launch";
    if (grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) wrong = "the grid is too large";
    if (uint64_t(grid.x) * grid.y * grid.z > UINT32_MAX) wrong = "more blocks than the software device counts";
    if (block.x > 1024 || block.y > 1024 || block.z > 64 || threads > 1024) wrong = "the block is too large";
    if (threads > function.kernel->max_threads) wrong = "the block is larger than the kernel's launch bound";
    if (dynamic > function.most_dynamic) wrong = "more dynamic shared memory than the kernel may have";
    if (!parameters && function.kernel->parameters > 0) wrong = "no parameters";
    if (wrong) {
        report = std::string("launch of ") + function.kernel->name + ": " + wrong;
        return INVALID_VALUE;
    }
    // Parameters are copied at the call, each to a place that suits any type.
    auto values = std::make_shared<std::vector<std::vector<std::max_align_t>>>();
    for (unsigned at = 0; at < function.kernel->parameters; at++) {
        const size_t bytes = function.kernel->parameter_bytes[at];
        values->emplace_back(bytes / sizeof(std::max_align_t) + 1);
        memcpy(values->back().data(), parameters[at], bytes);
    }
    enqueue(stream, [=, &context = *stream.context, kernel = function.kernel, module = function.module] {
        std::vector<void *> arguments;
        for (auto &value : *values) arguments.push_back(value.data());
        arguments.push_back(nullptr);
        if (const int code = injected("kernel")) {
            report = std::string("kernel ") + kernel->name + ": failed as asked";
            context.sticky = code;
        } else if (!run({kernel, module, grid, block, dynamic, arguments.data()})) {
            context.sticky = LAUNCH_FAILED;
        }
    });
    return SUCCESS;  // a failed kernel is seen by the next call
}

// The object that an image stands for: PTX of our own compiler names it, a binary one is compiled from
// the source that the tests name.
int load(const void *image, Module *&made) {
    const auto *bytes = static_cast<const unsigned char *>(image);
    const bool fatbin = memcmp(bytes, "\x50\xed\x55\xba", 4) == 0, elf = memcmp(bytes, "\x7f" "ELF", 4) == 0;
    std::string object;
    if (fatbin || elf) {
        if (settings.refuse_binary) return NO_BINARY_FOR_GPU;
        if (settings.source.empty()) {
            report = "a binary image, and no `source` is set that says what is in it";
            return INVALID_IMAGE;
        }
        object = compile_file(settings.source);
    } else {
        const char *text = static_cast<const char *>(image);
        const char *mark = strstr(text, ptx_mark);
        if (!mark) return memchr(bytes, 0, 4) ? INVALID_IMAGE : INVALID_PTX;
        mark += strlen(ptx_mark);
        object.assign(mark, strcspn(mark, "\n"));
    }
    if (object.empty()) return INVALID_IMAGE;
    void *library = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto *found = library ? static_cast<const simt::Module *>(dlsym(library, "simt_module")) : nullptr;
    if (!found) {
        const char *why = dlerror();
        report = why ? why : "no module in " + object;
        return INVALID_IMAGE;
    }
    made = new Module{found, {}};
    modules.insert(made);
    return SUCCESS;
}

}  // namespace

// Every call is counted for injected faults, under the one lock.
#define CALL(function)                           \
    const std::lock_guard<std::mutex> hold(lock); \
    if (const int code = injected(#function)) return code
#define INITIALIZED_CALL(function) \
    CALL(function);                \
    if (!initialized) return NOT_INITIALIZED
#define CONTEXT_CALL(function)                \
    INITIALIZED_CALL(function);               \
    Context *const here = current;            \
    if (!here) return INVALID_CONTEXT;        \
    if (here->sticky) return here->sticky
#define STREAM_CALL(function, handle)               \
    CONTEXT_CALL(function);                         \
    Stream *const stream = stream_of(*here, handle); \
    if (!stream) return INVALID_HANDLE
#define NEEDED(pointer) \
    if (!(pointer)) return INVALID_VALUE

using Pointer = unsigned long long;
static void *at(Pointer pointer) { return reinterpret_cast<void *>(pointer); }

extern "C" {

// ---- what tests call ----

// Changes settings, "key=value,..." (README.md); 0, or -1 for what it does not know.
int soft_configure(const char *text) {
    const std::lock_guard<std::mutex> hold(lock);
    drain_all();
    return configure(text) ? 0 : -1;
}

// Forgets failed kernels, injected faults and the report.
void soft_reset() {
    const std::lock_guard<std::mutex> hold(lock);
    drain_all();
    for (int device = 0; device < settings.devices; device++) context_of(device).sticky = 0;
    settings.faults.clear();
    report.clear();
}

// What the last failure was, in words; valid until the next call.
const char *soft_report() {
    const std::lock_guard<std::mutex> hold(lock);
    static std::string kept;
    kept = report;
    return kept.c_str();
}

// launches, blocks, switches, work, span.
void soft_stats(uint64_t out[5]) {
    const std::lock_guard<std::mutex> hold(lock);
    const uint64_t all[5] = {stats.launches, stats.blocks, stats.switches, stats.work, stats.span};
    memcpy(out, all, sizeof all);
}

// Basic blocks run by the threads of the last launch; gives how many threads it had.
size_t soft_thread_steps(uint64_t *out, size_t capacity) {
    const std::lock_guard<std::mutex> hold(lock);
    std::copy_n(thread_steps.begin(), std::min(capacity, thread_steps.size()), out);
    return thread_steps.size();
}

// Bytes of device memory that are taken.
size_t soft_memory_used(int device) {
    const std::lock_guard<std::mutex> hold(lock);
    return memory::used(device);
}

// For libnvrtc.so: the object of a text, or what g++ says of it. The strings are valid until the next call.
int soft_compile(const char *text, const char **object, const char **log) {
    const std::lock_guard<std::mutex> hold(lock);
    static std::string made, why;
    made = compile(text);
    why = made.empty() ? report : "";
    *object = made.c_str();
    *log = why.c_str();
    return made.empty() ? -1 : 0;
}

int soft_injected(const char *function) {
    const std::lock_guard<std::mutex> hold(lock);
    return injected(function);
}

// ---- errors ----

int cuGetErrorName(int error, const char **text) {
    const auto found = texts.find(error);
    *text = found == texts.end() ? nullptr : found->second.first;
    return *text ? SUCCESS : INVALID_VALUE;
}

// A failed kernel's text says what it did.
int cuGetErrorString(int error, const char **text) {
    const std::lock_guard<std::mutex> hold(lock);
    const auto found = texts.find(error);
    *text = nullptr;
    if (found == texts.end()) return INVALID_VALUE;
    static std::set<std::string> kept;
    std::string words = found->second.second;
    if ((error == LAUNCH_FAILED || error == ILLEGAL_ADDRESS) && !report.empty()) words += ": " + report;
    *text = kept.insert(words).first->c_str();
    return SUCCESS;
}

// ---- the driver and its devices ----

int cuInit(unsigned flags) {
    CALL(cuInit);
    if (flags != 0) return INVALID_VALUE;
    if (settings.devices == 0) return NO_DEVICE;
    initialized = true;
    return SUCCESS;
}

int cuDriverGetVersion(int *version) {
    CALL(cuDriverGetVersion);
    NEEDED(version);
    *version = 13000;
    return SUCCESS;
}

int cuDeviceGetCount(int *count) {
    INITIALIZED_CALL(cuDeviceGetCount);
    NEEDED(count);
    *count = settings.devices;
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal) {
    INITIALIZED_CALL(cuDeviceGet);
    NEEDED(device);
    if (ordinal < 0 || ordinal >= settings.devices) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

int cuDeviceGetName(char *name, int length, int device) {
    INITIALIZED_CALL(cuDeviceGetName);
    if (device < 0 || device >= settings.devices) return INVALID_DEVICE;
    if (!name || length <= 0) return INVALID_VALUE;
    snprintf(name, size_t(length), "Software device %d", device);
    return SUCCESS;
}

int cuDeviceGetUuid(unsigned char *uuid, int device) {
    INITIALIZED_CALL(cuDeviceGetUuid);
    NEEDED(uuid);
    if (device < 0 || device >= settings.devices) return INVALID_DEVICE;
    memset(uuid, 0, 16);
    uuid[15] = static_cast<unsigned char>(device + 1);
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    INITIALIZED_CALL(cuDeviceTotalMem_v2);
    NEEDED(bytes);
    if (device < 0 || device >= settings.devices) return INVALID_DEVICE;
    *bytes = settings.memory;
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int which, int device) {
    INITIALIZED_CALL(cuDeviceGetAttribute);
    NEEDED(value);
    if (device < 0 || device >= settings.devices) return INVALID_DEVICE;
    return attribute(which, *value);
}

// ---- contexts ----

int cuDevicePrimaryCtxRetain(void **context, int device) {
    INITIALIZED_CALL(cuDevicePrimaryCtxRetain);
    NEEDED(context);
    if (device < 0 || device >= settings.devices) return INVALID_DEVICE;
    Context &made = context_of(device);
    made.retained++;
    *context = &made;
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    INITIALIZED_CALL(cuDevicePrimaryCtxRelease_v2);
    if (device < 0 || device >= settings.devices) return INVALID_DEVICE;
    Context &context = context_of(device);
    if (context.retained == 0) return INVALID_CONTEXT;
    if (--context.retained == 0) drain(context);
    return SUCCESS;
}

int cuCtxSetCurrent(void *context) {
    INITIALIZED_CALL(cuCtxSetCurrent);
    current = static_cast<Context *>(context);
    return SUCCESS;
}

int cuCtxGetCurrent(void **context) {
    INITIALIZED_CALL(cuCtxGetCurrent);
    NEEDED(context);
    *context = current;
    return SUCCESS;
}

int cuCtxPushCurrent_v2(void *context) {
    INITIALIZED_CALL(cuCtxPushCurrent_v2);
    pushed.push_back(current);
    current = static_cast<Context *>(context);
    return SUCCESS;
}

int cuCtxPopCurrent_v2(void **context) {
    INITIALIZED_CALL(cuCtxPopCurrent_v2);
    if (context) *context = current;
    current = pushed.empty() ? nullptr : pushed.back();
    if (!pushed.empty()) pushed.pop_back();
    return SUCCESS;
}

int cuCtxGetDevice(int *device) {
    CONTEXT_CALL(cuCtxGetDevice);
    NEEDED(device);
    *device = here->device;
    return SUCCESS;
}

int cuCtxSynchronize() {
    CONTEXT_CALL(cuCtxSynchronize);
    drain(*here);
    return here->sticky;
}

// ---- streams ----

int cuStreamCreate(void **stream, unsigned flags) {
    CONTEXT_CALL(cuStreamCreate);
    NEEDED(stream);
    if (flags > 1) return INVALID_VALUE;
    here->streams.push_back(new Stream{here, flags == 0, {}});
    *stream = here->streams.back();
    return SUCCESS;
}

int cuStreamCreateWithPriority(void **stream, unsigned flags, int) {
    CONTEXT_CALL(cuStreamCreateWithPriority);
    NEEDED(stream);
    if (flags > 1) return INVALID_VALUE;
    here->streams.push_back(new Stream{here, flags == 0, {}});
    *stream = here->streams.back();
    return SUCCESS;
}

// What still stands in the stream runs.
int cuStreamDestroy_v2(void *handle) {
    STREAM_CALL(cuStreamDestroy_v2, handle);
    if (stream == here->null_stream) return INVALID_HANDLE;
    drain(*stream);
    here->streams.erase(std::find(here->streams.begin(), here->streams.end(), stream));
    for (auto &[raw, event] : events) {
        if (event->stream == stream) event->stream = nullptr;
    }
    delete stream;
    return SUCCESS;
}

int cuStreamSynchronize(void *handle) {
    STREAM_CALL(cuStreamSynchronize, handle);
    drain(*stream);
    return here->sticky;
}

// On a lazy device each question lets one operation run, so that who polls gets there.
int cuStreamQuery(void *handle) {
    STREAM_CALL(cuStreamQuery, handle);
    if (stream->queue.empty()) return SUCCESS;
    drain(*stream, stream->queue.front().number);
    return here->sticky ? here->sticky : NOT_READY;
}

int cuStreamIsCapturing(void *handle, int *status) {
    STREAM_CALL(cuStreamIsCapturing, handle);
    NEEDED(status);
    *status = 0;
    return SUCCESS;
}

int cuLaunchHostFunc(void *handle, void (*function)(void *), void *data) {
    STREAM_CALL(cuLaunchHostFunc, handle);
    NEEDED(function);
    enqueue(*stream, [=] { function(data); });
    return SUCCESS;
}

// ---- events ----

int cuEventCreate(void **made, unsigned flags) {
    CONTEXT_CALL(cuEventCreate);
    NEEDED(made);
    auto event = std::make_shared<Event>();
    event->timed = !(flags & 2);
    *made = event.get();
    events[event.get()] = event;
    return SUCCESS;
}

int cuEventDestroy_v2(void *handle) {
    INITIALIZED_CALL(cuEventDestroy_v2);
    return events.erase(static_cast<Event *>(handle)) ? SUCCESS : INVALID_HANDLE;
}

int cuEventRecord(void *handle, void *stream_handle) {
    STREAM_CALL(cuEventRecord, stream_handle);
    const auto found = events.find(static_cast<Event *>(handle));
    if (found == events.end()) return INVALID_HANDLE;
    const std::shared_ptr<Event> event = found->second;
    event->stream = stream;
    auto number = std::make_shared<uint64_t>(0);
    // Done at once on an eager device, before its number is known here.
    event->recorded = enqueue(*stream, [=] {
        event->time = std::chrono::steady_clock::now();
        event->done = *number ? *number : UINT64_MAX;
    });
    if (event->done == UINT64_MAX) event->done = event->recorded;
    *number = event->recorded;
    return SUCCESS;
}

static void finish(Event &event) {
    if (event.done < event.recorded && event.stream) drain(*event.stream, event.recorded);
}

int cuEventSynchronize(void *handle) {
    CONTEXT_CALL(cuEventSynchronize);
    const auto found = events.find(static_cast<Event *>(handle));
    if (found == events.end()) return INVALID_HANDLE;
    finish(*found->second);
    return here->sticky;
}

int cuEventQuery(void *handle) {
    CONTEXT_CALL(cuEventQuery);
    const auto found = events.find(static_cast<Event *>(handle));
    if (found == events.end()) return INVALID_HANDLE;
    Event &event = *found->second;
    if (event.done >= event.recorded || !event.stream) return SUCCESS;
    drain(*event.stream, event.stream->queue.front().number);
    return here->sticky ? here->sticky : NOT_READY;
}

int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    CONTEXT_CALL(cuEventElapsedTime);
    NEEDED(milliseconds);
    const auto first = events.find(static_cast<Event *>(start)), last = events.find(static_cast<Event *>(end));
    if (first == events.end() || last == events.end()) return INVALID_HANDLE;
    for (const auto &found : {first, last}) {
        if (!found->second->timed || found->second->recorded == 0) return INVALID_HANDLE;
        if (found->second->done < found->second->recorded) return NOT_READY;
    }
    *milliseconds = std::chrono::duration<float, std::milli>(last->second->time - first->second->time).count();
    return SUCCESS;
}

int cuStreamWaitEvent(void *handle, void *event_handle, unsigned) {
    STREAM_CALL(cuStreamWaitEvent, handle);
    const auto found = events.find(static_cast<Event *>(event_handle));
    if (found == events.end()) return INVALID_HANDLE;
    const std::shared_ptr<Event> event = found->second;
    Stream *const other = event->stream;
    const uint64_t number = event->recorded;
    if (event->done >= number || !other) return SUCCESS;
    enqueue(*stream, [=] {
        const auto &all = other->context->streams;
        const bool alive = other == other->context->null_stream || std::find(all.begin(), all.end(), other) != all.end();
        if (alive) drain(*other, number);
    });
    return SUCCESS;
}

// ---- memory ----

int cuMemAlloc_v2(Pointer *pointer, size_t bytes) {
    CONTEXT_CALL(cuMemAlloc_v2);
    NEEDED(pointer);
    void *cell;
    const int code = memory::take(here->device, bytes, &cell);
    if (code == SUCCESS) *pointer = reinterpret_cast<Pointer>(cell);
    return code;
}

int cuMemAllocAsync(Pointer *pointer, size_t bytes, void *handle) {
    STREAM_CALL(cuMemAllocAsync, handle);
    NEEDED(pointer);
    void *cell;
    const int code = memory::take(here->device, bytes, &cell);
    if (code == SUCCESS) *pointer = reinterpret_cast<Pointer>(cell);
    return code;
}

int cuMemFree_v2(Pointer pointer) {
    CONTEXT_CALL(cuMemFree_v2);
    drain(*here);
    return memory::release(here->device, at(pointer));
}

int cuMemFreeAsync(Pointer pointer, void *handle) {
    STREAM_CALL(cuMemFreeAsync, handle);
    if (!memory::holds(here->device, at(pointer), 1)) return INVALID_VALUE;
    enqueue(*stream, [=] {
        if (memory::release(here->device, at(pointer)) == SUCCESS) return;
        report = "memory was freed twice";
        here->sticky = ILLEGAL_ADDRESS;
    });
    return SUCCESS;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CONTEXT_CALL(cuMemGetInfo_v2);
    if (!free_bytes || !total) return INVALID_VALUE;
    *total = settings.memory;
    *free_bytes = settings.memory - std::min(settings.memory, memory::used(here->device));
    return SUCCESS;
}

int cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
    CONTEXT_CALL(cuMemHostAlloc);
    NEEDED(pointer);
    return memory::take_pinned(bytes, pointer);
}

int cuMemFreeHost(void *pointer) {
    CONTEXT_CALL(cuMemFreeHost);
    drain(*here);
    return memory::release_pinned(pointer);
}

// Which memory a pointer is of: 1 context, 2 memory type (1 host, 2 device), 3 and 4 itself, 9 device.
int cuPointerGetAttribute(void *data, int which, Pointer pointer) {
    INITIALIZED_CALL(cuPointerGetAttribute);
    NEEDED(data);
    const bool device = memory::holds(-1, at(pointer), 1), pinned = memory::pinned(at(pointer));
    if (!device && !pinned) return INVALID_VALUE;
    switch (which) {
        case 1: *static_cast<void **>(data) = device ? &context_of(memory::device_of(at(pointer))) : current; break;
        case 2: *static_cast<unsigned *>(data) = device ? 2 : 1; break;
        case 3: *static_cast<Pointer *>(data) = pointer; break;
        case 4:
            if (device) return INVALID_VALUE;
            *static_cast<Pointer *>(data) = pointer;
            break;
        case 9: *static_cast<int *>(data) = device ? memory::device_of(at(pointer)) : 0; break;
        default: return INVALID_VALUE;
    }
    return SUCCESS;
}

int cuMemcpyHtoD_v2(Pointer to, const void *from, size_t bytes) {
    CONTEXT_CALL(cuMemcpyHtoD_v2);
    const int code = copy(*here->null_stream, at(to), from, bytes, true, false);
    drain(*here->null_stream);
    return code ? code : here->sticky;
}

int cuMemcpyDtoH_v2(void *to, Pointer from, size_t bytes) {
    CONTEXT_CALL(cuMemcpyDtoH_v2);
    const int code = copy(*here->null_stream, to, at(from), bytes, false, true);
    drain(*here->null_stream);
    return code ? code : here->sticky;
}

int cuMemcpyDtoD_v2(Pointer to, Pointer from, size_t bytes) {
    CONTEXT_CALL(cuMemcpyDtoD_v2);
    const int code = copy(*here->null_stream, at(to), at(from), bytes, true, true);
    return code ? code : here->sticky;
}

int cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t bytes, void *handle) {
    STREAM_CALL(cuMemcpyHtoDAsync_v2, handle);
    return copy(*stream, at(to), from, bytes, true, false);
}

int cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t bytes, void *handle) {
    STREAM_CALL(cuMemcpyDtoHAsync_v2, handle);
    return copy(*stream, to, at(from), bytes, false, true);
}

int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, void *handle) {
    STREAM_CALL(cuMemcpyDtoDAsync_v2, handle);
    return copy(*stream, at(to), at(from), bytes, true, true);
}

int cuMemsetD8_v2(Pointer to, unsigned char value, size_t bytes) {
    CONTEXT_CALL(cuMemsetD8_v2);
    return fill(*here->null_stream, at(to), value, 1, bytes);
}

int cuMemsetD8Async(Pointer to, unsigned char value, size_t bytes, void *handle) {
    STREAM_CALL(cuMemsetD8Async, handle);
    return fill(*stream, at(to), value, 1, bytes);
}

int cuMemsetD32_v2(Pointer to, unsigned value, size_t count) {
    CONTEXT_CALL(cuMemsetD32_v2);
    return fill(*here->null_stream, at(to), value, 4, count);
}

int cuMemsetD32Async(Pointer to, unsigned value, size_t count, void *handle) {
    STREAM_CALL(cuMemsetD32Async, handle);
    return fill(*stream, at(to), value, 4, count);
}

// ---- modules and kernels ----

int cuModuleLoadData(void **module, const void *image) {
    CONTEXT_CALL(cuModuleLoadData);
    if (!module || !image) return INVALID_VALUE;
    Module *made = nullptr;
    const int code = load(image, made);
    if (code == SUCCESS) *module = made;
    return code;
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned, int *, void **) {
    CONTEXT_CALL(cuModuleLoadDataEx);
    if (!module || !image) return INVALID_VALUE;
    Module *made = nullptr;
    const int code = load(image, made);
    if (code == SUCCESS) *module = made;
    return code;
}

int cuModuleUnload(void *handle) {
    CONTEXT_CALL(cuModuleUnload);
    drain(*here);
    auto *module = static_cast<Module *>(handle);
    if (!modules.erase(module)) return INVALID_HANDLE;
    for (const auto &[name, function] : module->functions) functions.erase(function.get());
    delete module;
    return SUCCESS;
}

int cuModuleGetFunction(void **function, void *handle, const char *name) {
    CONTEXT_CALL(cuModuleGetFunction);
    if (!function || !name) return INVALID_VALUE;
    auto *module = static_cast<Module *>(handle);
    if (!modules.count(module)) return INVALID_HANDLE;
    const simt::Module &object = *module->object;
    const auto *end = object.kernels + object.count;
    const auto *found = std::find_if(object.kernels, end, [=](const simt::Kernel &kernel) { return !strcmp(kernel.name, name); });
    if (found == end) return NOT_FOUND;
    auto &made = module->functions[name];
    if (!made) made = std::make_unique<Function>(Function{found, &object, plain_shared - std::min(plain_shared, static_shared(object))});
    functions[made.get()] = made.get();
    *function = made.get();
    return SUCCESS;
}

int cuModuleGetGlobal_v2(Pointer *, size_t *, void *, const char *) {
    CONTEXT_CALL(cuModuleGetGlobal_v2);
    return NOT_FOUND;  // kernels have no globals
}

int cuFuncGetAttribute(int *value, int which, void *handle) {
    CONTEXT_CALL(cuFuncGetAttribute);
    NEEDED(value);
    const auto found = functions.find(static_cast<Function *>(handle));
    if (found == functions.end()) return INVALID_HANDLE;
    const Function &function = *found->second;
    switch (which) {
        case 0: *value = int(std::min(1024u, function.kernel->max_threads)); break;
        case 1: *value = int(static_shared(*function.module)); break;
        case 4: *value = 32; break;
        case 5:
        case 6: *value = settings.capability; break;
        case 8: *value = int(function.most_dynamic); break;
        default: *value = 0;
    }
    return SUCCESS;
}

int cuFuncSetAttribute(void *handle, int which, int value) {
    CONTEXT_CALL(cuFuncSetAttribute);
    const auto found = functions.find(static_cast<Function *>(handle));
    if (found == functions.end()) return INVALID_HANDLE;
    Function &function = *found->second;
    if (which == 8) {
        if (value < 0 || size_t(value) + static_shared(*function.module) > settings.shared) return INVALID_VALUE;
        function.most_dynamic = size_t(value);
    }
    return SUCCESS;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *handle, int block_size, size_t dynamic) {
    CONTEXT_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    NEEDED(blocks);
    const auto found = functions.find(static_cast<Function *>(handle));
    if (found == functions.end()) return INVALID_HANDLE;
    if (block_size <= 0) return INVALID_VALUE;
    const size_t shared = dynamic + static_shared(*found->second->module);
    size_t most = std::min<size_t>(blocks_a_multiprocessor, threads_a_multiprocessor / unsigned(block_size));
    if (shared > 0) most = std::min(most, settings.shared / shared);
    if (dynamic > found->second->most_dynamic || unsigned(block_size) > found->second->kernel->max_threads) most = 0;
    *blocks = int(most);
    return SUCCESS;
}

int cuLaunchKernel(void *handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned dynamic, void *stream_handle, void **parameters, void **extra) {
    STREAM_CALL(cuLaunchKernel, stream_handle);
    const auto found = functions.find(static_cast<Function *>(handle));
    if (found == functions.end()) return INVALID_HANDLE;
    if (extra) return INVALID_VALUE;
    return launch(*stream, *found->second, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic, parameters);
}
}
