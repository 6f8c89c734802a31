#include "pool_crew.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "block.h"
#include "errors.h"
#include "gil.h"
#include "queue.h"

namespace forklift::py {

namespace {

thread_local const Crew* minded = nullptr;

class Minding {
 public:
  explicit Minding(const Crew* crew) noexcept : before_(std::exchange(minded, crew)) {}
  ~Minding() { minded = before_; }
  Minding(const Minding&) = delete;
  Minding& operator=(const Minding&) = delete;

 private:
  const Crew* before_;
};

class PythonWorker final : public process::WorkerHandle {
 public:
  PythonWorker(const Crew& crew, PyObject* process, pid_t pid, int sentinel)
      : crew_(crew),
        python_(Py_NewRef(crew.python)),
        process_(Py_NewRef(process)),
        pid_(pid),
        sentinel_(sentinel) {
    pidfd_ = os::Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (pidfd_.valid()) ::fcntl(pidfd_.get(), F_SETFD, FD_CLOEXEC);
  }
  ~PythonWorker() override {
    if (interpreter_ends()) return;
    const WithGil lock;
    const Minding minding(&crew_);
    Py_DECREF(process_);
    Py_DECREF(python_);
  }
  pid_t pid() const override { return pid_; }
  // A worker's own children may keep the pipe open that is its sentinel in Python.
  int sentinel() const override { return pidfd_.valid() ? pidfd_.get() : sentinel_; }
  void signal(int number) override {
    if (pidfd_.valid()) ::syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0);
  }
  int bury() override;

 private:
  const Crew& crew_;
  PyObject* python_;
  PyObject* process_;
  pid_t pid_;
  int sentinel_;
  os::Fd pidfd_;
};

int PythonWorker::bury() {
  if (interpreter_ends()) return 255;
  const WithGil lock;
  const Minding minding(&crew_);
  const KeepError keep;
  PyObject* code = PyObject_CallMethod(python_, "bury", "O", process_);
  const long exitcode = code && PyLong_Check(code) ? PyLong_AsLong(code) : 255;
  if (!code) PyErr_WriteUnraisable(process_);
  Py_XDECREF(code);
  return static_cast<int>(exitcode);
}

}  // namespace

const Crew* Crew::minding() noexcept { return minded; }

Crew::~Crew() {
  if (interpreter_ends()) return;
  const WithGil lock;
  Py_XDECREF(python);
  Py_XDECREF(error);
}

Result<std::unique_ptr<process::WorkerHandle>> Crew::start(const process::Seat& seat) {
  if (interpreter_ends()) return {Code::kClosed, "the interpreter ends"};
  const WithGil lock;
  const Minding minding(this);
  tasks = seat.tasks;
  PyObject* queues[2] = {};
  const channel::ChannelPtr channels[] = {seat.tasks, seat.answers};
  bool made = true;
  for (int i = 0; i < 2 && made; ++i) {
    queues[i] = PyObject_CallMethod(python, "queue", nullptr);
    made = queues[i] && adopt_channel(queues[i], channels[i]);
  }
  PyObject* board = made ? make_block(seat.board, 0, seat.board->size(), true, BlockMode::kShared) : nullptr;
  PyObject* started =
      board ? PyObject_CallMethod(python, "start", "OOOI", queues[0], queues[1], board, seat.index) : nullptr;
  std::unique_ptr<process::WorkerHandle> handle;
  PyObject* process = nullptr;
  int pid = 0;
  int sentinel = -1;
  if (started && PyArg_ParseTuple(started, "Oii", &process, &pid, &sentinel))
    handle = std::make_unique<PythonWorker>(*this, process, pid, sentinel);
  if (!handle) {
    PyObject* before = std::exchange(error, take_exception());
    Py_XDECREF(before);
  }
  for (PyObject* object : {queues[0], queues[1], board, started}) Py_XDECREF(object);
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
