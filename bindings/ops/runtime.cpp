#include "bindings/ops/runtime.h"

#include <Python.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "device/cuda/gpu.h"
#include "device/device.h"
#include "guard/rest.h"
#include "kernels/loops.h"
#include "node/node.h"
#include "runtime/executor.h"

namespace nb = nanobind;

namespace forklift::py {
namespace {

using runtime::Executor;

// False with an exception set: no fork.
bool ready_to_fork() {
  const Executor* const executor = Executor::existing();
  if (executor == nullptr || executor->in_flight() == 0) return true;
  GilRelease released;
  const Status status = Executor::prepare_fork();
  released.acquire();
  if (status) return true;
  raise(status);
  return false;
}

// os.fork() raises what an audit hook raises, and does not fork. Handlers of os.register_at_fork could not refuse.
int before_fork(const char* event, PyObject*, void*) {
  if (std::strcmp(event, "os.fork") != 0 && std::strcmp(event, "os.forkpty") != 0) return 0;
  return ready_to_fork() ? 0 : -1;
}

std::chrono::nanoseconds seconds(double value) {
  if (!(value >= 0)) throw nb::value_error("a time-out is a number of seconds, at least 0");
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(value, 1e9) * 1e9));
}

device::cuda::Gpu& gpu_of(const std::string& name) {
  const std::shared_ptr<device::Device> device = require(device::open(name));
  if (device == nullptr || device->gpu() == nullptr) throw nb::value_error((name + " is no GPU").c_str());
  return *device->gpu();  // the registry keeps it
}

}  // namespace

void watch_forks() {
  static bool watched = false;
  if (watched || Executor::existing() == nullptr) return;
  watched = true;
  if (PySys_AddAuditHook(before_fork, nullptr) != 0) throw nb::python_error();
}

void bind_runtime(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("_runtime", "The threads that compute; see forklift.context.");
  module.def("threads", [] { return Executor::instance().threads(); });
  module.def("set_threads", [](std::size_t count) {
    const GilRelease released;
    Executor::instance().set_threads(count);
  });
  module.def("in_flight",
             [] { return Executor::existing() != nullptr ? Executor::existing()->in_flight() : 0; });
  module.def("synchronize", [](double timeout) {
    Executor* const executor = Executor::existing();
    if (executor == nullptr) return;
    GilRelease released;
    const Status status = executor->drain(seconds(timeout));
    released.acquire();
    require(status);
  });
  module.def("fork_timeout", [] { return std::chrono::duration<double>(guard::fork_timeout()).count(); });
  module.def("set_fork_timeout", [](double timeout) { guard::set_fork_timeout(seconds(timeout)); });
  module.def("prepare_fork", [] {
    if (!ready_to_fork()) throw nb::python_error();
  });
  module.def("instructions", [] { return kernels::loops().instructions; });
  module.def("devices", device::names);
  module.def("device_target", device::target);
  module.def("set_device_target", [](const std::string& name) { require(device::set_target(name)); });
  module.def("device_waits", device::handover_waits);
  module.def("set_device_waits", device::set_handover_waits);
  module.def("device_memory", [](const std::string& name) {
    const device::cuda::DeviceMemory::Stats stats = gpu_of(name).memory().stats();
    nb::dict said;
    said["pools"] = stats.pools;
    said["pool_bytes"] = stats.bytes;
    said["used_bytes"] = stats.used;
    said["away_bytes"] = stats.away;
    return said;
  });
  module.def("trim_device", [](const std::string& name) {
    device::cuda::Gpu& gpu = gpu_of(name);
    const GilRelease unlocked;
    gpu.foreign().trim();
    if (node::Node* const node = node::Node::existing())
      node->memory_pools().let_go(memory_pool::Pools::Idle::kAll);
    return gpu.memory().trim();
  });
  module.def("fork_counts", [] {
    const runtime::ForkCounts counts = Executor::fork_counts();
    return nb::make_tuple(counts.prepared, counts.parents, counts.children);
  });
}

}  // namespace forklift::py
