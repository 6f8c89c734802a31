#include "bindings/process/group.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "os/thread.h"
#include "process/child.h"
#include "process/group.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

using Members = std::vector<std::size_t>;

// Each call works on a copy of the group, since another thread may be in one meanwhile; the interpreter lock
// guards the group itself.
class ProcessGroup {
 public:
  ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  void add(pid_t pid) {
    processes_.push_back(require(process::Child::watch(pid)));
    group_.add(processes_.back().sentinel());
  }

  Members wait(std::optional<double> timeout) {
    if (group_.running().empty()) return {};
    const os::Deadline deadline = timeout ? os::Deadline::after_seconds(*timeout) : os::Deadline::never();
    process::Group copy = group_;
    Members ended;
    const Status status = without_lock([&](PyHooks* hooks) { return copy.wait(deadline, {}, hooks, ended); });
    if (status.code() == Code::kTimeout) return {};
    require(status);
    return told_first(ended);
  }

  std::map<std::size_t, int> stop(double patience, double grace) {
    const process::Group::Ending how{nanoseconds(patience), nanoseconds(grace)};
    process::Group copy = group_;
    Members ended;
    const Status status = without_lock([&](PyHooks* hooks) {
      return copy.stop(how, hooks, [&](std::size_t member) { ended.push_back(member); });
    });
    std::map<std::size_t, int> sent;
    for (const std::size_t member : told_first(ended)) sent[member] = copy.signal_sent(member);
    require(status);
    return sent;
  }

 private:
  template <class Call>
  static Status without_lock(Call&& call) {
    GilRelease released;
    PyHooks hooks(released);
    Status status = call(&hooks);
    released.acquire();
    return status;
  }

  static std::int64_t nanoseconds(double seconds) {
    return os::Deadline::after_seconds(seconds).left_ns(std::int64_t{1} << 60);
  }

  // Those that no other thread has been told meanwhile.
  Members told_first(Members ended) {
    const Members& running = group_.running();
    std::erase_if(ended, [&](std::size_t member) {
      return std::find(running.begin(), running.end(), member) == running.end();
    });
    group_.forget(ended);
    return ended;
  }

  std::vector<process::Child> processes_;
  process::Group group_;
};

}  // namespace

void bind_process_group(nb::module_& module) {
  nb::class_<ProcessGroup>(module, "ProcessGroup")
      .def(nb::init<>())
      .def("add", &ProcessGroup::add, nb::arg("pid"))
      .def("wait", &ProcessGroup::wait, nb::arg("timeout").none())
      .def("stop", &ProcessGroup::stop, nb::arg("patience"), nb::arg("grace"));
  module.def(
      "set_thread_name", [](const std::string& name) { require(os::set_thread_name(name)); },
      nb::arg("name"));
  module.def("thread_name", [] {
    const std::string name = require(os::thread_name());
    return nb::steal<nb::str>(
        PyUnicode_DecodeFSDefaultAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
  });
  module.def(
      "set_parent_death_signal",
      [](int signal) {
        if (::prctl(PR_SET_PDEATHSIG, signal) != 0)
          require(Status::system("prctl", errno, "PR_SET_PDEATHSIG"));
      },
      nb::arg("signal"));
}

}  // namespace forklift::py
