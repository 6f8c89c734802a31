// PoolFutures: the calls of an executor. submit() sends a call. Outcomes are given to their futures by one thread
// at a time: by settle(), in the manager thread, or by help(), in a thread that waits for a result. Many are
// given under one hold of the interpreter lock.
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/message/object.h"
#include "bindings/pool/future_object.h"
#include "bindings/pool/helper_hooks.h"
#include "bindings/pool/object.h"
#include "bindings/pool/outcome_turns.h"
#include "bindings/pool/pool.h"

namespace forklift::py {
namespace {

// How many outcomes are given to their futures at a time.
constexpr std::size_t kMostAtOnce = 1024;

class PoolFutures {
 public:
  PoolFutures(nb::object core, nb::object label, std::uint32_t retries)
      : keeper_(std::move(core)),
        core_(nb::cast<PoolCore&>(keeper_)),
        label_(std::move(label)),
        options_(task_options(0, retries)),
        owner_(::getpid()),
        job_(workers::Engine::make_job({.bulk = true, .cancellable = true})) {}

  // Sends a call and notes its future, which gets the outcome. A call that cannot be sent has the reason as
  // its outcome. False: the pool is full, and the caller is not `patient`. `context`: that of the thread which made
  // the call, as bytes of context(); None: this one.
  bool submit(nb::handle self, nb::handle future, nb::handle function, nb::handle arguments, nb::handle named,
              bool patient, nb::handle context) {
    const bool plain = PyDict_GET_SIZE(named.ptr()) == 0;
    const nb::object both =
        plain ? nb::borrow(arguments) : nb::steal(PyTuple_Pack(2, arguments.ptr(), named.ptr()));
    if (!both.is_valid()) throw nb::python_error();
    const std::string carried = context.is_none() ? task_context() : nb::cast<nb::bytes>(context).c_str();
    const WriterLoan writer;
    Callee callee;
    const bool opened = last_.open(function.ptr(), callee);
    callee.carry(carried);
    if (!opened || !callee.encode(both.ptr(), plain ? Style::kCall : Style::kCallNamed, *writer)) {
      if (!PyErr_ExceptionMatches(PyExc_Exception)) throw nb::python_error();
      const nb::object error = nb::steal(take_exception());
      // As in the standard library, which starts a worker for a call before it pickles the call.
      if (entered_ + unsent_++ != 0) core_.engine().want_worker();
      deliver(future, false, core_.failure("unsent", nb::make_tuple(label_, error)));
      return true;
    }
    const std::uint64_t place = enter(self, future);
    const auto [sent, full] = send(*writer, place, patient);
    if (sent && !full) {
      turns_.note_sent(is_watched(future));
      return true;
    }
    const nb::object kept = leave(place);
    if (full) {
      if (PyObject_DelAttr(future.ptr(), future_names().owner) != 0) throw nb::python_error();
      return false;
    }
    if (sent.code() == Code::kInterrupted) throw nb::python_error();
    deliver(future, false, reason(sent, place));
    return true;
  }

  // Notes that a call that had to wait for room is about to be sent. False: it was cancelled before.
  bool claim(nb::handle future) const {
    const FutureNames& name = future_names();
    const nb::object members = nb::steal(PyObject_GenericGetDict(future.ptr(), nullptr));
    if (!members.is_valid()) throw nb::python_error();
    // Who cancels a future makes its condition first.
    if (PyDict_Contains(members.ptr(), name.condition) == 0) {
      if (PyDict_SetItem(members.ptr(), name.sending, Py_True) != 0) throw nb::python_error();
      return true;
    }
    return nb::cast<bool>(future.attr("claim")());
  }

  // Ends the call as cancelled. False: it has begun or ended.
  bool cancel(nb::handle future, std::uint64_t place) {
    return holds(future, place) && core_.engine().cancel(*job_, place);
  }
  bool has_begun(nb::handle future, std::uint64_t place) {
    return holds(future, place) && core_.engine().has_begun(*job_, place);
  }

