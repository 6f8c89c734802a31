#include "bindings/message/numpy.h"

#include "bindings/core/errors.h"
#include "bindings/message/codec_table.h"

namespace forklift::py {

namespace {

// Places in NumPy's function table.
constexpr int kArrayTypeSlot = 2;
constexpr int kGenericTypeSlot = 10;
constexpr int kDescrFromTypeSlot = 45;
constexpr int kNewSlot = 93;
constexpr int kSetBaseSlot = 282;

using NewFunction = PyObject* (*)(PyTypeObject*, int, const Py_ssize_t*, int, const Py_ssize_t*, void*, int,
                                  int, PyObject*);
using SetBaseFunction = int (*)(PyObject*, PyObject*);
using DescrFunction = PyObject* (*)(int);

// The head of NumPy's PyArray_Descr, the same in 1.x and 2.x up to here.
struct DescrHead {
  PyObject ob_base;
  PyTypeObject* typeobj;
  char kind;
  char type;
  char byteorder;
  char flags;
  int type_num;
};

// NumPy's type numbers, and ours. long and long long are both 64 bits wide here.
constexpr std::uint8_t kCodes[24] = {1,  2, 6,  3,  7, 4, 8, 5, 9, 5, 9, 12,
                                     13, 0, 14, 15, 0, 0, 0, 0, 0, 0, 0, 10};

int type_number(DType dtype) {
  switch (dtype) {
    case DType::kBool: return 0;
    case DType::kInt8: return 1;
    case DType::kUInt8: return 2;
    case DType::kInt16: return 3;
    case DType::kUInt16: return 4;
    case DType::kInt32: return 5;
    case DType::kUInt32: return 6;
    case DType::kInt64: return 7;
    case DType::kUInt64: return 8;
    case DType::kFloat32: return 11;
    case DType::kFloat64: return 12;
    case DType::kComplex64: return 14;
    case DType::kComplex128: return 15;
    case DType::kFloat16: return 23;
    default: return -1;
  }
}

}  // namespace

NumPy NumPy::instance_;

bool NumPy::load() {
  PyObject* capsule = import_attribute("numpy._core._multiarray_umath", "_ARRAY_API");
  if (!capsule) {
    PyErr_Clear();
    capsule = import_attribute("numpy.core._multiarray_umath", "_ARRAY_API");
  }
  if (!capsule) return false;
  void** api = static_cast<void**>(PyCapsule_GetPointer(capsule, nullptr));
  // The table lives as long as NumPy, which is never unloaded.
  Py_DECREF(capsule);
  if (!api) return false;
  const auto descr = reinterpret_cast<DescrFunction>(api[kDescrFromTypeSlot]);
  for (int number = 0; number < 24; ++number) {
    if (kCodes[number] == 0) continue;
    instance_.dtypes_[number] = descr(number);
    if (!instance_.dtypes_[number]) return false;
  }
  PyObject* announce = import_attribute("forklift.reducers", "numpy_was_loaded");
  PyObject* tables = import_attribute("forklift.reducers", "registered_tables");
  PyObject* done =
      announce ? PyObject_CallOneArg(announce, static_cast<PyObject*>(api[kArrayTypeSlot])) : nullptr;
  instance_.reducers_ = tables ? PyObject_CallNoArgs(tables) : nullptr;
  Py_XDECREF(done);
  Py_XDECREF(announce);
  Py_XDECREF(tables);
  if (!done || !instance_.reducers_) return false;
  instance_.api_ = api;
  instance_.generic_type_ = static_cast<PyTypeObject*>(api[kGenericTypeSlot]);
  instance_.array_type_ = static_cast<PyTypeObject*>(api[kArrayTypeSlot]);
  register_array_encoder(instance_.array_type_);
  return true;
}

// Without NumPy in sys.modules there can be no array, and importing it would cost a program that uses none a
// tenth of a second.
const NumPy* NumPy::find() {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* module = PyDict_GetItemString(modules, "numpy");
  if (!module || !PyObject_HasAttrString(module, "ndarray")) return nullptr;
  if (!load()) {
    PyErr_Clear();
    return nullptr;
  }
  return &instance_;
}

const NumPy* NumPy::require() {
  if (instance_.array_type_) return &instance_;
  PyObject* module = PyImport_ImportModule("numpy");
  if (!module) return nullptr;
  Py_DECREF(module);
  return load() ? &instance_ : nullptr;
}

std::uint8_t NumPy::dtype_code(const ArrayHead& array) const {
  const auto* descr = reinterpret_cast<const DescrHead*>(array.dtype);
  const int number = descr->type_num;
  if (number < 0 || number >= 24 || kCodes[number] == 0) return 0;
  if (array.dtype == dtypes_[number]) return kCodes[number];
  // Not NumPy's own object: an equal one (unpickled, say), one with metadata, or in the other byte order.
  if (descr->byteorder != '=' && descr->byteorder != '|') return 0;
  PyObject* metadata = PyObject_GetAttrString(array.dtype, "metadata");
  const bool plain = metadata == Py_None;
  Py_XDECREF(metadata);
  PyErr_Clear();
  return plain ? kCodes[number] : std::uint8_t{0};
}

PyObject* NumPy::make(void* data, DType dtype, DimSpan shape, const Py_ssize_t* strides, int flags) const {
  const int number = type_number(dtype);
  if (number < 0) {
    PyErr_Format(PyExc_TypeError, "NumPy has no type for %s", name(dtype).data());
    return nullptr;
  }
  static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
  return reinterpret_cast<NewFunction>(api_[kNewSlot])(array_type_, static_cast<int>(shape.size()),
                                                       reinterpret_cast<const Py_ssize_t*>(shape.data()),
                                                       number, strides, data, 0, flags, nullptr);
}

PyObject* NumPy::keep(PyObject* array, PyObject* base, bool writable) const {
  if (!array || reinterpret_cast<SetBaseFunction>(api_[kSetBaseSlot])(array, base) != 0) {
    if (!array) Py_XDECREF(base);
    Py_XDECREF(array);
    return nullptr;
  }
  if (!writable) reinterpret_cast<ArrayHead*>(array)->flags &= ~kArrayWritable;
  return array;
}

bool NumPy::has_reducer() const {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(reducers_); ++i) {
    if (PyDict_GetItem(PyTuple_GET_ITEM(reducers_, i), reinterpret_cast<PyObject*>(array_type_))) return true;
  }
  return false;
}

PyObject* NumPy::as_array(PyObject* object) const {
  PyObject* convert = import_attribute("numpy", "asarray");
  PyObject* array = convert ? PyObject_CallOneArg(convert, object) : nullptr;
  Py_XDECREF(convert);
  return array;
}

PyObject* NumPy::empty(DType dtype, DimSpan shape, Order order) const {
  return make(nullptr, dtype, shape, nullptr, order == Order::kF ? 1 : 0);
}

PyObject* NumPy::over(void* data, DType dtype, DimSpan shape, Order order, bool writable,
                      PyObject* base) const {
  const int layout = order == Order::kF ? kArrayFortran : kArrayC;
  return keep(make(data, dtype, shape, nullptr, layout | kArrayAligned | kArrayWritable), base, writable);
}

PyObject* NumPy::over_strided(void* data, DType dtype, DimSpan shape, DimSpan strides, bool writable,
                              PyObject* base) const {
  return keep(make(data, dtype, shape, reinterpret_cast<const Py_ssize_t*>(strides.data()),
                   kArrayAligned | kArrayWritable),
              base, writable);
}

}  // namespace forklift::py
