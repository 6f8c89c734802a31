// A Status of the core as a Python exception. Classes live in forklift/errors.py; each kind of failure has
// one, so that a program can tell them apart.
#pragma once

#include <Python.h>

#include <utility>

#include "forklift/status.h"

namespace forklift::py {

// Sets the exception for a failed status and returns nullptr, for `return raise(status);`. kInterrupted keeps
// the exception that is set already. kTimeout is the built-in TimeoutError: queues raise their own instead.
PyObject* raise(const Status& status);
// The same where nanobind calls us: it throws the exception that was set.
void require(const Status& status);
template <class T>
T require(Result<T> result) {
  require(result.status());
  return *std::move(result);
}

// The exception that is set, taken out of the thread's state: new reference, or nullptr if there is none.
PyObject* take_exception() noexcept;
// Sets it again; steals the reference.
void put_exception(PyObject* exception) noexcept;

// Puts the set exception aside for as long as it lives, for code that must run without one.
class KeepError {
 public:
  KeepError() noexcept : exception_(take_exception()) {}
  ~KeepError() {
    if (exception_) put_exception(exception_);
  }
  KeepError(const KeepError&) = delete;
  KeepError& operator=(const KeepError&) = delete;

 private:
  PyObject* exception_;
};

// An attribute of an importable module, or nullptr with an exception set. The caller owns the reference.
PyObject* import_attribute(const char* module, const char* name);

}  // namespace forklift::py