  // In the manager thread: waits for outcomes and gives them to their futures. False: no call is left, and ring()
  // was called since the last time.
  bool settle() {
    std::vector<workers::Answer> answers;
    const bool more = [&] {
      const GilRelease released;
      return turns_.wait(answers);
    }();
    if (!more) return false;
    if (!answers.empty()) {  // help() has had the turn
      for (workers::Answer& answer : answers) settle_one(answer);
      return true;
    }
    OutcomeTurns::Managing managing(turns_);
    Status status;
    {
      const GilRelease released;
      status = core_.engine().collect(*job_, answers, kMostAtOnce, os::Deadline::never());
    }
    if (!status) {
      raise(status);
      throw nb::python_error();
    }
    managing.took(answers.size());
    for (workers::Answer& answer : answers) settle_one(answer);
    return true;
  }

  // In a thread that waits for the future's outcome: takes outcomes itself until that one has come, unless
  // another thread does so. Returns what is left of `timeout` (seconds, or None).
  nb::object help(nb::handle future, std::uint64_t place, nb::object timeout) {
    // What has come of a watched one may have been handed over already.
    if (::getpid() != owner_ || !holds(future, place) || is_watched(future)) return timeout;
    OutcomeTurns::Helping helping(turns_);
    if (!helping) return timeout;
    const os::Deadline deadline = deadline_of(timeout);
    while (holds(future, place)) {
      std::vector<workers::Answer> answers;
      const Status status = take(answers, deadline, helping, [&] { return holds(future, place); });
      if (status.code() == Code::kTimeout) break;
      if (!status) {
        raise(status);
        throw nb::python_error();
      }
      if (answers.empty() || !settle_unwatched(answers)) break;
    }
    return timeout.is_none() ? timeout : nb::cast(static_cast<double>(deadline.left_ns(INT64_MAX)) / 1e9);
  }

  nb::object explained(nb::object error) const { return core_.explained(std::move(error)); }
  // Somebody watches a future.
  void watch() {
    if (::getpid() == owner_) turns_.watch();
  }
  void ring() {
    if (::getpid() == owner_) turns_.ring();
  }

  // The futures of the calls that have not ended, the latest call first.
  nb::list pending() const {
    std::vector<const Entry*> there;
    for (const Entry& each : entries_) {
      if (each.future.is_valid()) there.push_back(&each);
    }
    std::sort(there.begin(), there.end(),
              [](const Entry* a, const Entry* b) { return a->number > b->number; });
    nb::list out;
    for (const Entry* each : there) out.append(each->future);
    return out;
  }

  int visit(visitproc visitor, void* argument) const {
    const auto see = [&](const nb::object& each) {
      return each.is_valid() ? visitor(each.ptr(), argument) : 0;
    };
    for (const Entry& each : entries_) {
      if (const int stop = see(each.future); stop != 0) return stop;
    }
    if (const int stop = see(label_); stop != 0) return stop;
    return last_.visit(visitor, argument);
  }

  void clear() {
    // Empty the members first: the destructors of what they held may look at this object.
    const auto entries = std::exchange(entries_, {});
    const nb::object label = std::exchange(label_, nb::none());
    const nb::object function = nb::steal(last_.take());
  }

 private:
  // A small message is sent under the interpreter lock: giving it away and waiting for its return would take
  // longer, since the manager thread waits for it, too.
  Sent send(MessageWriter& writer, std::uint64_t place, bool patient) {
    if (!patient && !writer.message.noted() && writer.message.leases().empty()) {
      if (core_.full(0)) return {{}, true};
      Status sent = core_.engine().submit(job_, place, writer.message.message(writer.codec), options_);
      if (sent || sent.code() != Code::kOverBudget) return {std::move(sent), false};
    }
    return send_task(core_, job_, writer, place, options_, patient);
  }

  std::uint64_t enter(nb::handle self, nb::handle future) {
    if (free_.empty()) {
      free_.push_back(entries_.size());
      entries_.emplace_back();
    }
    const std::uint64_t place = free_.back();
    const nb::int_ number(place);
    if (PyObject_SetAttr(future.ptr(), future_names().place, number.ptr()) != 0 ||
        PyObject_SetAttr(future.ptr(), future_names().owner, self.ptr()) != 0)
      throw nb::python_error();
    free_.pop_back();
    entries_[place] = {nb::borrow(future), ++entered_};
    return place;
  }

  nb::object leave(std::uint64_t place) {
    if (place >= entries_.size()) return nb::none();  // after clear()
    free_.push_back(place);
    return std::exchange(entries_[place].future, {});
  }

  bool holds(nb::handle future, std::uint64_t place) const {
    return place < entries_.size() && entries_[place].future.is(future);
  }

