// The messages between a pool and its workers: tasks and answers.
//
// A task is a TaskHead, the context of a trace if it carries one, the function's pickle if it is separate, and the
// arguments, encoded by the native codec or by pickle, as the message's codec says. An answer is the encoded value, or for an error the tuple
// that describes it (`Description` in forklift.multiprocessing._pool.workers).
//
// A function that pickles as its name (a module's function, a class) is pickled once for a whole map, and
// unpickled once by each worker. Any other function is in one pickle with the arguments, as in the standard
// library, so each task gets a copy of its own, and changes to that copy's state end with the task. A
// function that pickle refuses is pickled by cloudpickle, if that is installed.
//
// All functions must be called with the interpreter lock held.
#pragma once

#include <Python.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings/message/reader.h"
#include "bindings/message/writer.h"
#include "bindings/pool/task_span.h"
#include "workers/worker.h"

namespace forklift::py {

// How a task's arguments are passed to its function.
enum class Style : std::uint8_t {
  kCall = 0,       // a tuple: function(*arguments)
  kCallNamed = 1,  // a tuple and a dictionary: function(*items, **named)
  kItem = 2,       // function(item)
  kStarItem = 3,   // function(*item)
  kChunk = 4,      // a list, tuple or range: function(item) for each
  kStarChunk = 5,  // likewise: function(*item) for each
};

// How many items a list, a tuple or a range has.
inline Py_ssize_t count_of(PyObject* items) {
  return PyRange_Check(items) ? PyObject_Size(items) : PySequence_Fast_GET_SIZE(items);
}

struct TaskHead {
  Style style = Style::kCall;
  std::uint8_t keep = 0;             // 1: the worker may keep the function for later tasks
  std::uint16_t context_bytes = 0;   // of a trace (task_span.h)
  std::uint32_t function_bytes = 0;  // 0: the payload is a tuple of the function and its arguments
};

// A function that workers shall call. Holds a borrowed reference to it.
class Callee {
 public:
  // False with an exception set if the function cannot be sent.
  bool open(PyObject* function);
  // The tasks carry this context of a trace (task_span.h).
  void carry(const std::string& context) { context_ = context; }
  // Writes the whole message of a task. False with an exception set; the writer is then empty.
  bool encode(PyObject* arguments, Style style, MessageWriter& writer);
  // Whether the function is sent as its name, so that this object can serve further calls of it.
  bool by_name() const noexcept { return how_ == How::kByName; }

 private:
  enum class How : std::uint8_t {
    kByName,    // a separate pickle of the name: a worker uses the same object for each task
    kTogether,  // in one pickle with the arguments
    kAlone      // a separate pickle by cloudpickle
  };
  void begin(Style style, MessageWriter& writer) const;
  bool open_by_value();

  PyObject* function_ = nullptr;
  std::string context_;
  std::string pickle_;
  How how_ = How::kTogether;
};

// Opens callees, and keeps the last one that goes as its name: most calls are of the function of the call before.
class LastCallee {
 public:
  LastCallee() = default;
  ~LastCallee() { Py_XDECREF(function_); }
  LastCallee(const LastCallee&) = delete;
  LastCallee& operator=(const LastCallee&) = delete;

  // As Callee::open(). The caller's callee is a copy: encoding may run the program's code, and that may make calls, too.
  bool open(PyObject* function, Callee& callee);
  // For the garbage collector.
  int visit(visitproc visitor, void* argument) const {
    return function_ != nullptr ? visitor(function_, argument) : 0;
  }
  // Likewise: the reference, or nullptr, is the caller's.
  PyObject* take() noexcept { return std::exchange(function_, nullptr); }

 private:
  PyObject* function_ = nullptr;
  Callee callee_;
};

// The unpickled functions that a worker keeps for later tasks.
class KeptFunctions {
 public:
  KeptFunctions() = default;
  ~KeptFunctions();
  KeptFunctions(const KeptFunctions&) = delete;
  KeptFunctions& operator=(const KeptFunctions&) = delete;
  // The function of this pickle. New reference; nullptr with an exception set.
  PyObject* load(std::string_view pickle, bool keep);

 private:
  std::vector<std::pair<std::string, PyObject*>> kept_;
};

// The item at which a task failed.
struct Failure {
  static constexpr Py_ssize_t kFunction = -1;  // as `place`: the function itself could not be unpickled

  Failure() = default;
  ~Failure() { Py_XDECREF(item); }
  Failure(const Failure&) = delete;
  Failure& operator=(const Failure&) = delete;

  bool undecoded = false;    // the task could not be decoded, so nothing was called
  Py_ssize_t place = 0;      // the item's index in the task
  PyObject* item = nullptr;  // owned: a tuple that holds the item; nullptr: not known
};

// What a task called, for the pool's insights.
struct Called {
  Called() = default;
  ~Called() { clear(); }
  Called(const Called&) = delete;
  Called& operator=(const Called&) = delete;
  void clear() noexcept {
    Py_CLEAR(function);
    Py_CLEAR(arguments);
  }
  // How many items the task had; 1 for a single call.
  std::uint64_t items() const;
  // Whether they are items of a list, so that another chunksize would make other tasks.
  bool listed() const noexcept { return style >= Style::kItem; }

  PyObject* function = nullptr;   // owned; null while the task could not be decoded
  PyObject* arguments = nullptr;  // owned
  Style style = Style::kCall;
};

// Decodes the task in the message, clears the reader and calls the function. New reference, or nullptr with
// an exception set. Names the task if the worker is traced. `called`, if it is not null, gets what was called.
PyObject* perform_task(MessageReader& reader, KeptFunctions& functions, Failure& failure,
                       workers::Worker& worker, const WorkerIdentity& identity, Called* called = nullptr);

}  // namespace forklift::py
