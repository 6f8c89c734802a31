#include "bindings/guard/guard.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <string>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "guard/blocked.h"
#include "guard/guards.h"
#include "guard/libraries.h"
#include "guard/rest.h"
#include "guard/stacks.h"
#include "guard/threads.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

// What is called before each os.fork() of this process; nullptr: nothing. It is never freed.
PyObject* fork_watcher = nullptr;

// Python calls it for each of its audit events, thousands while modules are imported. Of os.fork it is called
// before anything else happens, and a failure here prevents the fork (decisions/0181).
int on_audit_event(const char* event, PyObject*, void*) {
  const bool forks = std::strcmp(event, "os.fork") == 0 || std::strcmp(event, "os.forkpty") == 0;
  if (!forks || !fork_watcher) return 0;
  PyObject* const result = PyObject_CallNoArgs(fork_watcher);
  if (!result) return -1;
  Py_DECREF(result);
  return 0;
}

void watch_forks(const nb::object& function) {
  static bool installed = false;
  if (!installed && PySys_AddAuditHook(on_audit_event, nullptr) != 0) throw nb::python_error();
  installed = true;
  Py_XSETREF(fork_watcher, function.is_none() ? nullptr : nb::object(function).release().ptr());
}

// With the interpreter's lock, so that no Python thread begins another call; signals are handled meanwhile.
void prepare_fork() {
  const Status status = guard::prepare_fork([] { return PyErr_CheckSignals() != 0; });
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  require(status);
}

nb::list examine() {
  // The interpreter's lock is held: Python's guards call back, and no Python thread may change its state now.
  nb::list findings;
  for (const guard::Finding& each : guard::examine()) {
    const std::string_view verdict = verdict_name(each.verdict);
    findings.append(nb::make_tuple(each.library, each.version, each.state, nb::cast(each.threads), verdict,
                                   each.evidence, each.reference, each.remedy));
  }
  return findings;
}

nb::dict owners_of_threads() {
  nb::dict owners;
  for (const guard::Thread& each : guard::other_threads(*guard::mapped_libraries())) {
    owners[nb::int_(each.id)] = nb::make_tuple(each.name, each.owner);
  }
  return owners;
}

nb::tuple blocked_threads(int process) {
  const Result<guard::Blocked> blocked = [&] {
    const GilRelease released;
    return guard::blocked_threads(process);
  }();
  require(blocked.status());
  nb::list threads;
  for (const guard::BlockedThread& each : blocked->threads) {
    threads.append(nb::make_tuple(each.id, each.name, std::string(1, each.state), each.waits));
  }
  return nb::make_tuple(blocked->deadlocked(), blocked->waits_for_itself(), blocked->cpu_ticks, threads);
}

int arm_stacks(int file) {
  const Result<guard::StackSignal> armed = guard::StackSignal::arm(file);
  require(armed.status());
  return armed->number();
}

}  // namespace

void bind_guard(nb::module_& module) {
  nb::module_ part = module.def_submodule("_guard");
  part.def("examine", examine);
  part.def("needs_examination", guard::needs_examination);
  part.def("rest_at_forks", guard::rest_at_forks);
  part.def("prepare_fork", prepare_fork);
  part.def("watch_forks", watch_forks, nb::arg("function").none());
  part.def("owners_of_threads", owners_of_threads);
  part.def("blocked_threads", blocked_threads, nb::arg("process"));
  part.def("arm_stacks", arm_stacks, nb::arg("file"));
  part.def("disarm_stacks", [](int number) { ::signal(number, SIG_DFL); }, nb::arg("number"));
  part.def("unused_signal", guard::unused_signal, nb::arg("below"));
  part.def(
      "request_stack",
      [](int process, int thread, int number) { require(guard::request_stack(process, thread, number)); },
      nb::arg("process"), nb::arg("thread"), nb::arg("number"));
  part.attr("END_OF_STACK") = nb::str(guard::kEndOfStack.data(), guard::kEndOfStack.size());
}

}  // namespace forklift::py