  nb::object reason(const Status& status, std::uint64_t place) {
    if (status.code() == Code::kPeerDied || status.code() == Code::kClosed)
      return core_.stopped(label_, place);
    raise(status);
    return nb::steal(take_exception());
  }

  template <class Wanted>
  Status take(std::vector<workers::Answer>& answers, os::Deadline deadline, OutcomeTurns::Helping& helping,
              const Wanted& wanted) {
    workers::Engine& engine = core_.engine();
    GilRelease released;
    HelperHooks<Wanted> hooks(released, helping, wanted);
    Status status = engine.collect(*job_, answers, kMostAtOnce, deadline, &hooks);
    turns_.note_taken(answers.size());
    return status;
  }

  // False: something is left to the manager thread.
  bool settle_unwatched(std::vector<workers::Answer>& answers) {
    std::vector<workers::Answer> others;
    for (workers::Answer& answer : answers) {
      const nb::object& future = entries_[answer.index].future;
      if (answer.ending == workers::Ending::kCancelled || (future.is_valid() && is_watched(future))) {
        others.push_back(std::move(answer));
      } else {
        settle_one(answer);
      }
    }
    if (others.empty()) return true;
    turns_.hand_over(std::move(others));
    return false;
  }

  void settle_one(workers::Answer& answer) {
    const nb::object future = leave(answer.index);
    if (!future.is_valid() || future.is_none()) return;
    if (answer.ending == workers::Ending::kCancelled) {
      tell(future, future_names().note_cancelled, nullptr);
      return;
    }
    bool ok = false;
    nb::object value;
    try {
      std::tie(ok, value) = core_.outcome(answer, label_);
    } catch (nb::python_error& error) {
      value = nb::borrow(error.value());  // the other outcomes must still reach their futures
    }
    deliver(future, ok, value);
  }

  nb::object keeper_;
  PoolCore& core_;
  nb::object label_;
  workers::TaskOptions options_;
  pid_t owner_;
  workers::JobPtr job_;
  // Under the interpreter lock: the futures by the indices of their tasks, and the free indices.
  struct Entry {
    nb::object future{};
    std::uint64_t number = 0;  // calls are numbered in the order in which they are given to the engine
  };
  std::vector<Entry> entries_;
  std::vector<std::uint64_t> free_;
  std::uint64_t entered_ = 0;
  std::uint64_t unsent_ = 0;  // calls that could not be pickled
  LastCallee last_;

  OutcomeTurns turns_;
};

int traverse_futures(PyObject* self, visitproc visitor, void* argument) {
  if (const int stop = visitor(reinterpret_cast<PyObject*>(Py_TYPE(self)), argument); stop != 0) return stop;
  return nb::inst_ready(self) ? nb::inst_ptr<PoolFutures>(self)->visit(visitor, argument) : 0;
}

int clear_futures(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<PoolFutures>(self)->clear();
  return 0;
}

}  // namespace

void bind_pool_futures(nb::module_& module) {
  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_futures)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear_futures)},
                                {0, nullptr}};
  nb::class_<PoolFutures>(module, "PoolFutures", nb::type_slots(slots))
      .def(nb::init<nb::object, nb::object, std::uint32_t>(), nb::arg("core"), nb::arg("label"),
           nb::arg("retries"))
      .def(
          "submit",
          [](nb::handle self, nb::handle future, nb::handle function, nb::handle arguments, nb::handle named,
             bool patient, nb::handle context) {
            return nb::cast<PoolFutures&>(self).submit(self, future, function, arguments, named, patient,
                                                       context);
          },
          nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none() = nb::none())
      .def("context",
           [](const PoolFutures&) {
             const std::string context = task_context();
             return nb::bytes(context.data(), context.size());
           })
      .def("claim", &PoolFutures::claim)
      .def("cancel", &PoolFutures::cancel)
      .def("has_begun", &PoolFutures::has_begun)
      .def("settle", &PoolFutures::settle)
      .def("help", &PoolFutures::help, nb::arg(), nb::arg(), nb::arg().none())
      .def("explained", &PoolFutures::explained)
      .def("watch", &PoolFutures::watch)
      .def("ring", &PoolFutures::ring)
      .def("pending", &PoolFutures::pending);
}

}  // namespace forklift::py
