// Traces of tasks: a task carries the context of the span in which it was submitted, and the worker makes a span for it.
//
//   std::string context = task_context();                       // in the thread that submits; empty: nothing to carry
//   TaskSpan span(context, {"Pool 1 of process 12", 3}, function, items);
//   PyObject* result = ...;
//   span.end();                                                 // with the exception that is set, if there is one
//
// What a context is, only forklift.telemetry knows (OpenTelemetry's propagators make it and read it). Where the program
// does not ask for traces, a submission costs the look at one pointer, and a task the look at its head.
//
// All functions must be called with the interpreter lock held.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace forklift::py {

// Which worker performs a task.
struct WorkerIdentity {
  std::string pool;
  std::uint32_t index = 0;
};

// The context of this thread as a task carries it. Empty: the program does not ask for traces. A failure is reported
// as unraisable: it is none of the task's.
std::string task_context();

class TaskSpan {
 public:
  TaskSpan(std::string_view context, const WorkerIdentity& worker, PyObject* function, std::uint64_t items);
  ~TaskSpan() { Py_XDECREF(span_); }
  TaskSpan(const TaskSpan&) = delete;
  TaskSpan& operator=(const TaskSpan&) = delete;
  void end();

 private:
  PyObject* span_ = nullptr;  // owned
};

void bind_task_spans(nanobind::module_& module);

}  // namespace forklift::py
