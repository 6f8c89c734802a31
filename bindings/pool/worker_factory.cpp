#include "bindings/pool/worker_factory.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "bindings/core/block.h"
#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/endpoints/queue.h"

namespace forklift::py {

namespace {

thread_local const WorkerFactory* minded = nullptr;

class Minding {
 public:
  explicit Minding(const WorkerFactory* factory) noexcept : before_(std::exchange(minded, factory)) {}
  ~Minding() { minded = before_; }
  Minding(const Minding&) = delete;
  Minding& operator=(const Minding&) = delete;

 private:
  const WorkerFactory* before_;
};

class PythonWorker final : public workers::WorkerHandle {
 public:
  PythonWorker(const WorkerFactory& factory, PyObject* process, pid_t pid, int sentinel)
      : factory_(factory),
        python_(Py_NewRef(factory.python)),
        process_(Py_NewRef(process)),
        pid_(pid),
        sentinel_(sentinel) {
    pidfd_ = os::Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (pidfd_.valid()) ::fcntl(pidfd_.get(), F_SETFD, FD_CLOEXEC);
  }
  ~PythonWorker() override {
    if (interpreter_ends()) return;
    const WithGil lock;
    const Minding minding(&factory_);
    Py_DECREF(process_);
    Py_DECREF(python_);
  }
  pid_t pid() const override { return pid_; }
  // Prefer the pidfd: Python's own sentinel is a pipe, which the worker's children may hold open.
  int sentinel() const override { return pidfd_.valid() ? pidfd_.get() : sentinel_; }
  void signal(int number) override {
    if (pidfd_.valid()) ::syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0);
  }
  int wait() override;

 private:
  const WorkerFactory& factory_;
  PyObject* python_;
  PyObject* process_;
  pid_t pid_;
  int sentinel_;
  os::Fd pidfd_;
};

int PythonWorker::wait() {
  if (interpreter_ends()) return 255;
  const WithGil lock;
  const Minding minding(&factory_);
  const KeepError keep;
  PyObject* code = PyObject_CallMethod(python_, "wait", "O", process_);
  const long exitcode = code && PyLong_Check(code) ? PyLong_AsLong(code) : 255;
  if (!code) PyErr_WriteUnraisable(process_);
  Py_XDECREF(code);
  return static_cast<int>(exitcode);
}

}  // namespace

const WorkerFactory* WorkerFactory::minding() noexcept { return minded; }

WorkerFactory::~WorkerFactory() {
  if (interpreter_ends()) return;
  const WithGil lock;
  Py_XDECREF(python);
  Py_XDECREF(error);
}

Result<std::unique_ptr<workers::WorkerHandle>> WorkerFactory::start(const workers::WorkerSlot& worker_slot) {
  if (interpreter_ends()) return {Code::kClosed, "the interpreter ends"};
  const WithGil lock;
  const Minding minding(this);
  tasks = worker_slot.tasks;
  PyObject* queues[2] = {};
  const channel::ChannelPtr channels[] = {worker_slot.tasks, worker_slot.answers};
  bool made = true;
  for (int i = 0; i < 2 && made; ++i) {
    queues[i] = PyObject_CallMethod(python, "queue", nullptr);
    made = queues[i] && adopt_channel(queues[i], channels[i]);
  }
  PyObject* table =
      made ? make_block(worker_slot.table, 0, worker_slot.table->size(), true, BlockMode::kShared) : nullptr;
  PyObject* started =
      table ? PyObject_CallMethod(python, "start", "OOOI", queues[0], queues[1], table, worker_slot.index)
            : nullptr;
  std::unique_ptr<workers::WorkerHandle> handle;
  PyObject* process = nullptr;
  int pid = 0;
  int sentinel = -1;
  if (started && PyArg_ParseTuple(started, "Oii", &process, &pid, &sentinel))
    handle = std::make_unique<PythonWorker>(*this, process, pid, sentinel);
  if (!handle) {
    PyObject* before = std::exchange(error, take_exception());
    Py_XDECREF(before);
  }
  for (PyObject* object : {queues[0], queues[1], table, started}) Py_XDECREF(object);
  if (!handle) {
    PyObject* text = error ? PyObject_Repr(error) : nullptr;
    const char* words = text ? PyUnicode_AsUTF8(text) : nullptr;
    const Status status(Code::kPeerDied, words ? words : "unknown error");
    Py_XDECREF(text);
    PyErr_Clear();
    return status;
  }
  return handle;
}

}  // namespace forklift::py
