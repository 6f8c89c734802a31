// The interpreter lock around calls into the core.
//
//   GilRelease released;                     // from here on other Python threads run
//   PyHooks hooks(released);                 // signal handlers run while the core waits
//   Status status = channel->put(message, deadline, &hooks);
//   released.acquire();                      // before anything of Python is touched
//
// No core lock is held while a PyHooks polls, so Python code may run there.
//
// nanobind's own gil_scoped_release must not be used: when the interpreter ends, a thread that waits for the
// lock is unwound, and its destructor, which is noexcept, would end the program (tools/check_layers.py).
#pragma once

#include <Python.h>

#include "channel/channel.h"

namespace forklift::py {

class GilRelease {
 public:
  GilRelease() noexcept : state_(PyEval_SaveThread()) {}
  ~GilRelease() noexcept(false) { acquire(); }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

  // Both may be called repeatedly. A thread that asks for the lock of an interpreter that is gone sleeps for
  // ever: older Pythons would end it by unwinding through our frames.
  void acquire();
  void release() noexcept {
    if (!state_) state_ = PyEval_SaveThread();
  }

 private:
  PyThreadState* state_;
};

// The interpreter lock, in whichever thread.
class WithGil {
 public:
  WithGil();
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

// Is the interpreter on its way out, so that its lock may never come?
bool interpreter_ends() noexcept;

// Is this the thread in which Python runs signal handlers?
bool on_main_thread() noexcept;

// Runs signal handlers in the main thread: at once when a signal interrupts a sleep there, and at the end of
// each slice for one that came just before the sleep began. A handler that raises ends the wait with
// kInterrupted, its exception being set.
class PyHooks final : public channel::WaitHooks {
 public:
  explicit PyHooks(GilRelease& released) noexcept : released_(released), main_(on_main_thread()) {}
  Status poll() override;
  // Readable once the parent is gone: ends a wait with kPeerDied. -1: none.
  int orphan_fd = -1;

 private:
  GilRelease& released_;
  bool main_;
};

}  // namespace forklift::py
