// PoolWorker, the worker process's side of a pool: takes a task, calls its function, sends the answer.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <utility>

#include "bindings/core/block.h"
#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/core/stats.h"
#include "bindings/endpoints/queue.h"
#include "bindings/message/object.h"
#include "bindings/message/sending.h"
#include "bindings/pool/pool.h"
#include "bindings/pool/task.h"
#include "workers/worker.h"

namespace nb = nanobind;

namespace forklift::py {
namespace {

using workers::Ending;

class PoolWorker {
 public:
  PoolWorker(nb::handle tasks, nb::handle answers, nb::handle table, std::uint32_t index,
             std::uint64_t most_tasks, std::uint64_t most_memory, int orphan_fd)
      : orphan_fd_(orphan_fd) {
    workers::WorkerSlot worker_slot;
    worker_slot.tasks = channel_of(tasks.ptr());
    worker_slot.answers = worker_slot.tasks ? channel_of(answers.ptr()) : nullptr;
    if (!worker_slot.tasks || !worker_slot.answers) throw nb::python_error();
    if (!is_block(table.ptr())) throw nb::type_error("a pool's table is a block of memory");
    worker_slot.table = block_lease(table.ptr());
    worker_slot.index = index;
    worker_slot.most_tasks = most_tasks;
    worker_slot.most_memory = most_memory;
    Result<workers::Worker> opened = workers::Worker::open(std::move(worker_slot));
    require(opened.status());
    worker_ = *std::move(opened);
  }

  // Reports that the worker can take tasks. False: the worker shall leave.
  bool ready() {
    GilRelease released;
    PyHooks hooks(released);
    hooks.orphan_fd = orphan_fd_;
    const Status status = worker_->ready(&hooks);
    released.acquire();
    return go_on(status);
  }

  // Reports that the program's initializer is about to be called.
  void initializing() { worker_->initializing(); }

  // Reports that the worker could not be made ready.
  void fail(nb::handle description) {
    const WriterLoan writer;
    if (!encode_object(description.ptr(), *writer)) throw nb::python_error();
    const GilRelease released;
    (void)worker_->fail(writer->message.bytes(), writer->codec);
  }

  // Performs tasks until the worker shall leave. For a task that raises, sends describe(exception, place,
  // item); for a result that cannot be sent, unsendable(exception, result). `ends`: what ends the worker
  // instead (Ends). `pool`: its name, in traces.
  void run(nb::object describe, nb::object unsendable, unsigned ends, std::string pool) {
    identity_ = {std::move(pool), worker_->index()};
    ends_ = static_cast<Ends>(ends);
    KeptFunctions functions;
    while (take_one(functions, describe, unsendable)) {
    }
  }

 private:
  // The failures of a task that end the worker, with the exception, instead of being sent.
  enum class Ends : std::uint8_t {
    kNoException,  // what is no Exception, such as SystemExit
    kUndecoded,    // whatever is raised while the task is decoded
    kNothing
  };
  // False: the worker shall leave, since the pool told it to or the parent is dead. Raises for other
  // failures.
  static bool go_on(const Status& status) {
    if (status) return true;
    if (status.code() == Code::kClosed || status.code() == Code::kPeerDied) return false;
    raise(status);
    throw nb::python_error();
  }

  bool take_one(KeptFunctions& functions, const nb::object& describe, const nb::object& unsendable) {
    nb::object result;
    Failure failure;
    Called called;
    const bool insights = worker_->has_insights();
    {
      const ReaderLoan reader;
      Status status;
      {
        GilRelease released;
        PyHooks hooks(released);
        hooks.orphan_fd = orphan_fd_;
        status = worker_->next(reader->message, &hooks);
        if (status && !reader->message.leases().empty()) reader->isolate();
      }
      if (!go_on(status)) return false;
      count_got();
      result = nb::steal(
          perform_task(*reader, functions, failure, *worker_, identity_, insights ? &called : nullptr));
    }
    if (insights) note_worked(called);
    if (!result.is_valid()) {
      if (failure.undecoded && ends_ == Ends::kUndecoded) throw nb::python_error();
      const nb::object error = exception();
      return answer_error(
          describe(error, failure.place, failure.item ? nb::borrow(failure.item) : nb::none()));
    }
    const WriterLoan writer;
    if (!encode_last_use(result.ptr(), *writer)) return answer_error(unsendable(exception(), result));
    const std::optional<bool> answered = answer(Ending::kValue, *writer);
    return answered ? *answered : answer_error(unsendable(exception(), result));
  }

