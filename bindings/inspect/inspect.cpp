#include "bindings/inspect/inspect.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/core/frames.h"
#include "bindings/core/gil.h"
#include "bindings/inspect/fields.h"
#include "domain/wait_records.h"
#include "inspect/diagnosis.h"
#include "node/node.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

using inspect::Diagnosis;

nb::dict as_dict(const Diagnosis& report) {
  nb::list findings, waits, processes;
  for (const inspect::Finding& each : report.findings) {
    findings.append(nb::dict(Fields()("cause", inspect::name_of(each.cause))("text", each.text)(
        "advice", each.advice)("processes", each.processes)));
  }
  for (const inspect::WaitLine& each : report.waits) {
    waits.append(nb::dict(Fields()("process", each.process)("thread", each.thread)("who", each.who)(
        "what", each.what)("seconds", each.seconds)("seconds_left", each.seconds_left)("stuck", each.stuck)(
        "call_site", each.call_site)("enders", each.enders)));
  }
  for (const inspect::ProcessLine& each : report.processes) {
    processes.append(nb::dict(Fields()("process", each.pid)("parent", each.parent)("name", each.name)(
        "state", each.state)("service", each.service)));
  }
  return Fields()("domain", report.domain)("findings", findings)("waits", waits)("processes", processes)(
      "text", report.text());
}

// Of each domain that the process is in; None: of those that this one is in.
nb::list reports(std::optional<pid_t> pid) {
  Result<std::vector<Diagnosis>> found = [&]() -> Result<std::vector<Diagnosis>> {
    const GilRelease released;
    if (pid) return inspect::diagnose(*pid);
    std::vector<Diagnosis> own;
    node::Node::for_each(
        [&](node::Node& node) { own.push_back(inspect::diagnose(inspect::View(node.domain()))); });
    return own;
  }();
  require(found.status());
  nb::list all;
  for (const Diagnosis& report : *found) all.append(as_dict(report));
  return all;
}

// with ProcessWait(pid, timeout): this thread waits for the end of that process.
class ProcessWait {
 public:
  ProcessWait(pid_t pid, std::optional<double> timeout) : pid_(pid), timeout_(timeout) {}
  void enter() {
    node::Node* const node = node::Node::existing();
    if (node == nullptr) return;
    record_.emplace(node->domain(), pid_,
                    timeout_ ? os::Deadline::after_seconds(*timeout_) : os::Deadline::never());
    name_process_in_domain();
    record_->describe(own_frames());
  }
  void leave() { record_.reset(); }

 private:
  pid_t pid_;
  std::optional<double> timeout_;
  std::optional<domain::WaitRecord> record_;
};

}  // namespace

std::string prospects_of(const inspect::Target& target) noexcept {
  node::Node* const node = node::Node::existing();
  if (!explains() || node == nullptr) return {};
  try {
    return inspect::prospects(node->domain(), target);
  } catch (...) {
    return {};  // no memory: the error goes without its note
  }
}

void note_on(nb::handle error, const std::string& prospects) {
  if (prospects.empty()) return;
  try {
    const nb::object notes =
        nb::hasattr(error, "__notes__") ? error.attr("__notes__") : nb::object(nb::list());
    notes.attr("append")("forklift: " + prospects);
    error.attr("__notes__") = notes;
  } catch (...) {
    PyErr_Clear();  // the error goes without its note
  }
}

void note_prospects(const Status& status, const inspect::Target& target) {
  if (status.code() != Code::kTimeout || !explains()) return;
  PyObject* const exception = take_exception();
  if (exception == nullptr) return;
  note_on(exception, prospects_of(target));
  put_exception(exception);
}

void bind_inspection(nb::module_& module) {
  const auto file = nb::cast<std::string>(module.attr("__file__"));
  install_frames(file.substr(0, file.rfind('/') + 1));
  module.def("reports", &reports, nb::arg("pid").none());
  module.def("name_process", [](const std::string& name) {
    if (node::Node* const node = node::Node::existing()) node->domain().name_self(name);
  });
  nb::class_<ProcessWait>(module, "ProcessWait")
      .def(nb::init<pid_t, std::optional<double>>(), nb::arg("pid"), nb::arg("timeout").none())
      .def("__enter__", &ProcessWait::enter)
      .def("__exit__", [](ProcessWait& self, const nb::args&) { self.leave(); });
}

}  // namespace forklift::py
