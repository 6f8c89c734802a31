#include "bindings/message/portable.h"

#include <string>

#include "bindings/core/block.h"
#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/message/frozen.h"
#include "bindings/message/numpy.h"
#include "bindings/tensor/numpy.h"
#include "bindings/tensor/tensor.h"
#include "message/transport.h"
#include "tensor/arena_storage.h"
#include "tensor/operations.h"

namespace forklift::py {

namespace {

bool string_value(PyObject* object, Value& value) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &length);
  if (!text) return false;
  value = std::string(text, static_cast<std::size_t>(length));
  return true;
}

bool integer_value(PyObject* object, Value& value) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) {
    if (number == -1 && PyErr_Occurred()) return false;
    value = static_cast<std::int64_t>(number);
    return true;
  }
  const unsigned long long large = PyLong_AsUnsignedLongLong(object);
  if (large == static_cast<unsigned long long>(-1) && PyErr_Occurred()) return false;
  value = static_cast<std::uint64_t>(large);
  return true;
}

bool convert(PyObject* object, Value& value, std::size_t depth);

bool sequence_value(PyObject* object, Value& value, std::size_t depth) {
  PyObject* items = PySequence_Fast(object, "a sequence");
  if (!items) return false;
  Value::List list(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(items)));
  bool done = true;
  for (std::size_t i = 0; done && i < list.size(); ++i) {
    done = convert(PySequence_Fast_GET_ITEM(items, static_cast<Py_ssize_t>(i)), list[i], depth + 1);
  }
  Py_DECREF(items);
  value = std::move(list);
  return done;
}

bool dictionary_value(PyObject* object, Value& value, std::size_t depth) {
  Value::Map map;
  map.reserve(static_cast<std::size_t>(PyDict_Size(object)));
  PyObject* key = nullptr;
  PyObject* item = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(object, &at, &key, &item)) {
    Value::Entry& entry = map.emplace_back();
    if (!convert(key, entry.first, depth + 1) || !convert(item, entry.second, depth + 1)) return false;
    if (!entry.first.is_scalar()) {
      PyErr_Format(PyExc_TypeError, "a key of a portable dict must be a number, str or bytes, not %.200s",
                   Py_TYPE(key)->tp_name);
      return false;
    }
  }
  value = std::move(map);
  return true;
}

// Its block, as the tensor of bytes that forklift/frozen.h reads.
bool frozen_value(PyObject* object, Value& value) {
  if (as_frozen(object)->offset != frozen::kRootOffset) {
    PyErr_SetString(PyExc_TypeError,
                    "a part of a frozen object is no portable value: send the whole, or part.to_python()");
    return false;
  }
  std::shared_ptr<Storage> storage = tensor::storage_over(block_lease(as_frozen(object)->block));
  const auto bytes = static_cast<std::int64_t>(storage->bytes());
  Result<Tensor> made = tensor::wrap(std::move(storage), DType::kUInt8, {bytes}, 0, true);
  if (!made) return raise(made.status()) != nullptr;
  value = *std::move(made);
  return true;
}

bool convert(PyObject* object, Value& value, std::size_t depth) {
  if (depth > kMaxValueDepth) {
    PyErr_SetString(PyExc_ValueError, "a portable value is nested too deep (or contains itself)");
    return false;
  }
  if (object == Py_None) {
    value = Value();
  } else if (PyBool_Check(object)) {
    value = Value(object == Py_True);
  } else if (PyLong_Check(object)) {
    return integer_value(object, value);
  } else if (PyFloat_Check(object)) {
    value = PyFloat_AS_DOUBLE(object);
  } else if (PyUnicode_Check(object)) {
    return string_value(object, value);
  } else if (PyBytes_Check(object)) {
    const auto* first = reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(object));
    value = Value::Bytes(first, first + PyBytes_GET_SIZE(object));
  } else if (PyList_Check(object) || PyTuple_Check(object)) {
    return sequence_value(object, value, depth);
  } else if (PyDict_Check(object)) {
    return dictionary_value(object, value, depth);
  } else if (is_tensor(object)) {
    value = tensor_of(object);
  } else if (is_frozen(object)) {
    return frozen_value(object, value);
  } else if (Tensor tensor; NumPy::loaded() && tensor_from_array(object, tensor)) {
    value = std::move(tensor);
  } else {
    if (!PyErr_Occurred()) {
      PyErr_Format(
          PyExc_TypeError,
          "%.200s is no portable value: None, bool, int, float, str, bytes, list, tuple, dict, NumPy "
          "arrays of numbers and forklift.Tensor are",
          Py_TYPE(object)->tp_name);
    }
    return false;
  }
  return true;
}

