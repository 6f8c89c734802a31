// Jobs: sending their tasks. job_results.cpp receives the answers.
#include <algorithm>
#include <limits>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/core/stats.h"
#include "bindings/message/sending.h"
#include "bindings/pool/object.h"
#include "bindings/pool/pool.h"

namespace forklift::py {
namespace {

// How many small tasks are handed to the engine at a time, without the interpreter lock.
constexpr std::size_t kBatch = 256;

}  // namespace

workers::TaskOptions task_options(double seconds, std::uint32_t retries) {
  workers::TaskOptions options{.retries = retries};
  if (seconds > 0) options.time_ns = static_cast<std::int64_t>(std::min(seconds, 1e9) * 1e9) + 1;
  return options;
}

os::Deadline deadline_of(nb::handle timeout) {
  if (timeout.is_none()) return os::Deadline::never();
  const double seconds = PyFloat_AsDouble(timeout.ptr());
  if (seconds == -1.0 && PyErr_Occurred()) throw nb::python_error();
  return os::Deadline::after_seconds(std::max(seconds, 0.0));
}

struct PoolJob::Batch {
  struct Small {
    std::uint64_t index;
    std::size_t begin;
    std::size_t bytes;
    std::uint8_t codec;
  };
  std::vector<std::byte> bytes;
  std::vector<Small> tasks;
  workers::TaskOptions options;
};

PoolJob::PoolJob(nb::object core, nb::object label, std::uint64_t number, bool eager, bool cancellable)
    : keeper_(std::move(core)),
      core_(nb::cast<PoolCore&>(keeper_)),
      label_(std::move(label)),
      number_(number) {
  (void)core_.engine();  // raises if another process made the pool
  workers::JobOptions options{.bulk = true, .cancellable = cancellable};
  if (eager) {
    options.on_end = [state = state_, ended = core_.ended(), number] {
      const std::lock_guard<std::mutex> lock(ended->mutex);
      state->ended.store(true, std::memory_order_release);
      if (state->watched) ended->jobs.push_back(number);
      ended->bell.notify_all();
    };
  }
  job_ = workers::Engine::make_job(std::move(options));
}

nb::object PoolJob::failure(const Status& status, std::uint64_t index) {
  if (status.code() == Code::kPeerDied || status.code() == Code::kClosed) {
    if (!stop_error_.is_valid()) stop_error_ = core_.stopped(label_, index);
    return stop_error_;
  }
  raise(status);
  return nb::steal(take_exception());
}

// --- sending

Sent send_task(PoolCore& core, const workers::JobPtr& job, MessageWriter& writer, std::uint64_t index,
               const workers::TaskOptions& options, bool patient) {
  const std::uint64_t bytes = writer.message.block_bytes();
  if (core.full(bytes) && !patient) return {{}, true};
  workers::Engine& engine = core.engine();
  const std::size_t inline_bytes = writer.message.bytes().size();
  Status sent;
  {
    Sending sending(core.tasks().arena(), writer, os::Deadline::never(), true, -1);
    do {
      sent = sending.prepare();
      if (sent && patient) sent = core.wait_for_room(bytes, sending.hooks());
      if (sent) sent = engine.submit(job, index, sending.message(), options);
    } while (sending.again(sent));
  }
  if (sent) count_put(inline_bytes);
  if (sent.code() == Code::kInterrupted) raise(sent);
  return {std::move(sent), false};
}

// Sends one task in a message of its own.
PoolJob::Fed PoolJob::send(Callee& callee, PyObject* arguments, Style style, std::uint64_t index,
                           const workers::TaskOptions& options, bool patient) {
  const WriterLoan writer;
  if (!callee.encode(arguments, style, *writer)) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) throw nb::python_error();
    fail(index, nb::steal(take_exception()));
    return Fed::kFailed;
  }
  const auto [sent, full] = send_task(core_, job_, *writer, index, options, patient);
  if (full) return Fed::kFull;
  if (sent) return Fed::kSent;
  if (sent.code() == Code::kInterrupted) throw nb::python_error();
  fail(index, failure(sent, index));
  return Fed::kFailed;
}

void PoolJob::flush(Batch& batch) {
  if (batch.tasks.empty()) return;
  workers::Engine& engine = core_.engine();
  std::vector<std::pair<std::uint64_t, Status>> failed;
  {
    const GilRelease released;
    for (const Batch::Small& each : batch.tasks) {
      const channel::Outgoing message{.bytes = {batch.bytes.data() + each.begin, each.bytes},
                                      .codec = each.codec};
      Status sent = engine.submit(job_, each.index, message, batch.options, true);
      if (sent) count_put(each.bytes);
      if (!sent) failed.emplace_back(each.index, std::move(sent));
    }
    engine.flush();
  }
  for (const auto& [index, status] : failed) fail(index, failure(status, index));
  batch.tasks.clear();
  batch.bytes.clear();
}

