#include "bindings/core/gil.h"

#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

#include "bindings/core/frames.h"

namespace forklift::py {

namespace {

// 1: this is the main thread, -1: it is another one, 0: not known yet. Only a fork changes this: the thread
// that calls it is the main thread of the child.
thread_local signed char main_thread = 0;

bool find_out() noexcept {
  static std::once_flag installed;
  std::call_once(installed, [] { ::pthread_atfork(nullptr, nullptr, [] { main_thread = 1; }); });
  main_thread = ::syscall(SYS_gettid) == ::getpid() ? 1 : -1;
  return main_thread > 0;
}

}  // namespace

bool on_main_thread() noexcept { return main_thread != 0 ? main_thread > 0 : find_out(); }

void GilRelease::acquire() {
  if (!state_) return;
  PyThreadState* state = state_;
  state_ = nullptr;
  try {
    PyEval_RestoreThread(state);
  } catch (...) {
    // A finalizing interpreter ends other threads by pthread_exit, whose unwinding must not pass these
    // frames.
    for (;;) ::pause();
  }
}

WithGil::WithGil() {
  try {
    state_ = PyGILState_Ensure();
  } catch (...) {
    for (;;) ::pause();  // as above
  }
}

bool interpreter_ends() noexcept {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

std::shared_ptr<const void> keep_object(PyObject* object) {
  return {static_cast<const void*>(Py_NewRef(object)), [](const void* kept) {
            if (!Py_IsInitialized() || interpreter_ends()) return;
            const WithGil locked;
            Py_DECREF(static_cast<PyObject*>(const_cast<void*>(kept)));
          }};
}

std::string PyHooks::call_site() {
  released_.acquire();
  std::string text;
  try {
    name_process_in_domain();
    text = own_frames();
  } catch (...) {
    // A frame without a name: the wait stays without its place.
  }
  released_.release();
  return text;
}

Status PyHooks::poll() {
  if (main_) {
    released_.acquire();
    const bool raised = PyErr_CheckSignals() != 0;
    released_.release();
    if (raised) return {Code::kInterrupted, "a signal handler raised an exception"};
  }
  if (orphan_fd >= 0) {
    pollfd parent{orphan_fd, POLLIN, 0};
    if (::poll(&parent, 1, 0) > 0) return {Code::kPeerDied, "the parent process is gone"};
  }
  return {};
}

}  // namespace forklift::py
