#include "bindings/core/domain.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/core/frames.h"
#include "bindings/core/gil.h"
#include "bindings/core/stats.h"
#include "device/device.h"
#include "node/node.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

// Runs `call`, which returns a Result, without the interpreter lock. Raises if the Result is a failure.
template <class Call>
auto without_gil(Call&& call) {
  auto result = [&] {
    const GilRelease released;
    return call();
  }();
  if (!result) {
    raise(result.status());
    throw nb::python_error();
  }
  return *std::move(result);
}

node::Node* current() {
  return without_gil([] { return node::Node::current(); });
}

// What a child needs to join the domain: the descriptors that it must inherit and the slot reserved for it.
struct Invitation {
  node::Invitation parts;
  int control() const { return parts.control.get(); }
  int data() const { return parts.data.get(); }
  int lock() const { return parts.child.lock.get(); }
};

// A pickle may contain the same invitation several times, but its descriptors may be taken over only once.
bool is_first(int control, domain::SlotRef slot) {
  static auto* const joined = new std::set<std::tuple<int, std::uint32_t, std::uint32_t>>;
  return joined->insert({control, slot.index, slot.generation}).second;
}

Status join_as(int control, int data, int lock, domain::SlotRef slot) {
  const GilRelease released;
  return node::Node::join(os::Fd(control), os::Fd(data), domain::ChildSlot{slot, os::Fd(lock)}, true)
      .status();
}

bool join(int control, int data, int lock, std::uint32_t index, std::uint32_t generation) {
  const domain::SlotRef slot{index, generation};
  if (!is_first(control, slot)) return false;
  require(join_as(control, data, lock, slot));
  return true;
}

// A child that is a fresh interpreter has received its invitation before it imports this module
// (forklift.child_boot). If it cannot join, every later call that needs a domain fails with the reason.
void join_as_invited() {
  const nb::object invited = nb::steal(PyImport_GetModule(nb::str("forklift.child_boot").ptr()));
  if (!invited.is_valid()) {
    if (PyErr_Occurred()) throw nb::python_error();
    return;
  }
  const nb::object taken = invited.attr("take")();
  if (taken.is_none()) return;
  const auto [control, data, lock, index, generation] =
      nb::cast<std::tuple<int, int, int, std::uint32_t, std::uint32_t>>(taken);
  const domain::SlotRef slot{index, generation};
  if (!is_first(control, slot)) return;
  if (const Status status = join_as(control, data, lock, slot); !status) node::Node::stay_out(status);
  name_process_in_domain();
}

nb::dict stats() {
  nb::dict out;
  out["messages_put"] = counters.messages_put.load();
  out["messages_got"] = counters.messages_got.load();
  out["inline_bytes"] = counters.inline_bytes.load();
  out["block_bytes"] = counters.block_bytes.load();
  out["shared_bytes"] = counters.shared_bytes.load();
  out["pipe_bytes"] = counters.pipe_bytes.load();
  node::Node* node = node::Node::existing();
  out["attached"] = node != nullptr && node->domain().attached();
  arena::Stats arena{};
  std::uint64_t huge = 0;
  std::uint64_t queues = 0;
  std::uint64_t locks = 0;
  std::uint64_t processes = 0;
  if (node) {
    const GilRelease released;
    arena = node->arena().stats();
    huge = node->arena().huge_bytes();
    queues = node->channels().live();
    locks = node->locks().live_locks();
    processes = node->domain().live_slots();
  }
  out["committed_bytes"] = arena.committed_bytes;
  out["cached_bytes"] = arena.cached_bytes;
  out["budget_bytes"] = arena.budget_bytes;
  out["chunk_bytes"] = arena.chunk_bytes;
  out["huge_bytes"] = huge;
  out["blocks"] = arena.held_blocks;
  out["leases"] = arena.leases;
  out["queues"] = queues;
  out["locks"] = locks;
  out["processes"] = processes;
  return out;
}

}  // namespace

void bind_domain(nb::module_& module) {
  nb::class_<Invitation>(module, "Invitation")
      .def_prop_ro("control", &Invitation::control)
      .def_prop_ro("data", &Invitation::data)
      .def_prop_ro("lock", &Invitation::lock)
      .def_prop_ro("slot", [](const Invitation& self) { return self.parts.child.slot.index; })
      .def_prop_ro("generation", [](const Invitation& self) { return self.parts.child.slot.generation; })
      .def("close", [](Invitation& self) {
        self.parts.control.close();
        self.parts.data.close();
        self.parts.child.lock.close();
      });
  module.def("ensure_domain", [] {
    current();
    name_process_in_domain();
  });
  // Of its control segment. Made first if there is none.
  module.def("control_descriptor", [] { return current()->domain().control_file().get(); });
  module.def("domain_id", [] { return current()->domain().header().domain_id; });
  module.def("has_domain", [] { return node::Node::existing() != nullptr; });
  module.def(
      "invite",
      [] {
        node::Node* node = current();
        return new Invitation{without_gil([node] { return node->invite(); })};
      },
      nb::rv_policy::take_ownership);
  module.def("join", join, nb::arg("control"), nb::arg("data"), nb::arg("lock"), nb::arg("slot"),
             nb::arg("generation"));
  module.def("mark_clean", [] {
    {
      const GilRelease released;
      device::leave();
    }
    node::Node::mark_all_clean();
  });
  module.def(
      "set_budget",
      [](std::uint64_t bytes, std::uint64_t prefault) {
        arena::Arena& arena = current()->arena();
        require([&] {
          const GilRelease released;
          return arena.set_budget(bytes, prefault);
        }());
      },
      nb::arg("bytes"), nb::kw_only(), nb::arg("prefault") = 0);
  module.def(
      "configure",
      [](std::uint64_t reservation, std::uint64_t budget, std::optional<bool> huge_pages) {
        require(node::Node::configure(
            {.budget_bytes = budget, .segment_bytes = reservation, .huge_pages = huge_pages}));
      },
      nb::kw_only(), nb::arg("reservation") = 0, nb::arg("budget") = 0, nb::arg("huge_pages") = nb::none());
  module.def("stats", stats);
  module.def(
      "count_into",
      [](int file, std::uint64_t offset, bool from_zero) {
        const Status status = count_into(file, offset, from_zero);
        if (status) return;
        raise(status);
        throw nb::python_error();
      },
      nb::arg("file"), nb::arg("offset"), nb::arg("from_zero"));
  module.def("reap", [] {
    node::Node* node = node::Node::existing();
    const GilRelease released;
    return node ? node->domain().reap() : 0U;
  });
  module.def(
      "trim",
      [](std::uint64_t keep) {
        node::Node* node = node::Node::existing();
        const GilRelease released;
        return node ? node->arena().trim(keep) : std::uint64_t{0};
      },
      nb::arg("keep") = 0);
  module.def("audit", [] {
    node::Node* node = node::Node::existing();
    const GilRelease released;
    return node ? node->audit() : std::vector<std::string>();
  });
  join_as_invited();
}

}  // namespace forklift::py
