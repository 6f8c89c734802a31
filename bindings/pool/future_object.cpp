#include "bindings/pool/future_object.h"

namespace nb = nanobind;

namespace forklift::py {

const FutureNames& future_names() {
  static const FutureNames all;
  return all;
}

void tell(nb::handle future, PyObject* method, PyObject* argument) {
  const nb::object done = nb::steal(argument ? PyObject_CallMethodOneArg(future.ptr(), method, argument)
                                             : PyObject_CallMethodNoArgs(future.ptr(), method));
  if (!done.is_valid()) PyErr_WriteUnraisable(future.ptr());
}

bool is_watched(nb::handle future) {
  const nb::object members = nb::steal(PyObject_GenericGetDict(future.ptr(), nullptr));
  if (!members.is_valid()) throw nb::python_error();
  return PyDict_Contains(members.ptr(), future_names().condition) == 1;
}

void deliver(nb::handle future, bool ok, nb::handle value) {
  const FutureNames& name = future_names();
  const nb::object members = nb::steal(PyObject_GenericGetDict(future.ptr(), nullptr));
  if (!members.is_valid()) {
    PyErr_WriteUnraisable(future.ptr());
    return;
  }
  PyObject* const dict = members.ptr();
  // The owner lives on: settle() and submit() are its methods.
  if (PyDict_DelItem(dict, name.owner) != 0) PyErr_Clear();
  if (PyDict_Contains(dict, name.condition) == 0) {
    // No Python code can run between these: the keys are strings, and no value is replaced.
    if (PyDict_SetItem(dict, ok ? name.result : name.exception, value.ptr()) == 0 &&
        PyDict_SetItem(dict, name.state, name.finished) == 0)
      return;
    PyErr_WriteUnraisable(future.ptr());
    return;
  }
  tell(future, ok ? name.set_result : name.set_exception, value.ptr());
}

}  // namespace forklift::py
