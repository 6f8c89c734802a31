// Events: points in streams, of this process or, through a shared page, of another one.
//
// "cuStreamWaitEvent() uses the most recently captured state at the time of the API call, and is not affected by later
// calls to cuEventRecord()": a record is an object of its own, and what waits keeps it.
//
// Guarded by process_mutex().
#pragma once

#include <chrono>
#include <map>
#include <memory>

#include "engine.h"
#include "entry.h"
#include "event_page.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

// What an event captured in this process.
struct Record {
  Point point;
  bool done = false;
  std::chrono::steady_clock::time_point at;
};

struct EventState : std::enable_shared_from_this<EventState> {
  enum class Listener {
    kNone,
    kWaits,
    kWorks
  };

  DeviceNumber device = 0;
  unsigned flags = 0;
  std::shared_ptr<Record> record;   // null: not recorded in this process
  std::shared_ptr<EventPage> page;  // of an interprocess event
  std::uint32_t page_number = 0;    // of `record` in the page
  Listener listener = Listener::kNone;
  bool ending = false;
  unsigned polls = 0;

  void record_in(const std::shared_ptr<StreamState>& stream);
  bool is_done() const;
  // True when what the event captures now is done.
  bool finish(Lock& lock, Waiting waiting);
  // Work that only waits for what the event captures now.
  Work wait() const;
  // In lazy mode: a thread that does the work of this process's records when another process asks for it.
  void start_listener();

 private:
  bool is_remote() const;  // was the last record made by another process?
};

class Events {
 public:
  Event add(std::shared_ptr<EventState> state);
  std::shared_ptr<EventState> find(Event event);
  CudaError destroy(Event event, Lock& lock);
  void end_context(DeviceNumber device, Lock& lock);
  long live() const { return static_cast<long>(events_.size()); }

 private:
  static void end(EventState& state, Lock& lock);

  std::map<Event, std::shared_ptr<EventState>> events_;
  std::uintptr_t next_ = 0xE7E0'0000;
};

Events& events();

}  // namespace forklift::inline abi_0_1::device::cuda::fake
