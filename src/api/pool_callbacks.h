// A pool's callbacks: what Future::then() was given, called in one thread of the pool's own, one after the
// other, in the order in which their tasks ended.
//
//   throw_if_failed(callbacks.start());                       // before anything can be added
//   engine.after(job, [&] { callbacks.add(call); });
//   callbacks.finish();                             // when nothing is added any more
//
// A thread of its own, since what a callback does is the user's: it may take its time, wait for a lock that
// holds up somebody who waits for the pool, or for the pool itself. Whoever takes in answers, or minds the
// workers, must not be kept by it.
//
// Thread safety: yes. Fork: a child drops it without touching it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "forklift/status.h"
#include "os/clock.h"

namespace forklift::inline abi_0_1::detail {

class Callbacks {
 public:
  Callbacks() = default;
  ~Callbacks() { finish(); }
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  // The thread, if there is none yet.
  Status start();
  // Leaves it to the thread; after finish() the caller's own thread calls.
  void add(std::function<void()> call);
  // Until all that was added has returned; false: the time is over, or a stop was requested. True at once
  // in a callback.
  bool wait(os::Deadline deadline, const std::stop_token& stop);
  // Until then, and the thread ends. Not in a callback.
  void finish();
  bool is_here() const noexcept { return thread_.get_id() == std::this_thread::get_id(); }

 private:
  void run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable added_;
  std::condition_variable_any emptied_;
  std::deque<std::function<void()>> calls_;  // the first one is being called
  bool started_ = false;
  bool finished_ = false;
  std::thread thread_;
};

}  // namespace forklift::inline abi_0_1::detail
