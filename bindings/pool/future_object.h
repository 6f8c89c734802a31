// A future of an executor, forklift.multiprocessing._executor.future.Future, as the core sees it.
//
// A future makes its condition when somebody waits for it or watches it. Without one, nobody can be looking at it but
// under the interpreter lock, and its outcome is two stores into its dictionary.
//
// All functions must be called with the interpreter lock held.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

// The names of its members and methods.
struct FutureNames {
  PyObject* condition = PyUnicode_InternFromString("_condition");
  PyObject* state = PyUnicode_InternFromString("_state");
  PyObject* result = PyUnicode_InternFromString("_result");
  PyObject* exception = PyUnicode_InternFromString("_exception");
  PyObject* finished = PyUnicode_InternFromString("FINISHED");
  PyObject* owner = PyUnicode_InternFromString("_owner");
  PyObject* sending = PyUnicode_InternFromString("_sending");
  PyObject* place = PyUnicode_InternFromString("_place");
  PyObject* set_result = PyUnicode_InternFromString("set_result");
  PyObject* set_exception = PyUnicode_InternFromString("set_exception");
  PyObject* note_cancelled = PyUnicode_InternFromString("set_running_or_notify_cancel");
};
const FutureNames& future_names();

// Calls a method of the future. Exceptions of callbacks have been logged; what is left cannot reach the program in any
// other way than as unraisable.
void tell(nanobind::handle future, PyObject* method, PyObject* argument);

// Has somebody made the condition with which futures are waited for and watched?
bool is_watched(nanobind::handle future);

// Gives an outcome to the future, which then refers to its executor no more.
void deliver(nanobind::handle future, bool ok, nanobind::handle value);

}  // namespace forklift::py
