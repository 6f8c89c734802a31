#include "inspect/survey.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/inspect/fields.h"
#include "bindings/inspect/inspect.h"
#include "node/node.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

using inspect::Survey;

nb::dict as_dict(const inspect::ArenaUse& use) {
  return Fields()("reserved", use.reserved)("budget", use.budget)("committed", use.committed)(
      "warm", use.warm)("messages", use.messages)("blocks", use.blocks);
}
nb::dict as_dict(const inspect::ProcessUse& use) {
  return Fields()("process", use.pid)("parent", use.parent)("name", use.name)("state", use.state)(
      "service", use.service)("cpu_seconds", use.cpu_seconds)("own_bytes", use.own_bytes)(
      "arena_bytes", use.arena_bytes)("blocks", use.blocks)("old_bytes", use.old_bytes)(
      "waits_for", use.waits_for)("waits_seconds", use.waits_seconds);
}
nb::dict as_dict(const inspect::QueueUse& use) {
  return Fields()("index", use.index)("generation", use.generation)("label", use.label)("length", use.length)(
      "capacity", use.capacity)("put", use.put)("got", use.got)("put_bytes", use.put_bytes)(
      "unfinished", use.unfinished)("waiting_to_get", use.waiting_to_get)(
      "waiting_to_put", use.waiting_to_put)("holders", use.holders);
}
nb::dict as_dict(const inspect::TopicUse& use) {
  return Fields()("index", use.index)("label", use.label)("put", use.put)("dropped", use.dropped)(
      "waiting_to_get", use.waiting_to_get);
}
nb::dict as_dict(const inspect::PoolUse& use) {
  return Fields()("tasks", use.tasks)("owner", use.owner)("waiting", use.waiting)("submitted", use.submitted)(
      "deaths", use.deaths)("retries", use.retries)("busy", use.busy)("idle", use.idle);
}
nb::dict as_dict(const inspect::LockUse& use) {
  return Fields()("index", use.index)("kind", use.kind)("label", use.label)("owner", use.owner)(
      "value", use.value)("waiting", use.waiting);
}
nb::dict as_dict(const inspect::BlockUse& use) {
  return Fields()("index", use.index)("generation", use.generation)("bytes", use.bytes)("holder", use.holder)(
      "process", use.process)("held_seconds", use.held_seconds);
}
nb::dict as_dict(const Survey& survey);

template <class Use>
nb::list as_list(const std::vector<Use>& uses) {
  nb::list all;
  for (const Use& use : uses) all.append(as_dict(use));
  return all;
}
nb::dict as_dict(const Survey& survey) {
  return Fields()("domain", survey.domain)("now_ns", survey.now_ns)("arena", as_dict(survey.arena))(
      "processes", as_list(survey.processes))("queues", as_list(survey.queues))(
      "topics", as_list(survey.topics))("pools", as_list(survey.pools))("locks", as_list(survey.locks))(
      "blocks", as_list(survey.blocks));
}

// Domains that are looked at again and again: opened once, since opening takes longer than looking.
class Surveyor {
 public:
  explicit Surveyor(std::optional<pid_t> pid) {
    if (pid) {
      views_ = require(inspect::views_of(*pid));
    } else {
      node::Node::for_each([&](node::Node& node) { views_.emplace_back(node.domain()); });
    }
  }
  nb::list look(bool holders) {
    const auto wanted = holders ? inspect::Holders::kAll : inspect::Holders::kNone;
    std::vector<Survey> surveys;
    {
      const GilRelease released;
      holdings_.resize(views_.size());
      for (std::size_t i = 0; i < views_.size(); ++i)
        surveys.push_back(inspect::survey_of(views_[i], wanted, &holdings_[i]));
    }
    return as_list(surveys);
  }

 private:
  std::vector<inspect::View> views_;
  std::vector<inspect::Holdings> holdings_;  // of each
};

}  // namespace

void bind_survey(nb::module_& module) {
  nb::class_<Surveyor>(module, "Surveyor")
      .def(nb::init<std::optional<pid_t>>(), nb::arg("pid").none())
      .def("look", &Surveyor::look, nb::arg("holders"));
}

}  // namespace forklift::py
