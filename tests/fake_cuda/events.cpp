#include "events.h"

#include <condition_variable>
#include <thread>
#include <utility>

#include "contexts.h"
#include "settings.h"

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

constexpr std::chrono::milliseconds kSlice{20};

std::condition_variable& listeners_changed() {
  static auto* const made = new std::condition_variable;
  return *made;
}

// The state of a listener's thread is the event's; `page` is one that the thread alone may still have.
void listen(const std::shared_ptr<EventState>& event, std::shared_ptr<EventPage> page) {
  for (std::uint32_t heard = 0;;) {
    heard = page->listen(heard);
    Lock lock(process_mutex());
    if (event->ending) {
      page.reset();
      event->page.reset();
      event->listener = EventState::Listener::kNone;
      listeners_changed().notify_all();
      return;
    }
    // By value: the event may be recorded again while this thread waits.
    const std::shared_ptr<Record> record = event->record;
    if (record == nullptr || record->done || page->asked_for() < event->page_number) continue;
    const Point point = record->point;
    event->listener = EventState::Listener::kWorks;
    engine().finish(point.stream, point.number, lock, Waiting::kYes);
    event->listener = EventState::Listener::kWaits;
    listeners_changed().notify_all();
  }
}

}  // namespace

Events& events() {
  static auto* const made = new Events;
  return *made;
}

void EventState::record_in(const std::shared_ptr<StreamState>& stream) {
  const auto made = std::make_shared<Record>();
  const std::shared_ptr<EventPage> shared = page;
  const std::uint32_t number = shared != nullptr ? shared->record() : 0;
  made->point.stream = stream;
  made->point.number = engine().submit(stream, {.run = [made, shared, number](Lock&) {
                                         made->done = true;
                                         made->at = std::chrono::steady_clock::now();
                                         made->point.stream.reset();
                                         if (shared != nullptr) shared->finish(number);
                                         return CudaError::kSuccess;
                                       }});
  record = made;
  page_number = number;
  polls = 0;
}

bool EventState::is_remote() const { return page != nullptr && page->recorded() != page_number; }

bool EventState::is_done() const {
  if (is_remote()) return page->is_done(page->recorded());
  return record == nullptr || record->done;
}

bool EventState::finish(Lock& lock, Waiting waiting) {
  if (!is_remote()) {
    const std::shared_ptr<Record> captured = record;
    if (captured == nullptr || captured->done) return true;
    const Point point = captured->point;
    return engine().finish(point.stream, point.number, lock, waiting);
  }
  const std::shared_ptr<EventPage> shared = page;
  const std::uint32_t number = shared->recorded();
  while (!shared->is_done(number)) {
    shared->ask_for(number);
    if (waiting == Waiting::kNo || poison() != CudaError::kSuccess) return false;
    lock.unlock();
    shared->wait(number, kSlice);
    lock.lock();
  }
  return true;
}

Work EventState::wait() const {
  Work work;
  if (is_remote()) {
    work.after_remote.push_back({page, page->recorded()});
  } else if (record != nullptr && !record->done) {
    work.after.push_back(record->point);
  }
  return work;
}

void EventState::start_listener() {
  if (!settings().lazy || listener != Listener::kNone) return;
  listener = Listener::kWaits;
  std::thread([event = shared_from_this(), shared = page]() mutable {
    listen(event, std::move(shared));
  }).detach();
}

Event Events::add(std::shared_ptr<EventState> state) {
  const auto handle = reinterpret_cast<Event>(next_);  // never given twice: a stale one is recognised
  next_ += 16;
  events_[handle] = std::move(state);
  return handle;
}

std::shared_ptr<EventState> Events::find(Event event) {
  const auto found = events_.find(event);
  return found == events_.end() ? nullptr : found->second;
}

// "An event may be destroyed before it is complete": what waits keeps its record.
CudaError Events::destroy(Event event, Lock& lock) {
  const auto found = events_.find(event);
  if (found == events_.end()) return CudaError::kInvalidHandle;
  const std::shared_ptr<EventState> state = found->second;
  events_.erase(found);
  end(*state, lock);
  return CudaError::kSuccess;
}

// A listener that only waits has ended when this returns, so that nothing of the event is left. One that works ends
// after its work: "the call does not block on completion of the event".
void Events::end(EventState& state, Lock& lock) {
  state.ending = true;
  if (state.listener == EventState::Listener::kNone) return;
  state.page->ring();
  listeners_changed().wait(lock, [&] { return state.listener != EventState::Listener::kWaits; });
}

