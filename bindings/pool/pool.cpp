// PoolCore: the pool's construction and end, and the outcomes of its tasks as Python values and exceptions.
#include "bindings/pool/pool.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <thread>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/core/stats.h"
#include "bindings/inspect/inspect.h"
#include "bindings/message/object.h"
#include "bindings/pool/object.h"
#include "node/node.h"

namespace forklift::py {
namespace {

// How many tasks wait for a worker before the pool counts as full: patient callers then wait, others leave
// the task to the feeder.
constexpr std::uint32_t kMostQueued = 4096;
// The same for tasks whose messages have blocks, per worker: as many as have so many bytes, and two of any size.
constexpr std::uint64_t kQueuedBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kFewestQueued = 2;

// How many tasks that have blocks of so many bytes may wait for a pool's workers.
std::uint32_t most_queued(std::uint64_t bytes, std::uint32_t workers) noexcept {
  if (bytes == 0) return kMostQueued;
  const std::uint64_t each = std::max(kQueuedBytes / bytes, kFewestQueued);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(each * workers, kMostQueued));
}

// The value of an answer; an invalid object with an exception set if it cannot be decoded.
nb::object decode_answer(channel::Incoming& payload) {
  const ReaderLoan reader;
  reader->message = std::move(payload);
  if (!reader->message.leases().empty()) {
    const GilRelease released;
    reader->isolate();
  }
  return nb::steal(decode_object(*reader));
}

}  // namespace

PoolCore::PoolCore(nb::object factory, const workers::EngineOptions& options, std::string failures)
    : factory_(std::make_unique<WorkerFactory>()),
      workers_(options.workers),
      owner_(::getpid()),
      failures_(std::move(failures)) {
  factory_->python = factory.release().ptr();
  Status status;
  {
    const GilRelease released;
    const Result<node::Node*> node = node::Node::current();
    status = node.status();
    if (node) {
      Result<std::unique_ptr<workers::Engine>> made = workers::Engine::create(
          **node, options, [factory = factory_.get()](const workers::WorkerSlot& worker_slot) {
            return factory->start(worker_slot);
          });
      status = made.status();
      if (made) engine_ = *std::move(made);
    }
  }
  if (status) return;
  if (factory_->error != nullptr) {
    put_exception(std::exchange(factory_->error, nullptr));
  } else {
    raise(status);
  }
  throw nb::python_error();
}

PoolCore::~PoolCore() {
  if (!engine_) return;
  if (::getpid() != owner_ || interpreter_ends()) {
    if (::getpid() == owner_) {
      for (const pid_t pid : engine_->pids()) ::kill(pid, SIGKILL);
    }
    workers::Engine::abandon(std::move(engine_));
    (void)factory_.release();
    (void)last_words_.release();
    return;
  }
  if (WorkerFactory::minding() == factory_.get()) {
    // The garbage collector runs in the supervisor thread, for which the engine's destructor would wait.
    std::thread([factory = std::move(factory_), engine = std::move(engine_)]() mutable {
      engine.reset();
      factory.reset();
    }).detach();
    return;
  }
  const GilRelease released;
  engine_.reset();
}

workers::Engine& PoolCore::engine() const {
  if (::getpid() == owner_) return *engine_;
  throw nb::value_error("Pool not running: it belongs to another process");
}

bool PoolCore::full(std::uint64_t bytes) const noexcept {
  return tasks().size() >= most_queued(bytes, workers_);
}

// Waits until half of the room is free, so that the caller is not woken for each task that a worker takes.
Status PoolCore::wait_for_room(std::uint64_t bytes, PyHooks& hooks) const {
  if (!full(bytes)) return {};
  return engine_->wait_for_room(most_queued(bytes, workers_) / 2, os::Deadline::never(), &hooks);
}

