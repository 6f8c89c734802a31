// Conditions, events and barriers: the objects that the classes in synchronize.py hold and call.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <string>
#include <tuple>

#include "bindings/core/errors.h"
#include "bindings/core/frames.h"
#include "bindings/core/gil.h"
#include "bindings/inspect/inspect.h"
#include "bindings/locks/lock.h"
#include "bindings/locks/object.h"
#include "locks/barrier.h"
#include "locks/condition.h"
#include "locks/event.h"
#include "node/node.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

using locks::Arrival;
using locks::Barrier;
using locks::BarrierPtr;
using locks::Condition;
using locks::ConditionPtr;
using locks::Event;
using locks::EventPtr;
using locks::LockId;

[[noreturn]] void fail(const Status& status) {
  raise(status);
  throw nb::python_error();
}

// Runs `call` without the interpreter lock and returns its Status or Result. Signal handlers run while it
// waits.
template <class Call>
auto waiting(Call&& call) {
  GilRelease released;
  PyHooks hooks(released);
  auto answer = call(&hooks);
  released.acquire();
  return answer;
}

void done(const Status& status) {
  if (!status) fail(status);
}
template <class T>
T got(Result<T> result) {
  if (!result) fail(result.status());
  return *std::move(result);
}

// True: what was waited for happened. False: the time is over. Raises for any other failure.
bool came(const Status& status) {
  if (status) return true;
  if (status.code() == Code::kTimeout) return false;
  fail(status);
}

os::Deadline deadline(nb::handle timeout) {
  os::Deadline at = os::Deadline::never();
  if (!parse_timeout(timeout.ptr(), at)) throw nb::python_error();
  return at;
}

template <class Make>
auto make_with(Make&& make) {
  return got(waiting([&](PyHooks*) {
    using Answer = decltype(make(std::declval<locks::Table&>()));
    const Result<node::Node*> node = node::Node::current();
    return node ? make((*node)->locks()) : Answer(node.status());
  }));
}

template <class Pointer>
struct Holder {
  Pointer object;
};
template <class Pointer>
Holder<Pointer> new_object(Pointer object) {
  label_with_line(object->label());
  return {std::move(object)};
}
using ConditionCore = Holder<ConditionPtr>;
using EventCore = Holder<EventPtr>;
using BarrierCore = Holder<BarrierPtr>;

// The methods that all three classes have.
template <class Core>
void bind_common(nb::class_<Core>& type) {
  type.def("offer", [](const Core& self, std::uint32_t index, std::uint32_t generation) {
    done(waiting([&](PyHooks*) { return self.object->offer({index, generation}); }));
  });
  type.def("id", [](const Core& self) {
    return std::tuple(self.object->id().index, self.object->id().generation);
  });
}

template <class Class>
auto opener() {
  return [](std::uint32_t index, std::uint32_t generation) {
    return Holder<std::shared_ptr<Class>>{
        make_with([&](locks::Table& table) { return Class::open(table, {index, generation}); })};
  };
}

void bind_condition(nb::module_& module) {
  nb::class_<ConditionCore> type(module, "ConditionCore");
  bind_common(type);
  type.def_static("make", [] { return new_object(make_with(&Condition::create)); })
      .def_static("open", opener<Condition>())
      .def("enrol",
           [](const ConditionCore& self) {
             return got(waiting([&](PyHooks*) { return self.object->enrol(); }));
           })
      .def(
          "wait",
          [](const ConditionCore& self, std::uint32_t place, nb::handle timeout) {
            const os::Deadline until = deadline(timeout);
            return came(waiting([&](PyHooks* hooks) { return self.object->wait(place, until, hooks); }));
          },
          nb::arg("place"), nb::arg("timeout").none())
      .def("leave",
           [](const ConditionCore& self, std::uint32_t place) {
             waiting([&](PyHooks*) {
               self.object->leave(place);
               return 0;
             });
           })
      .def("notify", [](const ConditionCore& self, std::size_t most) { return self.object->notify(most); })
      .def("waiting", [](const ConditionCore& self) { return self.object->waiting(); });
}

