// Streams: queues of operations that run in the order of their stream, and between streams in the
// order that events and the null stream's rules ask for. A lazy device runs nothing before it must.

#include "driver.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

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
    return found == context.streams.end() || (*found)->destroyed ? nullptr : *found;
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

bool is_queued(const void *first, size_t bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(first);
    const auto meets = [=](const Range &range) {
        const auto at = reinterpret_cast<uintptr_t>(range.first);
        return at < begin + bytes && begin < at + range.bytes;
    };
    const auto queued = [=](const Stream *stream) {
        const auto &queue = stream->queue;
        return std::any_of(queue.begin(), queue.end(), [=](const auto &it) { return meets(it.from) || meets(it.to); });
    };
    for (Context *context : contexts()) {
        if (queued(context->null_stream)) return true;
        if (std::any_of(context->streams.begin(), context->streams.end(), queued)) return true;
    }
    return false;
}

uint64_t enqueue(Stream &stream, std::function<void()> run, Range from, Range to) {
    const uint64_t number = ++last_number;
    stream.queue.push_back({number, std::move(run), from, to});
    if (!settings.lazy) drain(stream);
    return number;
}

}  // namespace soft

using namespace soft;

namespace {

struct Event {
    Stream *stream = nullptr;
    uint64_t recorded = 0, done = 0;  // numbers of the operation that records it
    std::chrono::steady_clock::time_point time{};
    bool timed = true;
};

std::map<Event *, std::shared_ptr<Event>> events;

}  // namespace

extern "C" {

// ---- streams ----

int cuStreamCreate(void **stream, unsigned flags) {
    CONTEXT_CALL(cuStreamCreate);
    NEEDED(stream);
    if (flags > 1) return INVALID_VALUE;
    here->streams.push_back(new Stream{here, flags == 0, {}});
    *stream = here->streams.back();
    stats.objects++;
    return SUCCESS;
}

int cuStreamCreateWithPriority(void **stream, unsigned flags, int) {
    CONTEXT_CALL(cuStreamCreateWithPriority);
    NEEDED(stream);
    if (flags > 1) return INVALID_VALUE;
    here->streams.push_back(new Stream{here, flags == 0, {}});
    *stream = here->streams.back();
    stats.objects++;
    return SUCCESS;
}

// What still stands in the stream runs at some time, and is not waited for.
int cuStreamDestroy_v2(void *handle) {
    STREAM_CALL(cuStreamDestroy_v2, handle);
    if (stream == here->null_stream) return INVALID_HANDLE;
    if (!stream->queue.empty()) {
        stream->destroyed = true;
        stats.objects--;
        return SUCCESS;
    }
    here->streams.erase(std::find(here->streams.begin(), here->streams.end(), stream));
    for (auto &[raw, event] : events) {
        if (event->stream == stream) event->stream = nullptr;
    }
    delete stream;
    stats.objects--;
    return SUCCESS;
}

// One that is made to fail has waited: what a driver answers then is how the work failed.
int cuStreamSynchronize(void *handle) {
    const std::lock_guard<std::mutex> hold(lock);
    const int code = injected("cuStreamSynchronize");
    Stream *const stream = current ? stream_of(*current, handle) : nullptr;
    if (stream) drain(*stream);
    if (code) return code;
    return !stream ? INVALID_HANDLE : current->sticky;
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
    stats.objects++;
    return SUCCESS;
}

int cuEventDestroy_v2(void *handle) {
    INITIALIZED_CALL(cuEventDestroy_v2);
    const bool known = events.erase(static_cast<Event *>(handle)) > 0;
    stats.objects -= known;
    return known ? SUCCESS : INVALID_HANDLE;
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
        const bool alive =
            other == other->context->null_stream || std::find(all.begin(), all.end(), other) != all.end();
        if (alive) drain(*other, number);
    });
    return SUCCESS;
}
}
