#include "bindings/process/program.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/endpoints/queue.h"
#include "node/node.h"
#include "process/invitation.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

process::ProgramInvitation* invite(const std::vector<std::pair<std::string, nb::object>>& queues) {
  process::NamedChannels channels;
  for (const auto& [name, queue] : queues) {
    channel::ChannelPtr channel = channel_of(queue.ptr());
    if (!channel) throw nb::python_error();
    channels.emplace_back(name, std::move(channel));
  }
  Result<process::ProgramInvitation> made = [&]() -> Result<process::ProgramInvitation> {
    const GilRelease released;
    const Result<node::Node*> node = node::Node::current();
    if (!node) return node.status();
    return process::invite_program(**node, channels);
  }();
  require(made.status());
  return new process::ProgramInvitation(*std::move(made));
}

}  // namespace

void bind_program(nb::module_& module) {
  nb::class_<process::ProgramInvitation>(module, "ProgramInvitation")
      .def_prop_ro("variables", [](const process::ProgramInvitation& self) { return self.variables; })
      .def_prop_ro("descriptors", [](const process::ProgramInvitation& self) { return self.descriptors; })
      .def("close", [](process::ProgramInvitation& self) {
        self.invitation.control.close();
        self.invitation.data.close();
        self.invitation.child.lock.close();
      });
  module.def("invite_program", invite, nb::arg("queues"), nb::rv_policy::take_ownership);
  module.def("accept_invitation", [] {
    const Status status = [] {
      const GilRelease released;
      return process::accept_invitation();
    }();
    require(status);
  });
  module.def(
      "open_inherited",
      [](nb::handle queue, const std::string& name) {
        Result<channel::ChannelPtr> channel = [&] {
          const GilRelease released;
          return process::inherited_channel(name);
        }();
        require(channel.status());
        if (!adopt_channel(queue.ptr(), *std::move(channel))) throw nb::python_error();
      },
      nb::arg("queue"), nb::arg("name"));
}

}  // namespace forklift::py
