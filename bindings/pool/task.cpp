#include "bindings/pool/task.h"

#include <cstring>

#include "bindings/core/errors.h"
#include "bindings/message/native.h"
#include "bindings/message/object.h"
#include "bindings/message/pickling.h"

namespace forklift::py {
namespace {

constexpr std::size_t kMostKept = 64;

// Owns a reference.
class Ref {
 public:
  explicit Ref(PyObject* object = nullptr) noexcept : object_(object) {}
  ~Ref() { Py_XDECREF(object_); }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  PyObject* get() const noexcept { return object_; }
  PyObject* release() noexcept { return std::exchange(object_, nullptr); }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  PyObject* object_;
};

PyObject* from_failures(const char* name) {
  return import_attribute("forklift.multiprocessing._pool.failures", name);
}

// Whether the object is a function, built-in function or class, which pickles as its name, and the program
// has not registered a reducer for its type.
bool goes_by_name(PyObject* function) {
  if (!PyFunction_Check(function) &&
      !(PyCFunction_Check(function) &&
        (!PyCFunction_GET_SELF(function) || PyModule_Check(PyCFunction_GET_SELF(function)))) &&
      Py_TYPE(function) != &PyType_Type)
    return false;
  static PyObject* const registered = [] {
    const Ref pickler(import_attribute("multiprocessing.reduction", "ForkingPickler"));
    return pickler ? PyObject_GetAttrString(pickler.get(), "_extra_reducers") : nullptr;
  }();
  if (!registered || !PyDict_Check(registered)) {
    PyErr_Clear();
    return false;
  }
  return PyDict_Contains(registered, reinterpret_cast<PyObject*>(Py_TYPE(function))) == 0;
}

bool bytes_of(PyObject* bytes, std::string& out) {
  char* data = nullptr;
  Py_ssize_t length = 0;
  if (PyBytes_AsStringAndSize(bytes, &data, &length) != 0) return false;
  out.assign(data, static_cast<std::size_t>(length));
  return true;
}

PyObject* unpickle(std::string_view bytes) {
  static PyObject* const loads = import_attribute("_pickle", "loads");
  if (!loads) return nullptr;
  const Ref text(PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
  return text ? PyObject_CallOneArg(loads, text.get()) : nullptr;
}

}  // namespace

bool Callee::open(PyObject* function) {
  function_ = function;
  if (goes_by_name(function)) {
    static PyObject* const dumps = import_attribute("_pickle", "dumps");
    const Ref bytes(dumps ? PyObject_CallOneArg(dumps, function) : nullptr);
    if (bytes) {
      how_ = How::kByName;
      return bytes_of(bytes.get(), pickle_);
    }
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;
    PyErr_Clear();
  }
  how_ = How::kTogether;
  return true;
}

// False if cloudpickle is not installed or cannot pickle the function either; the exception that was set
// before the call is then set again.
bool Callee::open_by_value() {
  PyObject* error = take_exception();
  static PyObject* const pickle_function = from_failures("pickle_by_value");
  const Ref bytes(pickle_function ? PyObject_CallOneArg(pickle_function, function_) : nullptr);
  if (bytes && bytes.get() != Py_None && bytes_of(bytes.get(), pickle_)) {
    how_ = How::kAlone;
    Py_DECREF(error);
    return true;
  }
  PyErr_Clear();
  put_exception(error);
  return false;
}

void Callee::begin(Style style, MessageWriter& writer) const {
  const TaskHead head{.style = style,
                      .keep = how_ == How::kByName,
                      .context_bytes = static_cast<std::uint16_t>(context_.size()),
                      .function_bytes = static_cast<std::uint32_t>(pickle_.size())};
  const std::span<const std::byte> words[] = {std::as_bytes(std::span(&head, 1)),
                                              std::as_bytes(std::span(context_)),
                                              std::as_bytes(std::span(pickle_))};
  std::vector<std::byte>& out = writer.message.bytes();
  for (const std::span<const std::byte> each : words) out.insert(out.end(), each.begin(), each.end());
}

bool Callee::encode(PyObject* arguments, Style style, MessageWriter& writer) {
  begin(style, writer);
  if (how_ == How::kTogether) {
    const Ref both(PyTuple_Pack(2, function_, arguments));
    if (both && encode_pickle(both.get(), writer)) return true;
    if (!PyErr_ExceptionMatches(PyExc_Exception) || !open_by_value()) {
      const KeepError keep;
      writer.clear();
      return false;
    }
    writer.clear();
    begin(style, writer);
  }
  switch (encode_native(arguments, writer)) {
    case Encoded::kDone: return true;
    case Encoded::kFailed: return false;
    case Encoded::kUnsupported: break;
  }
  begin(style, writer);
  if (encode_pickle(arguments, writer)) return true;
  const KeepError keep;
  writer.clear();
  return false;
}

bool LastCallee::open(PyObject* function, Callee& callee) {
  if (function_ == function) {
    callee = callee_;
    return true;
  }
  if (!callee.open(function)) return false;
  if (callee.by_name()) {
    callee_ = callee;
    PyObject* const before = std::exchange(function_, Py_NewRef(function));
    Py_XDECREF(before);
  }
  return true;
}

KeptFunctions::~KeptFunctions() {
  for (const auto& [pickle, function] : kept_) Py_DECREF(function);
}

PyObject* KeptFunctions::load(std::string_view pickle, bool keep) {
  if (!keep) return unpickle(pickle);
  for (const auto& [known, function] : kept_) {
    if (known == pickle) return Py_NewRef(function);
  }
  PyObject* function = unpickle(pickle);
  if (!function) return nullptr;
  if (kept_.size() >= kMostKept) {
    Py_DECREF(kept_.front().second);
    kept_.erase(kept_.begin());
  }
  kept_.emplace_back(std::string(pickle), Py_NewRef(function));
  return function;
}

namespace {

PyObject* call_with(PyObject* function, PyObject* items, PyObject* named) {
  if (PyTuple_CheckExact(items)) return PyObject_Call(function, items, named);
  const Ref arguments(PySequence_Tuple(items));
  return arguments ? PyObject_Call(function, arguments.get(), named) : nullptr;
}

// Records the item at which a task failed. Keeps the exception that is set.
void note(Failure& failure, Py_ssize_t place, PyObject* item) {
  const KeepError keep;
  failure.place = place;
  failure.item = PyTuple_Pack(1, item);
}

PyObject* call_one(PyObject* function, PyObject* item, bool starred, Py_ssize_t place, Failure& failure) {
  PyObject* result = starred ? call_with(function, item, nullptr) : PyObject_CallOneArg(function, item);
  if (!result) note(failure, place, item);
  return result;
}

// A list, a tuple, or a range, of which only the number of the present call exists.
PyObject* call_each(PyObject* function, PyObject* items, bool starred, Failure& failure) {
  const Py_ssize_t count = PyObject_Size(items);
  const Ref each(count < 0 ? nullptr : PyObject_GetIter(items));
  Ref results(each ? PyList_New(count) : nullptr);
  for (Py_ssize_t i = 0; results && i < count; ++i) {
    const Ref item(PyIter_Next(each.get()));
    if (!item) return PyErr_Occurred() ? nullptr : corrupt_message("a chunk that became shorter");
    PyObject* result = call_one(function, item.get(), starred, i, failure);
    if (!result) return nullptr;
    PyList_SET_ITEM(results.get(), i, result);
  }
  return results.release();
}

PyObject* attribute(PyObject* object, const char* name) {
  PyObject* const found = PyObject_GetAttrString(object, name);
  if (!found) PyErr_Clear();
  return found;
}

// What traces call the task: the qualified name of the function, of what a functools.partial calls, or of the type.
void name_task(workers::Worker& worker, PyObject* function) {
  const Ref called(attribute(function, "func"));
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(function));
  const Ref own(attribute(called ? called.get() : function, "__qualname__"));
  const Ref name(own ? Py_NewRef(own.get()) : attribute(type, "__qualname__"));
  Py_ssize_t length = 0;
  const char* const text = name ? PyUnicode_AsUTF8AndSize(name.get(), &length) : nullptr;
  if (text != nullptr) worker.name_task({text, static_cast<std::size_t>(length)});
  PyErr_Clear();
}

PyObject* call(PyObject* function, PyObject* arguments, Style style, Failure& failure) {
  switch (style) {
    case Style::kCall: return call_with(function, arguments, nullptr);
    case Style::kCallNamed: {
      PyObject* items = nullptr;
      PyObject* named = nullptr;
      if (!PyArg_ParseTuple(arguments, "OO", &items, &named)) return nullptr;
      if (PyDict_Check(named)) return call_with(function, items, named);
      const Ref dictionary(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyDict_Type), named));
      return dictionary ? call_with(function, items, dictionary.get()) : nullptr;
    }
    case Style::kItem: return call_one(function, arguments, false, 0, failure);
    case Style::kStarItem: return call_one(function, arguments, true, 0, failure);
    case Style::kChunk: return call_each(function, arguments, false, failure);
    case Style::kStarChunk: return call_each(function, arguments, true, failure);
  }
  return corrupt_message("a task of unknown style");
}

