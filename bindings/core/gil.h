// Releases the interpreter lock around calls into the core, and takes it again.
//
//   GilRelease released;                     // from here on other Python threads run
//   PyHooks hooks(released);                 // signal handlers run while the core waits
//   Status status = channel->put(message, deadline, &hooks);
//   released.acquire();                      // before any Python object is used
//
// The core holds none of its locks while it calls PyHooks::poll(), so Python code may run there.
//
// nanobind's own gil_scoped_release must not be used (tools/check_layers.py checks that): when the
// interpreter ends, it unwinds the threads that wait for its lock, and the noexcept destructor of
// gil_scoped_release would terminate the program.
#pragma once

#include <Python.h>

#include <memory>

#include "channel/channel.h"

namespace forklift::py {

class GilRelease {
 public:
  GilRelease() noexcept : state_(PyEval_SaveThread()) {}
  ~GilRelease() noexcept(false) { acquire(); }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

  // acquire() and release() may be called repeatedly. A thread that calls acquire() after the interpreter has
  // ended sleeps for ever: older Pythons would end the thread by unwinding through the caller's frames.
  void acquire();
  void release() noexcept {
    if (!state_) state_ = PyEval_SaveThread();
  }

 private:
  PyThreadState* state_;
};

// Holds the interpreter lock in any thread, also one that Python did not start.
class WithGil {
 public:
  WithGil();
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

// True when the interpreter is being finalized: a thread that then waits for its lock may wait for ever.
bool interpreter_ends() noexcept;

// Keeps an object for as long as C++ uses its memory. The last reference may go in any thread; while the interpreter ends, the
// object stays.
std::shared_ptr<const void> keep_object(PyObject* object);

// True in the thread in which Python runs signal handlers.
bool on_main_thread() noexcept;

// Runs Python's signal handlers while the main thread waits: at once when a signal interrupts a sleep, and at
// the end of the slice when the signal came just before the sleep began (decisions/0028). If a handler
// raises, the wait ends with kInterrupted and the exception is set.
class PyHooks final : public channel::WaitHooks {
 public:
  explicit PyHooks(GilRelease& released) noexcept : released_(released), main_(on_main_thread()) {}
  Status poll() override;
  std::string call_site() override;
  // A descriptor that becomes readable when the parent process is gone; the wait then ends with kPeerDied.
  // -1: none.
  int orphan_fd = -1;

 private:
  GilRelease& released_;
  bool main_;
};

}  // namespace forklift::py
