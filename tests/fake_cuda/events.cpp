#include "events.h"

#include <thread>
#include <utility>

#include "contexts.h"
#include "settings.h"

namespace forklift::device::cuda::fake {
namespace {

constexpr std::chrono::milliseconds kSlice{20};

void listen(const std::shared_ptr<EventState>& event) {
  const std::shared_ptr<EventPage> page = event->page;
  for (std::uint32_t heard = 0;;) {
    heard = page->listen(heard);
    Lock lock(process_mutex());
    if (event->ending) return;
    // By value: the event may be recorded again while this thread waits.
    const std::shared_ptr<Record> record = event->record;
    if (record != nullptr && page->asked_for() >= event->page_number) {
      engine().finish(record->point.stream, record->point.number, lock, Patience::kWait);
    }
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

bool EventState::finish(Lock& lock, Patience patience) {
  if (!is_remote()) {
    const std::shared_ptr<Record> captured = record;
    if (captured == nullptr || captured->done) return true;
    const Point point = captured->point;
    return engine().finish(point.stream, point.number, lock, patience);
  }
  const std::shared_ptr<EventPage> shared = page;
  const std::uint32_t number = shared->recorded();
  while (!shared->is_done(number)) {
    shared->ask_for(number);
    if (patience == Patience::kTry || poison() != CudaError::kSuccess) return false;
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
  if (!settings().lazy || has_listener) return;
  has_listener = true;
  std::thread([event = shared_from_this()] { listen(event); }).detach();
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
CudaError Events::destroy(Event event) {
  const auto found = events_.find(event);
  if (found == events_.end()) return CudaError::kInvalidHandle;
  end(*found->second);
  events_.erase(found);
  return CudaError::kSuccess;
}

void Events::end(EventState& state) {
  state.ending = true;
  if (state.has_listener) state.page->ring();
}

void Events::end_context(DeviceNumber device) {
  std::erase_if(events_, [&](const auto& each) {
    if (each.second->device != device) return false;
    end(*each.second);
    return true;
  });
}

}  // namespace forklift::device::cuda::fake

namespace fake = forklift::device::cuda::fake;
using fake::enter;
using fake::events;
using fake::Lock;
using fake::Needs;
using fake::Patience;
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
  return enter("cuEventDestroy", Needs::kContext, [&](Lock&) { return events().destroy(event); });
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

FAKE_CUDA CudaError cuEventQuery(Event event) {
  return enter("cuEventQuery", Needs::kContext, [&](Lock& lock) {
    const auto state = events().find(event);
    if (state == nullptr) return CudaError::kInvalidHandle;
    if (!state->is_done() && fake::query_does_work(state->polls)) state->finish(lock, Patience::kTry);
    if (fake::poison() != CudaError::kSuccess) return fake::poison();
    return state->is_done() ? CudaError::kSuccess : CudaError::kNotReady;
  });
}

FAKE_CUDA CudaError cuEventSynchronize(Event event) {
  return enter("cuEventSynchronize", Needs::kContext, [&](Lock& lock) {
    const auto state = events().find(event);
    if (state == nullptr) return CudaError::kInvalidHandle;
    state->finish(lock, Patience::kWait);
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