// How many items a task has: those of its chunk, or one.
std::uint64_t items_of(Style style, PyObject* arguments) {
  const bool chunk = style == Style::kChunk || style == Style::kStarChunk;
  if (!chunk || !arguments) return 1;
  if (!PyList_Check(arguments) && !PyTuple_Check(arguments) && !PyRange_Check(arguments)) return 1;
  return static_cast<std::uint64_t>(count_of(arguments));
}

PyObject* call_in_span(const std::string& context, const WorkerIdentity& worker, PyObject* function,
                       PyObject* arguments, Style style, Failure& failure) {
  if (context.empty()) return call(function, arguments, style, failure);
  TaskSpan span(context, worker, function, items_of(style, arguments));
  PyObject* const result = call(function, arguments, style, failure);
  span.end();
  return result;
}

void note_called(Called* noted, PyObject* function, PyObject* arguments, Style style) {
  if (noted == nullptr) return;
  noted->function = Py_NewRef(function);
  noted->arguments = Py_NewRef(arguments);
  noted->style = style;
}

}  // namespace

std::uint64_t Called::items() const { return items_of(style, arguments); }

PyObject* perform_task(MessageReader& reader, KeptFunctions& functions, Failure& failure,
                       workers::Worker& worker, const WorkerIdentity& identity, Called* noted) {
  const std::span<const std::byte> bytes = reader.message.bytes();
  TaskHead head;
  if (bytes.size() < sizeof head) return corrupt_message("a task without its head");
  std::memcpy(&head, bytes.data(), sizeof head);
  const std::size_t room = bytes.size() - sizeof head;
  if (head.context_bytes > room) return corrupt_message("a task's context");
  if (head.function_bytes > room - head.context_bytes) return corrupt_message("a task's function");
  const auto* text = reinterpret_cast<const char*>(bytes.data() + sizeof head);
  const std::string context(text, head.context_bytes);  // the message is gone when the function is called
  reader.begin = sizeof head + head.context_bytes + head.function_bytes;
  failure.undecoded = true;
  if (head.function_bytes != 0) {
    PyObject* loaded = functions.load({text + head.context_bytes, head.function_bytes}, head.keep != 0);
    if (!loaded) {
      failure.place = Failure::kFunction;
      return nullptr;
    }
    const Ref owned(loaded);
    const Ref arguments(decode_object(reader));
    reader.clear();
    if (!arguments) return nullptr;
    failure.undecoded = false;
    if (worker.is_traced()) [[unlikely]]
      name_task(worker, loaded);
    note_called(noted, loaded, arguments.get(), head.style);
    return call_in_span(context, identity, loaded, arguments.get(), head.style, failure);
  }
  const Ref both(decode_object(reader));
  reader.clear();
  PyObject* called = nullptr;
  PyObject* arguments = nullptr;
  if (!both || !PyArg_ParseTuple(both.get(), "OO", &called, &arguments)) return nullptr;
  failure.undecoded = false;
  if (worker.is_traced()) [[unlikely]]
    name_task(worker, called);
  note_called(noted, called, arguments, head.style);
  return call_in_span(context, identity, called, arguments, head.style, failure);
}

}  // namespace forklift::py
