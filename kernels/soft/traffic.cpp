// What kernels of the build `traffic` ask of memory. The compiler's hooks are those of the race detector (race.cpp):
// they are called at each load and store that is left after optimisation, so that what stays in registers counts for
// nothing, as on a device.

#include "soft.h"

namespace soft {

Traffic traffic;

namespace traffic_of {

namespace {
bool on = false;
uintptr_t first = 0, end = 0;  // the block's shared memory
}  // namespace

void begin_launch() { on = settings.build == "traffic"; }

void begin_block(const void *shared, const void *shared_end) {
    first = reinterpret_cast<uintptr_t>(shared);
    end = reinterpret_cast<uintptr_t>(shared_end);
}

void access(const void *address, size_t bytes, bool writes, bool atomic) {
    if (!on || !simt_now) return;
    const auto at = reinterpret_cast<uintptr_t>(address);
    const bool shared = at >= first && at < end;
    if (!shared && !memory::holds(-1, address, bytes)) return;  // the thread's own stack, or constants
    Traffic::Of &of = shared ? traffic.shared : traffic.device;
    if (atomic) {
        of.atomics += writes;
    } else if (writes) {
        of.stores++;
        of.stored += bytes;
    } else {
        of.loads++;
        of.loaded += bytes;
    }
}

}  // namespace traffic_of
}  // namespace soft
