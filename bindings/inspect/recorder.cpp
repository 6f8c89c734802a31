// Recording what a program does, and its own ranges and counters.
#include "inspect/recorder.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/inspect/inspect.h"
#include "forklift/trace.h"
#include "node/node.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

using inspect::Access;
using inspect::View;

// Of all domains of one process. In a forked child it does nothing: what it records is its parent's.
class Recorder {
 public:
  Recorder(const std::vector<View>& views, std::uint64_t categories, std::uint64_t most) {
    for (const View& view : views) {
      Result<inspect::Recorder> recorder = inspect::Recorder::start(view, categories, most);
      require(recorder.status());
      recorders_.push_back(std::make_unique<inspect::Recorder>(*std::move(recorder)));
    }
  }
  ~Recorder() {
    if (is_here()) return;
    for (auto& each : recorders_) (void)each.release();  // NOLINT: the parent's, whose switch it would turn
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void collect() {
    const GilRelease released;
    if (!is_here()) return;
    for (auto& each : recorders_) each->collect();
  }

  std::uint64_t events() const {
    std::uint64_t sum = 0;
    for (const auto& each : recorders_) sum += each->events();
    return sum;
  }

  nb::list stop() {
    std::vector<inspect::Recording> recordings;
    if (is_here()) {
      const GilRelease released;
      for (auto& each : recorders_) recordings.push_back(each->stop());
      recorders_.clear();
    }
    nb::list all;
    for (inspect::Recording& each : recordings) all.append(nb::cast(std::move(each)));
    return all;
  }

 private:
  bool is_here() const noexcept { return ::getpid() == pid_; }

  const pid_t pid_ = ::getpid();
  std::vector<std::unique_ptr<inspect::Recorder>> recorders_;
};

std::vector<View> views_to_record(std::optional<pid_t> pid) {
  if (pid) {
    Result<std::vector<View>> views = inspect::views_of(*pid, Access::kWrite);
    require(views.status());
    return *std::move(views);
  }
  std::vector<View> views;
  node::Node::for_each([&](node::Node& node) { views.emplace_back(node.domain()); });
  return views;
}

// with TraceRange("step"): from its beginning to its end.
class TraceRange {
 public:
  explicit TraceRange(std::string name) : name_(std::move(name)) {}
  void enter() { range_.emplace(name_); }
  void leave() { range_.reset(); }

 private:
  std::string name_;
  std::optional<trace::Range> range_;
};

}  // namespace

void bind_recorder(nb::module_& module) {
  nb::class_<Recorder>(module, "Recorder")
      .def_static(
          "of_process",
          [](std::optional<pid_t> pid, std::uint64_t categories, std::uint64_t most) {
            return new Recorder(views_to_record(pid), categories, most);
          },
          nb::arg("pid").none(), nb::arg("categories"), nb::arg("most"), nb::rv_policy::take_ownership)
      .def_static(
          "of_descriptor",
          [](int descriptor, std::uint64_t categories, std::uint64_t most) {
            const os::Fd control(::dup(descriptor));
            Result<View> view = inspect::view_of(control, "the program", Access::kWrite);
            require(view.status());
            return new Recorder(std::vector<View>{*std::move(view)}, categories, most);
          },
          nb::arg("descriptor"), nb::arg("categories"), nb::arg("most"), nb::rv_policy::take_ownership)
      .def("collect", &Recorder::collect)
      .def("stop", &Recorder::stop)
      .def_prop_ro("events", &Recorder::events);
  nb::class_<TraceRange>(module, "TraceRange")
      .def(nb::init<std::string>(), nb::arg("name"))
      .def("__enter__", &TraceRange::enter)
      .def("__exit__", [](TraceRange& self, const nb::args&) { self.leave(); });
  module.def("trace_counter", [](const std::string& name, double value) { trace::counter(name, value); });
  module.def("trace_is_on", [] { return trace::is_on(); });
}

}  // namespace forklift::py
