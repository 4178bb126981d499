// Device memory is host memory in a table: poisoned when taken, with a guard before and after.

#include "driver.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>

// There in a process that runs under AddressSanitizer, whose own guards are better.
extern "C" __attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *begin, size_t bytes);

namespace soft::memory {
namespace {

constexpr int success = 0, invalid_value = 1, out_of_memory = 2;
constexpr size_t alignment = 256;  // as the driver gives it
constexpr unsigned char guard_byte = 0xa6;

struct Allocation {
    int device;  // or pinned, for the host's
    size_t bytes;
    unsigned char *block;
};
constexpr int pinned_host = -2;

std::map<const unsigned char *, Allocation> allocations;
std::map<const unsigned char *, Allocation>::const_iterator last = allocations.end();

size_t guard_bytes() { return __asan_unpoison_memory_region ? 0 : alignment; }

const Allocation *find(const void *cell, size_t bytes) {
    const auto *at = static_cast<const unsigned char *>(cell);
    if (last == allocations.end() || at < last->first || at >= last->first + last->second.bytes) {
        auto next = allocations.upper_bound(at);
        if (next == allocations.begin()) return nullptr;
        last = std::prev(next);
    }
    const size_t offset = at - last->first;
    const size_t size = last->second.bytes;
    return offset <= size && bytes <= size - offset ? &last->second : nullptr;
}

int allocate(int device, size_t bytes, void **cell) {
    if (bytes == 0) return invalid_value;
    const size_t guard = guard_bytes();
    void *block;
    if (bytes > SIZE_MAX - 2 * guard || posix_memalign(&block, alignment, bytes + 2 * guard) != 0) return out_of_memory;
    auto *first = static_cast<unsigned char *>(block);
    poison(first, bytes + 2 * guard);
    memset(first, guard_byte, guard);
    memset(first + guard + bytes, guard_byte, guard);
    allocations[first + guard] = {device, bytes, first};
    *cell = first + guard;
    return success;
}

int give_back(int device, void *cell) {
    const auto found = allocations.find(static_cast<unsigned char *>(cell));
    if (found == allocations.end() || found->second.device != device) return invalid_value;
    unsigned char *block = found->second.block;
    poison(block, found->second.bytes + 2 * guard_bytes());
    allocations.erase(found);
    last = allocations.end();
    free(block);
    return success;
}

}  // namespace

size_t used(int device) {
    size_t sum = 0;
    for (const auto &[at, allocation] : allocations) sum += allocation.device == device ? allocation.bytes : 0;
    return sum;
}

// Neither of the calls that free at once promises to wait. A driver would say nothing, and the copy would meet whoever
// has the memory next.
void not_under_a_copy(const void *cell) {
    const auto found = allocations.find(static_cast<const unsigned char *>(cell));
    if (found == allocations.end() || !is_queued(cell, found->second.bytes)) return;
    fprintf(stderr, "software device: %s memory is freed while a copy of it is queued\n",
            found->second.device == pinned_host ? "page-locked" : "device");
    abort();
}

int take(int device, size_t bytes, void **cell) {
    const size_t taken = used(device);
    if (taken > settings.memory || bytes > settings.memory - taken) return out_of_memory;
    return allocate(device, bytes, cell);
}

int release(int device, void *cell) { return cell ? give_back(device, cell) : success; }
int take_pinned(size_t bytes, void **cell) { return allocate(pinned_host, bytes, cell); }
int release_pinned(void *cell) { return give_back(pinned_host, cell); }

bool holds(int device, const void *cell, size_t bytes) {
    const Allocation *found = find(cell, bytes);
    return found && (device < 0 ? found->device >= 0 : found->device == device);
}

bool pinned(const void *cell) {
    const Allocation *found = find(cell, 1);
    return found && found->device == pinned_host;
}

int device_of(const void *cell) {
    const Allocation *found = find(cell, 1);
    return found ? found->device : -1;
}

// Not memset: AddressSanitizer would see it walk over the gaps between shared variables.
__attribute__((optimize("no-tree-loop-distribute-patterns"))) void poison(void *cell, size_t bytes) {
    auto *at = static_cast<unsigned char *>(cell);
    for (size_t step = 0; step < bytes; step++) at[step] = settings.poison;
}

std::string damaged() {
    const size_t guard = guard_bytes();
    for (const auto &[at, allocation] : allocations) {
        for (size_t step = 0; step < guard; step++) {
            const bool before = at[-1 - ptrdiff_t(step)] != guard_byte;
            if (!before && at[allocation.bytes + step] == guard_byte) continue;
            return "something was written " + std::to_string(step) + " bytes " + (before ? "before" : "after") +
                   " an allocation of " + std::to_string(allocation.bytes) + " bytes";
        }
    }
    return "";
}

}  // namespace soft::memory

using namespace soft;

namespace {

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
        if (from_device && !to_device) flip(to, bytes);
    }, taken ? Range{} : Range{from, bytes}, Range{to, bytes});
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

}  // namespace

extern "C" {

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
    memory::not_under_a_copy(at(pointer));
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
    memory::not_under_a_copy(pointer);
    return memory::release_pinned(pointer);
}

// Which memory a pointer is of: 1 context, 2 memory type (1 host, 2 device), 3 and 4 itself, 9 device.
int cuPointerGetAttribute(void *data, int which, Pointer pointer) {
    INITIALIZED_CALL(cuPointerGetAttribute);
    NEEDED(data);
    const bool device = memory::holds(-1, at(pointer), 1), pinned = memory::pinned(at(pointer));
    if (!device && !pinned) return INVALID_VALUE;
    switch (which) {
        case 1:
            *static_cast<void **>(data) = device ? &context_of(memory::device_of(at(pointer))) : current;
            break;
        case 2:
            *static_cast<unsigned *>(data) = device ? 2 : 1;
            break;
        case 3:
            // Memory of another device is out of reach unless both were told of each other.
            if (device && current && memory::device_of(at(pointer)) != current->device) return INVALID_VALUE;
            *static_cast<Pointer *>(data) = pointer;
            break;
        case 4:
            if (device) return INVALID_VALUE;
            *static_cast<Pointer *>(data) = pointer;
            break;
        case 9:
            *static_cast<int *>(data) = device ? memory::device_of(at(pointer)) : 0;
            break;
        default:
            return INVALID_VALUE;
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
}
