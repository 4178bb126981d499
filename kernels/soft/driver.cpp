// The driver's entry points: errors, devices, contexts; and what only tests call. Streams and events are in
// stream.cpp, memory in memory.cpp, modules and kernels in launch.cpp.

#include "driver.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

using namespace soft;

namespace soft {

std::mutex lock;
std::atomic<bool> initialized{false};
thread_local Context *current = nullptr;

}  // namespace soft

namespace {

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
    {222, {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."}},
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

thread_local std::vector<Context *> pushed;

int attribute(int which, int &value) {
    static const std::map<int, int> constant = {
        {1, 1024},     {2, 1024},  {3, 1024},   {4, 64},       {5, 2147483647}, {6, 65535}, {7, 65535},    {8, 49152},
        {9, 65536},    {10, 32},   {12, 65536}, {13, 1000000}, {16, 4},         {31, 1},    {36, 1000000}, {37, 64},
        {38, 4 << 20}, {39, 1024}, {40, 2},     {41, 1},       {82, 65536},     {106, 16},  {115, 1},
    };
    if (which <= 0 || which > 160) return INVALID_VALUE;
    const auto found = constant.find(which);
    value = found == constant.end() ? 0 : found->second;
    if (which == 75) value = settings.capability / 10;
    if (which == 76) value = settings.capability % 10;
    if (which == 81 || which == 97) value = int(settings.shared);
    return SUCCESS;
}

}  // namespace

extern "C" {

// ---- what tests call ----

// Changes settings, "key=value,..." (README.md); 0, or -1 for what it does not know.
int soft_configure(const char *text) {
    const std::lock_guard<std::mutex> hold(lock);
    drain_all();
    return configure(text) ? 0 : -1;
}

// Forgets failed kernels, injected faults, changes of copies and the report.
void soft_reset() {
    const std::lock_guard<std::mutex> hold(lock);
    drain_all();
    for (int device = 0; device < settings.devices; device++) context_of(device).sticky = 0;
    settings.faults.clear();
    settings.flips.clear();
    report.clear();
}

// What the last failure was, in words; valid until the next call.
const char *soft_report() {
    const std::lock_guard<std::mutex> hold(lock);
    static std::string kept;
    kept = report;
    return kept.c_str();
}

// launches, blocks, switches, work, span, calls, objects, copies to the host.
void soft_stats(uint64_t out[8]) {
    const std::lock_guard<std::mutex> hold(lock);
    static_assert(sizeof stats == 8 * sizeof(uint64_t), "eight numbers");
    memcpy(out, &stats, sizeof stats);
}

// What kernels asked of device memory (loads, their bytes, stores, theirs, atomics), the same of shared memory, barriers
// of blocks, collectives of warps.
void soft_traffic(uint64_t out[12]) {
    const std::lock_guard<std::mutex> hold(lock);
    static_assert(sizeof traffic == 12 * sizeof(uint64_t), "twelve numbers");
    memcpy(out, &traffic, sizeof traffic);
}

// Basic blocks run by the threads of the last launch; gives how many threads it had.
size_t soft_thread_steps(uint64_t *out, size_t capacity) {
    const std::lock_guard<std::mutex> hold(lock);
    std::copy_n(thread_steps.begin(), std::min(capacity, thread_steps.size()), out);
    return thread_steps.size();
}

// Bytes of device memory that are taken; of device -2, page-locked memory of the host.
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
    *version = settings.driver;
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
    stats.objects++;
    *context = &made;
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    INITIALIZED_CALL(cuDevicePrimaryCtxRelease_v2);
    if (device < 0 || device >= settings.devices) return INVALID_DEVICE;
    Context &context = context_of(device);
    if (context.retained == 0) return INVALID_CONTEXT;
    stats.objects--;
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
}
