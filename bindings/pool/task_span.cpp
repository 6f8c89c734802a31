#include "bindings/pool/task_span.h"

#include <limits>
#include <utility>

#include "bindings/core/errors.h"

namespace nb = nanobind;

namespace forklift::py {
namespace {

// Makes the context as bytes; nullptr until forklift.use_opentelemetry() is called.
PyObject* make_context = nullptr;  // NOLINT: one for the process

constexpr std::size_t kMostBytes = std::numeric_limits<std::uint16_t>::max();

}  // namespace

std::string task_context() {
  if (make_context == nullptr) return {};
  const nb::object made = nb::steal(PyObject_CallNoArgs(make_context));
  char* bytes = nullptr;
  Py_ssize_t size = 0;
  if (!made.is_valid() || PyBytes_AsStringAndSize(made.ptr(), &bytes, &size) != 0) {
    PyErr_WriteUnraisable(make_context);
    return {};
  }
  // A task's head has two bytes for its length. (Contexts have some hundred bytes.)
  if (static_cast<std::size_t>(size) > kMostBytes) return {};
  return {bytes, static_cast<std::size_t>(size)};
}

TaskSpan::TaskSpan(std::string_view context, const WorkerIdentity& worker, PyObject* function,
                   std::uint64_t items) {
  if (context.empty()) return;
  static PyObject* const begin = import_attribute("forklift.telemetry", "begin_span");
  const nb::object carried =
      nb::steal(PyBytes_FromStringAndSize(context.data(), static_cast<Py_ssize_t>(context.size())));
  span_ = begin && carried.is_valid()
              ? PyObject_CallFunction(begin, "OsIOK", carried.ptr(), worker.pool.c_str(), worker.index,
                                      function, static_cast<unsigned long long>(items))
              : nullptr;
  if (!span_) PyErr_WriteUnraisable(function);
}

void TaskSpan::end() {
  if (!span_) return;
  PyObject* const exception = PyErr_Occurred() ? take_exception() : nullptr;
  PyObject* const done = PyObject_CallMethod(span_, "end", "O", exception ? exception : Py_None);
  if (!done) PyErr_WriteUnraisable(span_);
  Py_XDECREF(done);
  if (exception) put_exception(exception);
}

void bind_task_spans(nb::module_& module) {
  module.def(
      "carry_task_context",
      [](nb::object make) {
        PyObject* const before = std::exchange(make_context, make.is_none() ? nullptr : make.release().ptr());
        Py_XDECREF(before);
      },
      nb::arg("make").none());
}

}  // namespace forklift::py
