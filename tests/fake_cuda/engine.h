// Streams: queues of work, and what makes the work happen.
//
//   auto stream = engine().find(handle);                   // null: there is no such stream
//   engine().submit(stream, {.run = [](Lock&) { ...; return CudaError::kSuccess; }});
//   engine().finish(stream, stream->queued, lock, Waiting::kYes);      // a synchronisation
//
// Work of a stream is done in order, by a thread of the stream some time after it was queued, or, with
// FORKLIFT_FAKE_CUDA_LAZY, by the thread that synchronises and by no other; so a missing synchronisation shows.
// Work waits for what it depends on: other streams up to a point, and events of other processes. The legacy stream
// (null) waits for all blocking streams of its context, and they for it, as in "Stream synchronization behavior" of
// the driver's documentation.
//
// Work that fails poisons the context; all later work is dropped then, and counts as done.
//
// Guarded by process_mutex(), which is given up while a kernel runs and while anything is waited for. Threads and
// streams are never destroyed at the end of the process: a stream's thread may still run then.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "entry.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

class EventPage;  // event_page.h
struct StreamState;

// A stream's work up to the `number`th.
struct Point {
  std::shared_ptr<StreamState> stream;
  std::uint64_t number = 0;
};

// A record of an event that another process makes.
struct RemotePoint {
  std::shared_ptr<EventPage> page;
  std::uint32_t number = 0;
};

struct Work {
  std::function<CudaError(Lock&)> run = {};  // empty: only its dependencies matter
  std::vector<Point> after = {};
  std::vector<RemotePoint> after_remote = {};
};

struct StreamState {
  DeviceNumber device = 0;
  bool blocking = true;
  bool legacy = false;
  bool ending = false;  // destroyed, or its context is
  bool running = false;
  bool has_thread = false;
  unsigned polls = 0;
  std::uint64_t queued = 0;
  std::uint64_t done = 0;
  std::deque<Work> queue;
  std::chrono::steady_clock::time_point due;  // when its thread may begin
};

enum class Waiting {
  kYes,
  kNo  // do what can be done without it
};

class Engine {
 public:
  // Of the current context, where the handle is one of the default streams.
  std::shared_ptr<StreamState> find(Stream handle);
  Stream create(DeviceNumber device, bool blocking);
  CudaError destroy(Stream handle);
  // A stream without a handle, whose work comes after all that the context's streams have queued.
  std::shared_ptr<StreamState> after_all(DeviceNumber device);

  // Queues the work behind what its stream has to wait for; returns its number.
  std::uint64_t submit(const std::shared_ptr<StreamState>& stream, Work work);
  // Brings the stream's work to its number: true when it is done.
  bool finish(const std::shared_ptr<StreamState>& stream, std::uint64_t number, Lock& lock, Waiting waiting);
  // All that a synchronisation with the stream waits for.
  bool finish_all(const std::shared_ptr<StreamState>& stream, Lock& lock, Waiting waiting);
  // Is nothing left of what a synchronisation with the stream waits for?
  bool is_idle(const StreamState& stream);
  void finish_context(DeviceNumber device, Lock& lock);
  void end_context(DeviceNumber device, Lock& lock);
  // Waits until no kernel is running.
  void wait_for_kernels(Lock& lock);

  // Runs `body` without the lock.
  CudaError run_unlocked(Lock& lock, const std::function<CudaError()>& body);

  long streams() const { return static_cast<long>(streams_.size()); }
  long pending() const;

 private:
  bool finish_dependencies(const StreamState& stream, Lock& lock, Waiting waiting, bool* waited);
  std::vector<std::shared_ptr<StreamState>> of_context(DeviceNumber device);
  const std::shared_ptr<StreamState>& add(DeviceNumber device, bool blocking, bool legacy);
  void start_thread(const std::shared_ptr<StreamState>& stream);
  void run_thread(const std::shared_ptr<StreamState>& stream);

  std::condition_variable changed_;
  std::map<Stream, std::shared_ptr<StreamState>> streams_;       // by handle
  std::map<DeviceNumber, std::shared_ptr<StreamState>> legacy_;  // the default streams
  std::vector<std::shared_ptr<StreamState>> all_;                // also destroyed ones that have work
  std::uintptr_t next_ = 0x5EA0'0000;
  int kernels_ = 0;
};

Engine& engine();

// Whether a query is to do the work, in lazy mode; counts it.
bool query_does_work(unsigned& polls);

}  // namespace forklift::inline abi_0_1::device::cuda::fake
