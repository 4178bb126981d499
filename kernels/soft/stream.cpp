// Streams: queues of operations that run in the order of their stream, and between streams in the
// order that events and the null stream's rules ask for. A lazy device runs nothing before it must.

#include <algorithm>

#include "soft.h"

namespace soft {
namespace {

uint64_t last_number = 0;

std::vector<Context *> &contexts() {
    static std::vector<Context *> all;
    return all;
}

}  // namespace

Context &context_of(int device) {
    auto &all = contexts();
    while (int(all.size()) <= device) {
        auto *context = new Context;
        context->device = int(all.size());
        context->null_stream = new Stream{context, true, {}};
        all.push_back(context);
    }
    return *all[device];
}

Stream *stream_of(Context &context, void *handle) {
    // 1 and 2: the legacy and the per-thread default stream.
    if (reinterpret_cast<uintptr_t>(handle) <= 2) return context.null_stream;
    const auto found = std::find(context.streams.begin(), context.streams.end(), handle);
    return found == context.streams.end() ? nullptr : *found;
}

void drain(Stream &stream, uint64_t upto) {
    Context &context = *stream.context;
    while (!stream.queue.empty() && stream.queue.front().number <= upto) {
        const Operation operation = std::move(stream.queue.front());
        stream.queue.pop_front();
        if (&stream == context.null_stream) {
            for (Stream *other : context.streams) {
                if (other->blocking) drain(*other, operation.number);
            }
        } else if (stream.blocking) {
            drain(*context.null_stream, operation.number);
        }
        if (!context.sticky) operation.run();
    }
}

void drain(Context &context) {
    drain(*context.null_stream);
    for (Stream *stream : context.streams) drain(*stream);
}

void drain_all() {
    for (Context *context : contexts()) drain(*context);
}

uint64_t enqueue(Stream &stream, std::function<void()> run) {
    const uint64_t number = ++last_number;
    stream.queue.push_back({number, std::move(run)});
    if (!settings.lazy) drain(stream);
    return number;
}

}  // namespace soft
