// Device memory is host memory in a table: poisoned when taken, with a guard before and after.

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>

#include "soft.h"

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