PyObject* list_object(const Value& list, bool arrays) {
  const detail::Packed* packed = list.packed();
  const Value::List* items = packed != nullptr ? nullptr : list.get_if<Value::List>();
  PyObject* object = PyList_New(static_cast<Py_ssize_t>(list.size()));
  for (std::size_t i = 0; object && i < list.size(); ++i) {
    PyObject* item = from_value(items != nullptr ? (*items)[i] : packed->at(i), arrays);
    if (item) {
      PyList_SET_ITEM(object, static_cast<Py_ssize_t>(i), item);
    } else {
      Py_CLEAR(object);
    }
  }
  return object;
}

PyObject* map_object(const Value::Map& map, bool arrays) {
  PyObject* object = PyDict_New();
  for (const Value::Entry& entry : map) {
    if (!object) break;
    PyObject* key = from_value(entry.first, arrays);
    PyObject* item = key ? from_value(entry.second, arrays) : nullptr;
    if (!item || PyDict_SetItem(object, key, item) != 0) Py_CLEAR(object);
    Py_XDECREF(key);
    Py_XDECREF(item);
  }
  return object;
}

}  // namespace

bool to_value(PyObject* object, Value& value) {
  if (convert(object, value, 0)) return true;
  const KeepError keep;
  drop_value(std::move(value));
  return false;
}

void drop_value(Value value) {
  if (value.is_scalar() && value.packed() == nullptr) return;
  const GilRelease released;
  value = Value();
}

PyObject* from_value(const Value& value, bool arrays) {
  switch (value.kind()) {
    case Value::Kind::kNull: Py_RETURN_NONE;
    case Value::Kind::kBool: return PyBool_FromLong(*value.get_if<bool>() ? 1 : 0);
    case Value::Kind::kInt: return PyLong_FromLongLong(*value.get_if<std::int64_t>());
    case Value::Kind::kUInt: return PyLong_FromUnsignedLongLong(*value.get_if<std::uint64_t>());
    case Value::Kind::kDouble: return PyFloat_FromDouble(*value.get_if<double>());
    case Value::Kind::kString: {
      const auto& text = *value.get_if<std::string>();
      return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr);
    }
    case Value::Kind::kBytes: {
      std::size_t size = 0;
      const std::byte* bytes = detail::bytes_in(value, size);
      return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes), static_cast<Py_ssize_t>(size));
    }
    case Value::Kind::kList: return list_object(value, arrays);
    case Value::Kind::kMap: return map_object(*value.get_if<Value::Map>(), arrays);
    case Value::Kind::kTensor: {
      const Tensor& tensor = *value.get_if<Tensor>();
      PyObject* wrapped = wrap_tensor(tensor);
      // NumPy knows no bfloat16: that stays a Tensor.
      if (!wrapped || !arrays || tensor.dtype() == DType::kBFloat16) return wrapped;
      PyObject* array = array_over_tensor(wrapped);
      Py_DECREF(wrapped);
      return array;
    }
  }
  return corrupt_message("a value of an unknown kind");
}

PyObject* from_message(MessageReader& reader, bool arrays) {
  GilRelease released;
  Result<Value> value = message::unpack(reader.message);
  released.acquire();
  if (!value) return raise(value.status());
  PyObject* object = from_value(*value, arrays);
  const KeepError keep;
  drop_value(*std::move(value));
  return object;
}

}  // namespace forklift::py
