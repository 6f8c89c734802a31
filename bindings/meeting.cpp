#include "meeting.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "channel/published.h"
#include "errors.h"
#include "gil.h"
#include "process/door.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

// Runs `call(hub)` without the interpreter lock: a Result.
template <class Call>
auto with_hub(Call&& call) {
  using Answer = decltype(call(std::declval<channel::Hub&>()));
  Answer answer = [&]() -> Answer {
    const GilRelease released;
    Result<channel::Hub*> hub = channel::Hub::current();
    return hub ? call(**hub) : Answer(hub.status());
  }();
  require(answer.status());
  return *std::move(answer);
}

// Signal handlers run while it waits.
template <class Call>
process::DoorPtr open_door(Call&& call, const std::string& name, double timeout, bool stand_by) {
  GilRelease released;
  PyHooks hooks(released);
  process::DoorOptions options;
  options.deadline = os::Deadline::after_seconds(timeout);
  options.stand_by = stand_by;
  options.hooks = &hooks;
  Result<process::DoorPtr> door = call(name, options);
  released.acquire();
  require(door.status());
  return *std::move(door);
}

// A Door that is no Python object's base: nanobind keeps the pointer.
struct PyDoor {
  process::DoorPtr door;
};

Status publish(const std::string& name, arena::ObjectKind kind, std::uint32_t index, std::uint32_t generation,
               std::uint64_t sort) {
  Result<channel::Hub*> hub = channel::Hub::current();
  if (!hub) return hub.status();
  channel::Published what{{kind, index}, generation, sort, {}};
  if (kind == arena::ObjectKind::kLock) {
    what.kind = static_cast<std::uint64_t>(channel::Sort::kLocks) +
                static_cast<std::uint64_t>((*hub)->locks().kind_of({index, generation}));
  }
  return (*hub)->names().publish(name, what);
}

// (sort, flags of the channel or board, index, generation, the sort in words)
using Found = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t, std::string>;
Result<Found> find(channel::Hub& hub, const std::string& name) {
  Result<channel::Published> found = hub.names().find(name);
  if (!found) return found.status();
  std::uint64_t flags = 0;
  if (found->object.kind == arena::ObjectKind::kChannel) {
    const channel::ChannelRow* row = hub.row(found->object.index);
    if (row == nullptr) return Status(Code::kCorrupt, "a name of a channel that does not exist");
    flags = row->flags.load(std::memory_order_relaxed);
  } else if (found->object.kind == arena::ObjectKind::kBoard) {
    const Result<channel::BoardPtr> board =
        channel::Board::open(hub, {found->object.index, found->generation});
    if (!board) return board.status();
    flags = (*board)->flags();
  }
  return Found{found->kind, flags, found->object.index, found->generation, channel::sort_name(*found)};
}

using Listed = std::vector<std::tuple<std::string, std::string>>;
Result<Listed> list(channel::Hub& hub) {
  Result<std::vector<channel::Published>> all = hub.names().list();
  if (!all) return all.status();
  Listed listed;
  for (const channel::Published& one : *all) listed.emplace_back(one.name, channel::sort_name(one));
  return listed;
}

}  // namespace

void bind_meeting(nb::module_& module) {
  nb::class_<PyDoor>(module, "Door")
      .def_prop_ro("name", [](const PyDoor& self) { return self.door->name(); })
      .def_prop_ro("serving", [](const PyDoor& self) { return self.door->serving(); })
      .def("close", [](PyDoor& self) {
        const GilRelease released;
        self.door->close();
      });
  const auto door = [&module](const char* name, auto open) {
    module.def(
        name,
        [open](const std::string& at, double timeout, bool stand_by) {
          return new PyDoor{open_door(open, at, timeout, stand_by)};
        },
        nb::arg("name"), nb::arg("timeout"), nb::arg("stand_by"), nb::rv_policy::take_ownership);
  };
  door("serve", process::Door::serve);
  door("attach", process::Door::attach);
  door("meet", process::Door::meet);
  module.attr("KIND_CHANNEL") = static_cast<int>(arena::ObjectKind::kChannel);
  module.attr("KIND_LOCK") = static_cast<int>(arena::ObjectKind::kLock);
  module.attr("KIND_BOARD") = static_cast<int>(arena::ObjectKind::kBoard);
  module.def("publish", [](const std::string& name, int kind, std::uint32_t index, std::uint32_t generation,
                           std::uint64_t sort) {
    const Status status = [&] {
      const GilRelease released;
      return publish(name, static_cast<arena::ObjectKind>(kind), index, generation, sort);
    }();
    require(status);
  });
  module.def("find_published", [](const std::string& name) {
    return with_hub([&](channel::Hub& hub) { return find(hub, name); });
  });
  module.def("unpublish", [](const std::string& name) {
    return with_hub([&](channel::Hub& hub) -> Result<bool> {
      const Status status = hub.names().unpublish(name);
      if (!status && status.code() != Code::kNotFound) return status;
      return status.ok();
    });
  });
  module.def("published", [] { return with_hub(list); });
}

}  // namespace forklift::py