std::uint64_t PoolJob::feed_some(Callee& callee, PyObject* items, bool starred, std::size_t chunk,
                                 std::uint64_t next, std::uint64_t last, const workers::TaskOptions& options,
                                 bool patient) {
  Batch batch;
  batch.options = options;
  const WriterLoan writer;
  const Style style = chunk == 1 ? (starred ? Style::kStarItem : Style::kItem)
                                 : (starred ? Style::kStarChunk : Style::kChunk);
  while (next < last) {
    if (batch.tasks.size() == kBatch) flush(batch);
    if (batch.tasks.empty() && core_.full(0)) {
      if (!patient) return next;
      GilRelease released;
      PyHooks hooks(released);
      const Status room = core_.wait_for_room(0, hooks);
      released.acquire();
      if (room.code() == Code::kInterrupted) {
        raise(room);
        throw nb::python_error();
      }
      // If the pool has stopped, submit() fails with the reason.
    }
    // Encoding may run the program's code, and that may change the list.
    const Py_ssize_t begin = static_cast<Py_ssize_t>(next * chunk);
    if (begin >= count_of(items)) return last;
    const nb::object arguments =
        chunk == 1 ? nb::steal(PySequence_GetItem(items, begin))
                   : nb::steal(PySequence_GetSlice(items, begin, begin + static_cast<Py_ssize_t>(chunk)));
    if (!arguments.is_valid()) throw nb::python_error();
    writer->clear();
    const bool encoded = callee.encode(arguments.ptr(), style, *writer);
    if (encoded && writer->message.leases().empty()) {
      const std::size_t size = writer->message.bytes().size();
      batch.tasks.push_back({next, batch.bytes.size(), size, writer->codec});
      batch.bytes.insert(batch.bytes.end(), writer->message.bytes().begin(), writer->message.bytes().end());
    } else {
      PyErr_Clear();
      writer->clear();
      flush(batch);
      if (send(callee, arguments.ptr(), style, next, options, patient) == Fed::kFull) return next;
    }
    ++next;
  }
  flush(batch);
  return next;
}

nb::object PoolJob::submit(nb::handle function, nb::handle arguments, unsigned style, std::uint64_t index,
                           double seconds, std::uint32_t retries, bool patient) {
  Callee callee;
  Fed fed = Fed::kFailed;
  if (open(callee, function)) {
    fed = send(callee, arguments.ptr(), static_cast<Style>(style), index, task_options(seconds, retries),
               patient);
  } else {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) throw nb::python_error();
    fail(index, nb::steal(take_exception()));
  }
  if (fed == Fed::kFull) return nb::borrow(Py_False);
  return nb::none();
}

std::uint64_t PoolJob::feed(nb::handle function, nb::handle items, bool starred, std::size_t chunk,
                            std::uint64_t next, std::uint64_t most, double seconds, std::uint32_t retries,
                            bool patient) {
  const auto count = static_cast<std::uint64_t>(count_of(items.ptr()));
  const std::uint64_t last = std::min((count + chunk - 1) / chunk, next + most);
  Callee callee;
  if (open(callee, function))
    return feed_some(callee, items.ptr(), starred, chunk, next, last, task_options(seconds, retries),
                     patient);
  if (!PyErr_ExceptionMatches(PyExc_Exception)) throw nb::python_error();
  const nb::object error = nb::steal(take_exception());
  for (; next < last; ++next) fail(next, error);
  return last;
}

void PoolJob::seal() {
  workers::Engine& engine = core_.engine();
  const GilRelease released;
  engine.seal(job_);
}

void PoolJob::cancel_all() {
  workers::Engine& engine = core_.engine();
  const GilRelease released;
  engine.cancel_all(*job_);
}

int PoolJob::visit(visitproc visitor, void* argument) const {
  const auto see = [&](const nb::object& each) {
    return each.is_valid() ? visitor(each.ptr(), argument) : 0;
  };
  for (const auto& [index, exception] : early_) {
    if (const int stop = see(exception); stop != 0) return stop;
  }
  if (const int stop = see(label_); stop != 0) return stop;
  if (const int stop = last_.visit(visitor, argument); stop != 0) return stop;
  return see(stop_error_);
}

void PoolJob::clear() {
  // Empty the members first: the destructors of what they held may look at this object.
  const auto early = std::exchange(early_, {});
  const nb::object stopped = std::exchange(stop_error_, {});
  const nb::object label = std::exchange(label_, nb::none());
  const nb::object function = nb::steal(last_.take());
}

namespace {

int traverse_job(PyObject* self, visitproc visitor, void* argument) {
  if (const int stop = visitor(reinterpret_cast<PyObject*>(Py_TYPE(self)), argument); stop != 0) return stop;
  return nb::inst_ready(self) ? nb::inst_ptr<PoolJob>(self)->visit(visitor, argument) : 0;
}

int clear_job(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<PoolJob>(self)->clear();
  return 0;
}

}  // namespace

void bind_pool_job(nb::module_& module) {
  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_job)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear_job)},
                                {0, nullptr}};
  nb::class_<PoolJob>(module, "PoolJob", nb::type_slots(slots))
      .def(nb::init<nb::object, nb::object, std::uint64_t, bool, bool>(), nb::arg("core"),
           nb::arg("label").none(), nb::arg("number"), nb::arg("eager"), nb::arg("cancellable") = false)
      .def("submit", &PoolJob::submit)
      .def("feed", &PoolJob::feed)
      .def("fail", &PoolJob::fail)
      .def("seal", &PoolJob::seal)
      .def("cancel_all", &PoolJob::cancel_all)
      .def("map", &PoolJob::map, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg().none())
      .def("call", &PoolJob::call)
      .def("ended", &PoolJob::ended)
      .def("progress", &PoolJob::progress)
      .def("wait_progress", &PoolJob::wait_progress)
      .def("has_ended", &PoolJob::has_ended)
      .def("wait", &PoolJob::wait, nb::arg("timeout").none())
      .def("watch", &PoolJob::watch)
      .def("take", &PoolJob::take, nb::arg("most"), nb::arg("timeout").none())
      .def("gather", &PoolJob::gather)
      .def("explained", &PoolJob::explained);
}

}  // namespace forklift::py
