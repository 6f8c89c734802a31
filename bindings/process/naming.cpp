#include "bindings/process/naming.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/tensor/tensor.h"
#include "forklift/domain.h"
#include "node/node.h"
#include "node/published.h"
#include "rendezvous/name_lock.h"
#include "rendezvous/named_domain.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

// Runs `call(node)`, which returns a Result, without the interpreter lock. Raises if the Result is a failure.
template <class Call>
auto with_node(Call&& call) {
  using Answer = decltype(call(std::declval<node::Node&>()));
  Answer answer = [&]() -> Answer {
    const GilRelease released;
    Result<node::Node*> node = node::Node::current();
    return node ? call(**node) : Answer(node.status());
  }();
  require(answer.status());
  return *std::move(answer);
}

// What a call of the C++ API that throws has to say, without the interpreter lock.
template <class Call>
Status status_of(Call&& call) {
  const GilRelease released;
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

// Serves or joins the domain with that name, as `call` does, for at most `timeout` seconds. Signal handlers
// run while it waits.
template <class Call>
rendezvous::NamedDomainPtr open_socket(Call&& call, const std::string& name, double timeout, bool stand_by) {
  GilRelease released;
  PyHooks hooks(released);
  rendezvous::NamedDomainOptions options;
  options.deadline = os::Deadline::after_seconds(timeout);
  options.stand_by = stand_by;
  options.home_only = true;
  options.hooks = &hooks;
  Result<rendezvous::NamedDomainPtr> served = call(name, options);
  released.acquire();
  require(served.status());
  return *std::move(served);
}

// The Python object `NamedDomain`. nanobind manages this struct, and the struct shares the NamedDomain.
struct PyNamedDomain {
  rendezvous::NamedDomainPtr served;
};

Status publish(const std::string& name, arena::ObjectKind kind, std::uint32_t index, std::uint32_t generation,
               std::uint64_t type) {
  Result<node::Node*> node = node::Node::current();
  if (!node) return node.status();
  node::Published what{{kind, index}, generation, type, {}};
  if (kind == arena::ObjectKind::kLock) {
    what.kind = static_cast<std::uint64_t>(node::ObjectType::kLocks) +
                static_cast<std::uint64_t>((*node)->locks().kind_of({index, generation}));
  }
  return node::publish(**node, what, name);
}

// (type of the object, flags of the channel or topic, index, generation, the type's name)
using Found = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t, std::string>;
Result<Found> find(node::Node& node, const std::string& name) {
  Result<node::Published> found = node.names().find(name);
  if (!found) return found.status();
  std::uint64_t flags = 0;
  if (found->object.kind == arena::ObjectKind::kChannel) {
    const channel::ChannelRow* row = node.channels().row(found->object.index);
    if (row == nullptr) return Status(Code::kCorrupt, "a name of a channel that does not exist");
    flags = row->flags.load(std::memory_order_relaxed);
  } else if (found->object.kind == arena::ObjectKind::kTopic) {
    const Result<topic::TopicPtr> topic =
        topic::Topic::open(node.topics(), {found->object.index, found->generation});
    if (!topic) return topic.status();
    flags = (*topic)->flags();
  }
  return Found{found->kind, flags, found->object.index, found->generation, node::type_name(*found)};
}

using Listed = std::vector<std::tuple<std::string, std::string>>;
Result<Listed> list(node::Node& node) {
  Result<std::vector<node::Published>> all = node.names().list();
  if (!all) return all.status();
  Listed listed;
  for (const node::Published& one : *all) listed.emplace_back(one.name, node::type_name(one));
  return listed;
}

}  // namespace

void bind_naming(nb::module_& module) {
  nb::class_<PyNamedDomain>(module, "NamedDomain")
      .def_prop_ro("name", [](const PyNamedDomain& self) { return self.served->name(); })
      .def_prop_ro("serving", [](const PyNamedDomain& self) { return self.served->serving(); })
      .def("close", [](PyNamedDomain& self) {
        const GilRelease released;
        self.served->close();
      });
  const auto served = [&module](const char* name, auto open) {
    module.def(
        name,
        [open](const std::string& at, double timeout, bool stand_by) {
          return new PyNamedDomain{open_socket(open, at, timeout, stand_by)};
        },
        nb::arg("name"), nb::arg("timeout"), nb::arg("stand_by"), nb::rv_policy::take_ownership);
  };
  served("serve", rendezvous::NamedDomain::serve);
  served("attach", rendezvous::NamedDomain::attach);
  served("meet", rendezvous::NamedDomain::meet);
  module.attr("KIND_CHANNEL") = static_cast<int>(arena::ObjectKind::kChannel);
  module.attr("KIND_LOCK") = static_cast<int>(arena::ObjectKind::kLock);
  module.attr("KIND_TOPIC") = static_cast<int>(arena::ObjectKind::kTopic);
  module.def("publish", [](const std::string& name, int kind, std::uint32_t index, std::uint32_t generation,
                           std::uint64_t type) {
    const Status status = [&] {
      const GilRelease released;
      return publish(name, static_cast<arena::ObjectKind>(kind), index, generation, type);
    }();
    require(status);
  });
  module.def("find_published", [](const std::string& name) {
    return with_node([&](node::Node& node) { return find(node, name); });
  });
  module.def("publish_tensor", [](const std::string& name, const TensorBox& box) {
    require(prepare_to_send(box.tensor));
    require(status_of([&] { Domain::own().publish(name, box.tensor); }));
  });
  module.def("open_published_tensor", [](const std::string& name) {
    Tensor found;
    require(status_of([&] { found = Domain::own().open<Tensor>(name); }));
    return nb::steal(wrap_tensor(std::move(found)));
  });
  module.def("unpublish", [](const std::string& name) {
    return with_node([&](node::Node& node) -> Result<bool> {
      const Status status = node.names().unpublish(name);
      if (!status && status.code() != Code::kNotFound) return status;
      return status.ok();
    });
  });
  module.def("published", [] { return with_node(list); });
  module.def("server_of", [](const std::string& name) {
    const Result<rendezvous::NameLock> lock = rendezvous::NameLock::find(name);
    require(lock.status());
    return lock->server();
  });
}

}  // namespace forklift::py
