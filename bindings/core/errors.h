// Turns a Status of the core into a Python exception. Forklift's own classes are in forklift/errors.py; each
// kind of failure has one, so that a program can tell them apart.
#pragma once

#include <Python.h>

#include <utility>

#include "forklift/status.h"

namespace forklift::py {

// Raises a class of forklift.errors with a text. nullptr.
PyObject* raise_error(const char* name, const char* text);

// Sets the exception for a failed status and returns nullptr, for `return raise(status);`. For kInterrupted
// it keeps the exception that the signal handler has set. kTimeout becomes the built-in TimeoutError; queues
// do not pass it here, since they raise queue.Empty or queue.Full.
PyObject* raise(const Status& status);
// The same for functions that nanobind calls: throws nanobind::python_error if the status is a failure.
void require(const Status& status);
// Precondition: it is a failure.
[[noreturn]] void throw_failure(const Status& status);
template <class T>
T require(Result<T> result) {
  require(result.status());
  return *std::move(result);
}

// Takes the exception that is set out of the thread's state. New reference, or nullptr if there is none.
PyObject* take_exception() noexcept;
// Sets the exception again. Steals the reference.
void put_exception(PyObject* exception) noexcept;

// Puts the exception that is set aside during a scope whose code must run without one.
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

// Imports the module and gets its attribute. New reference, or nullptr with an exception set.
PyObject* import_attribute(const char* module, const char* name);

}  // namespace forklift::py