void bind_event(nb::module_& module) {
  nb::class_<EventCore> type(module, "EventCore");
  bind_common(type);
  type.def_static("make", [] { return new_object(make_with(&Event::create)); })
      .def_static("open", opener<Event>())
      .def("is_set", [](const EventCore& self) { return self.object->is_set(); })
      .def("set", [](const EventCore& self) { done(self.object->set()); })
      .def("clear", [](const EventCore& self) { done(self.object->clear()); })
      .def(
          "wait",
          [](const EventCore& self, nb::handle timeout) {
            const os::Deadline until = deadline(timeout);
            if (self.object->is_set()) return true;
            return came(waiting([&](PyHooks* hooks) { return self.object->wait(until, hooks); }));
          },
          nb::arg("timeout").none());
}

// A barrier that this thread's time-out has broken: the error says who was missing.
[[noreturn]] void raise_broken(const std::string& prospects) {
  const nb::object kind = nb::steal(import_attribute("threading", "BrokenBarrierError"));
  if (!kind.is_valid()) throw nb::python_error();
  const nb::object error = kind();
  note_on(error, prospects);
  PyErr_SetObject(kind.ptr(), error.ptr());
  throw nb::python_error();
}

void bind_barrier(nb::module_& module) {
  nb::class_<Arrival>(module, "BarrierArrival")
      .def_ro("last", &Arrival::last)
      .def_ro("index", &Arrival::index);
  nb::class_<BarrierCore> type(module, "BarrierCore");
  bind_common(type);
  type.def_static("make",
                  [](std::uint32_t parties) {
                    return new_object(
                        make_with([&](locks::Table& table) { return Barrier::create(table, parties); }));
                  })
      .def_static("open", opener<Barrier>())
      // Returns None if the barrier is broken.
      .def("arrive",
           [](const BarrierCore& self) {
             const Arrival arrival = got(waiting([&](PyHooks* hooks) { return self.object->arrive(hooks); }));
             return arrival.broken ? std::nullopt : std::optional(arrival);
           })
      .def("open_up",
           [](const BarrierCore& self, const Arrival& arrival) {
             return got(waiting([&](PyHooks*) { return self.object->open_up(arrival); }));
           })
      .def(
          "wait",
          [](const BarrierCore& self, const Arrival& arrival, nb::handle timeout) {
            const os::Deadline until = deadline(timeout);
            const Barrier& barrier = *self.object;
            std::string prospects;
            const auto expired = [&] {
              prospects =
                  prospects_of({inspect::Need::kParties, {arena::ObjectKind::kLock, barrier.id().index}, 0});
            };
            const bool passed = got(
                waiting([&](PyHooks* hooks) { return self.object->wait(arrival, until, hooks, expired); }));
            if (!passed && !prospects.empty()) raise_broken(prospects);
            return passed;
          },
          nb::arg("arrival"), nb::arg("timeout").none())
      .def("leave",
           [](const BarrierCore& self, const Arrival& arrival) {
             done(waiting([&](PyHooks*) { return self.object->leave(arrival); }));
           })
      .def("abort",
           [](const BarrierCore& self) { done(waiting([&](PyHooks*) { return self.object->abort(); })); })
      .def("reset",
           [](const BarrierCore& self) { done(waiting([&](PyHooks*) { return self.object->reset(); })); })
      .def_prop_ro("parties", [](const BarrierCore& self) { return self.object->parties(); })
      .def_prop_ro("waiting", [](const BarrierCore& self) { return self.object->waiting(); })
      .def_prop_ro("broken", [](const BarrierCore& self) { return self.object->broken(); });
}

}  // namespace

void bind_waits(nb::module_& module) {
  bind_condition(module);
  bind_event(module);
  bind_barrier(module);
}

}  // namespace forklift::py
