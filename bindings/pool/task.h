// What travels between a pool and its workers: a task's message, and the answer's.
//
// A task is a TaskHead, the function's pickle where it travels apart, and the arguments as the native codec
// or pickle encodes them; the message's codec says which. An answer with a value is that value; one with an
// error is the tuple that forklift.multiprocessing._pool.failures describes it by.
//
// A function that is found by its name (a module's function, a class) is pickled once for a whole map, and
// unpickled once by a worker. Others are one pickle with the arguments, as in the standard library: what a
// task does to their state ends with it. A function that pickle refuses goes by cloudpickle, if there is one.
//
// All functions need the interpreter lock.
#pragma once

#include <Python.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings/message/reader.h"
#include "bindings/message/writer.h"

namespace forklift::py {

// How the arguments are given.
enum class Style : std::uint8_t {
  kCall = 0,       // a tuple: function(*arguments)
  kCallNamed = 1,  // a tuple and a dictionary
  kItem = 2,       // function(item)
  kStarItem = 3,   // function(*item)
  kChunk = 4,      // a list, of which each is an item
  kStarChunk = 5,
};

struct TaskHead {
  Style style = Style::kCall;
  std::uint8_t keep = 0;  // 1: the function may be kept for the next task
  std::uint16_t unused = 0;
  std::uint32_t function_bytes = 0;  // 0: the arguments are a tuple of the function and them
};

// A function that is to be called in a worker. Refers to it.
class Callee {
 public:
  // False with an exception set: it cannot be sent.
  bool open(PyObject* function);
  // The whole message of a task. False with an exception set; the writer is empty then.
  bool encode(PyObject* arguments, Style style, MessageWriter& writer);

 private:
  enum class How : std::uint8_t {
    kByName,    // by reference: the same object each time
    kTogether,  // with the arguments
    kAlone      // a pickle that only cloudpickle could make
  };
  void begin(Style style, MessageWriter& writer) const;
  bool open_by_value();

  PyObject* function_ = nullptr;
  std::string pickle_;
  How how_ = How::kTogether;
};

// Functions that a worker keeps.
class KeptFunctions {
 public:
  KeptFunctions() = default;
  ~KeptFunctions();
  KeptFunctions(const KeptFunctions&) = delete;
  KeptFunctions& operator=(const KeptFunctions&) = delete;
  // New reference; nullptr with an exception set.
  PyObject* load(std::string_view pickle, bool keep);

 private:
  std::vector<std::pair<std::string, PyObject*>> kept_;
};

// What a task was about when it failed.
struct Failure {
  static constexpr Py_ssize_t kFunction = -1;  // the function is not there

  Failure() = default;
  ~Failure() { Py_XDECREF(item); }
  Failure(const Failure&) = delete;
  Failure& operator=(const Failure&) = delete;

  Py_ssize_t place = 0;      // of the item in the task
  PyObject* item = nullptr;  // owned, in a tuple; nullptr: not known
};

// Calls what the message asks for, having given up the message. New reference, or nullptr with an exception.
PyObject* perform_task(MessageReader& reader, KeptFunctions& functions, Failure& failure);

}  // namespace forklift::py