nb::object PoolCore::failure(const char* function, nb::tuple arguments) const {
  const nb::object found = nb::steal(import_attribute(failures_.c_str(), function));
  if (!found.is_valid()) throw nb::python_error();
  nb::object made = nb::steal(PyObject_Call(found.ptr(), arguments.ptr(), nullptr));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

nb::object PoolCore::stopped(nb::handle label, std::uint64_t index) {
  channel::Incoming words;
  const Status health = engine_->health(&words);
  if (!words.bytes().empty()) {
    nb::object said = decode_answer(words);
    if (said.is_valid()) last_words_ = std::move(said);
    PyErr_Clear();
  }
  const std::string why = health ? std::string() : health.to_string();
  return failure("stopped", nb::make_tuple(label, index, nb::str(why.c_str()),
                                           last_words_.is_valid() ? last_words_ : nb::none()));
}

std::pair<bool, nb::object> PoolCore::outcome(workers::Answer& answer, nb::handle label) {
  switch (answer.ending) {
    case workers::Ending::kValue:
    case workers::Ending::kError: {
      count_got();
      nb::object value = decode_answer(answer.payload);
      if (!value.is_valid()) {
        const nb::object error = nb::steal(take_exception());
        return {false, failure("undecodable", nb::make_tuple(label, answer.index, error))};
      }
      if (answer.ending == workers::Ending::kValue) return {true, std::move(value)};
      return {false, failure("revive", nb::make_tuple(label, answer.index, value))};
    }
    case workers::Ending::kUnreadable: {
      const std::span<const std::byte> text = answer.payload.bytes();
      const nb::str why(reinterpret_cast<const char*>(text.data()), text.size());
      return {false, failure("unreadable", nb::make_tuple(label, answer.index, why))};
    }
    case workers::Ending::kDied:
    case workers::Ending::kTimedOut: {
      const bool late = answer.ending == workers::Ending::kTimedOut;
      return {false,
              failure("ended", nb::make_tuple(label, answer.index, late, answer.pid, answer.exitcode))};
    }
    case workers::Ending::kCancelled: return {false, failure("cancelled", nb::make_tuple(label))};
    default: return {false, stopped(label, answer.index)};
  }
}

void PoolCore::close() {
  workers::Engine& engine = this->engine();
  const GilRelease released;
  engine.close();
}

void PoolCore::terminate() {
  workers::Engine& engine = this->engine();
  const GilRelease released;
  engine.terminate();
}

bool PoolCore::join(nb::handle timeout) {
  if (WorkerFactory::minding() == factory_.get()) return false;
  const os::Deadline deadline = deadline_of(timeout);
  workers::Engine& engine = this->engine();
  GilRelease released;
  PyHooks hooks(released);
  const Status status = engine.join(deadline, &hooks);
  released.acquire();
  if (status) return true;
  if (status.code() == Code::kTimeout) return false;
  raise(status);
  throw nb::python_error();
}

bool PoolCore::wait_started() const {
  workers::Engine& engine = this->engine();
  GilRelease released;
  PyHooks hooks(released);
  const Status status = engine.wait_started(os::Deadline::never(), &hooks);
  released.acquire();
  if (status.code() != Code::kInterrupted) return engine.pids().size() >= workers_;
  raise(status);
  throw nb::python_error();
}

nb::object PoolCore::next_ended() {
  std::uint64_t number = 0;
  bool over = false;
  {
    const GilRelease released;
    std::unique_lock<std::mutex> lock(ended_->mutex);
    ended_->bell.wait(lock, [this] { return ended_->over || !ended_->jobs.empty(); });
    over = ended_->jobs.empty();
    if (!over) {
      number = ended_->jobs.front();
      ended_->jobs.pop_front();
    }
  }
  return over ? nb::none() : nb::object(nb::int_(number));
}

void PoolCore::end_notices() {
  const std::lock_guard<std::mutex> lock(ended_->mutex);
  ended_->over = true;
  ended_->bell.notify_all();
}

nb::list PoolCore::pids() const {
  nb::list out;
  for (const pid_t pid : engine().pids()) out.append(pid);
  return out;
}

std::uint64_t PoolCore::outstanding() const { return engine().outstanding(); }

nb::object PoolCore::explained(nb::object error) const {
  if (::getpid() == owner_)
    note_on(error, prospects_of({inspect::Need::kMessage, object_of(engine_->answers()), 0}));
  return error;
}

nb::object PoolCore::insights() const {
  const Result<workers::PoolInsights> found = engine().insights();
  if (!found) return nb::none();
  nb::list workers;
  for (const workers::Figures& each : found->workers) {
    nb::list figures;
    for (std::size_t phase = 1; phase < workers::kPhases; ++phase) figures.append(each.ns[phase]);
    for (const std::uint64_t figure :
         {each.workers, each.tasks, each.items, each.listed_tasks, each.listed_items, each.listed_ns})
      figures.append(figure);
    workers.append(figures);
  }
  nb::list slowest;
  for (const workers::SlowTask& each : found->slowest) {
    const nb::object text = nb::steal(
        PyUnicode_DecodeUTF8(each.text.data(), static_cast<Py_ssize_t>(each.text.size()), "replace"));
    if (!text.is_valid()) throw nb::python_error();
    slowest.append(nb::make_tuple(each.ns, each.pid, text));
  }
  return nb::make_tuple(found->elapsed_ns, workers, slowest);
}

void bind_pool(nb::module_& module) {
  nb::class_<PoolCore>(module, "PoolCore", nb::is_weak_referenceable())
      .def(
          "__init__",
          [](PoolCore* self, nb::object factory, std::uint32_t workers, std::uint32_t spares,
             std::uint64_t most_tasks, std::uint64_t most_memory, std::uint32_t first, unsigned replace,
             std::string failures, bool insights) {
            new (self) PoolCore(std::move(factory),
                                {.workers = workers,
                                 .spares = spares,
                                 .most_tasks = most_tasks,
                                 .most_memory = most_memory,
                                 .first = first,
                                 .replace = static_cast<workers::Replace>(replace),
                                 .insights = insights},
                                std::move(failures));
          },
          nb::arg("factory"), nb::arg("workers"), nb::arg("spares") = 0, nb::arg("most_tasks") = 0,
          nb::arg("most_memory") = 0, nb::arg("first") = 0, nb::arg("replace") = 0,
          nb::arg("failures") = "forklift.multiprocessing._pool.failures", nb::arg("insights") = false)
      .def("close", &PoolCore::close)
      .def("terminate", &PoolCore::terminate)
      .def("join", &PoolCore::join, nb::arg("timeout").none())
      .def("wait_started", &PoolCore::wait_started)
      .def("is_broken", &PoolCore::is_broken)
      .def("next_ended", &PoolCore::next_ended)
      .def("end_notices", &PoolCore::end_notices)
      .def("pids", &PoolCore::pids)
      .def("outstanding", &PoolCore::outstanding)
      .def("insights", &PoolCore::insights);
  bind_pool_job(module);
  bind_pool_futures(module);
  bind_pool_worker(module);
  bind_task_spans(module);
}

}  // namespace forklift::py