void Events::end_context(DeviceNumber device, Lock& lock) {
  for (auto next = events_.begin(); next != events_.end();) {
    const auto [event, state] = *next++;
    if (state->device != device) continue;
    events_.erase(event);
    end(*state, lock);
    next = events_.begin();
  }
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake

namespace fake = forklift::device::cuda::fake;
using fake::enter;
using fake::events;
using fake::Lock;
using fake::Needs;
using fake::Waiting;
using forklift::device::cuda::Context;
using forklift::device::cuda::CudaError;
using forklift::device::cuda::Event;
using forklift::device::cuda::kEventDisableTiming;
using forklift::device::cuda::kEventInterprocess;
using forklift::device::cuda::Stream;

FAKE_CUDA CudaError cuEventCreate(Event* event, unsigned flags) {
  return enter("cuEventCreate", Needs::kContext, [&](Lock&) {
    constexpr unsigned kKnown = 1 | kEventDisableTiming | kEventInterprocess;
    const bool shared = (flags & kEventInterprocess) != 0;
    if (event == nullptr || (flags & ~kKnown) != 0) return CudaError::kInvalidValue;
    // "CU_EVENT_INTERPROCESS ... must be specified along with CU_EVENT_DISABLE_TIMING."
    if (shared && (flags & kEventDisableTiming) == 0) return CudaError::kInvalidValue;
    auto state = std::make_shared<fake::EventState>();
    state->device = fake::contexts().current_device();
    state->flags = flags;
    if (shared && (state->page = fake::EventPage::create()) == nullptr) return CudaError::kOutOfMemory;
    *event = events().add(std::move(state));
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuEventDestroy_v2(Event event) {
  return enter("cuEventDestroy", Needs::kContext, [&](Lock& lock) { return events().destroy(event, lock); });
}

FAKE_CUDA CudaError cuEventRecord(Event event, Stream handle) {
  return enter("cuEventRecord", Needs::kContext, [&](Lock&) {
    const auto state = events().find(event);
    const auto stream = fake::engine().find(handle);
    if (state == nullptr || stream == nullptr || state->device != stream->device)
      return CudaError::kInvalidHandle;
    state->record_in(stream);
    return CudaError::kSuccess;
  });
}

// "Captures in hEvent all the activities of the context hCtx at the time of this call."
FAKE_CUDA CudaError cuCtxRecordEvent(Context context, Event event) {
  return enter("cuCtxRecordEvent", Needs::kInit, [&](Lock&) {
    const auto device = fake::Contexts::device_of(context);
    if (!device || !fake::contexts().active(*device)) return CudaError::kInvalidContext;
    const auto state = events().find(event);
    if (state == nullptr || state->device != *device) return CudaError::kInvalidHandle;
    state->record_in(fake::engine().after_all(*device));
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuEventQuery(Event event) {
  return enter("cuEventQuery", Needs::kContext, [&](Lock& lock) {
    const auto state = events().find(event);
    if (state == nullptr) return CudaError::kInvalidHandle;
    if (!state->is_done() && fake::query_does_work(state->polls)) state->finish(lock, Waiting::kNo);
    if (fake::poison() != CudaError::kSuccess) return fake::poison();
    return state->is_done() ? CudaError::kSuccess : CudaError::kNotReady;
  });
}

FAKE_CUDA CudaError cuEventSynchronize(Event event) {
  return enter("cuEventSynchronize", Needs::kContext, [&](Lock& lock) {
    const auto state = events().find(event);
    if (state == nullptr) return CudaError::kInvalidHandle;
    state->finish(lock, Waiting::kYes);
    return fake::poison();
  });
}

FAKE_CUDA CudaError cuEventElapsedTime(float* milliseconds, Event begin, Event end) {
  return enter("cuEventElapsedTime", Needs::kContext, [&](Lock&) {
    const auto first = events().find(begin);
    const auto last = events().find(end);
    if (milliseconds == nullptr) return CudaError::kInvalidValue;
    if (first == nullptr || last == nullptr) return CudaError::kInvalidHandle;
    if (((first->flags | last->flags) & kEventDisableTiming) != 0) return CudaError::kInvalidHandle;
    if (first->record == nullptr || last->record == nullptr) return CudaError::kInvalidHandle;
    if (!first->record->done || !last->record->done) return CudaError::kNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(last->record->at - first->record->at).count();
    return CudaError::kSuccess;
  });
}