  // For the pool's insights. Drops the references: a result that refers to an argument may be its last use.
  void note_worked(Called& called) {
    const KeepError keep;
    if (worker_->worked(called.items(), called.listed())) {
      static PyObject* const describe = import_attribute("forklift.multiprocessing._pool.label", "called");
      PyObject* const function = called.function ? called.function : Py_None;
      PyObject* const arguments = called.arguments ? called.arguments : Py_None;
      const nb::object text = nb::steal(describe ? PyObject_CallFunction(describe, "OOI", function, arguments,
                                                                         static_cast<unsigned>(called.style))
                                                 : nullptr);
      Py_ssize_t bytes = 0;
      const char* const utf8 = text.is_valid() ? PyUnicode_AsUTF8AndSize(text.ptr(), &bytes) : nullptr;
      if (utf8) {
        worker_->describe({utf8, static_cast<std::size_t>(bytes)});
      } else {
        PyErr_WriteUnraisable(function);
      }
    }
    called.clear();
  }

  // Takes the exception that is set. One that is no Exception (SystemExit, KeyboardInterrupt) passes through
  // and ends the worker, if it shall.
  nb::object exception() const {
    if (ends_ == Ends::kNoException && !PyErr_ExceptionMatches(PyExc_Exception)) throw nb::python_error();
    return nb::steal(take_exception());
  }

  // Whether the worker shall go on. nullopt, with an exception set: the answer was not sent.
  std::optional<bool> answer(Ending ending, MessageWriter& writer) {
    const std::size_t inline_bytes = writer.message.bytes().size();
    Status status;
    {
      Sending sending(worker_->arena(), writer, os::Deadline::never(), true, orphan_fd_);
      do {
        status = sending.prepare();
        if (status) status = worker_->answer(ending, sending.message());
      } while (sending.again(status));
    }
    if (status) {
      count_put(inline_bytes);
      return true;
    }
    if (status.code() == Code::kClosed || status.code() == Code::kPeerDied) return false;
    raise(status);
    return std::nullopt;
  }

  bool answer_error(nb::object description) {
    const WriterLoan writer;
    if (!encode_object(description.ptr(), *writer)) throw nb::python_error();
    const std::optional<bool> answered = answer(Ending::kError, *writer);
    if (!answered) throw nb::python_error();
    return *answered;
  }

  std::optional<workers::Worker> worker_;
  WorkerIdentity identity_;
  int orphan_fd_;
  Ends ends_ = Ends::kNoException;
};

}  // namespace

void bind_pool_worker(nb::module_& module) {
  nb::class_<PoolWorker>(module, "PoolWorker")
      .def(nb::init<nb::handle, nb::handle, nb::handle, std::uint32_t, std::uint64_t, std::uint64_t, int>(),
           nb::arg("tasks"), nb::arg("answers"), nb::arg("table"), nb::arg("index"), nb::arg("most_tasks"),
           nb::arg("most_memory"), nb::arg("orphan_fd"))
      .def("initializing", &PoolWorker::initializing)
      .def("ready", &PoolWorker::ready)
      .def("fail", &PoolWorker::fail)
      .def("run", &PoolWorker::run, nb::arg("describe"), nb::arg("unsendable"), nb::arg("ends") = 0,
           nb::arg("pool") = "");
}

}  // namespace forklift::py
