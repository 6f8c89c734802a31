// NumPy's C interface, found at run time: the package is built and works without NumPy, and one build serves
// NumPy 1.x and 2.x. What is relied on here (the first fields of an array and a dtype, the numbers of types
// and of a few functions) is the stable part of NumPy's ABI.
//
// All functions need the interpreter lock.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "forklift/dtype.h"
#include "forklift/shape.h"

namespace forklift::py {

// The head of NumPy's PyArrayObject.
struct ArrayHead {
  PyObject ob_base;
  char* data;
  int ndim;
  Py_ssize_t* shape;
  Py_ssize_t* strides;  // in bytes
  PyObject* base;
  PyObject* dtype;
  int flags;
};

class NumPy {
 public:
  // The loaded NumPy; nullptr without an exception as long as the program has not imported it.
  static const NumPy* loaded() { return instance_.array_type_ ? &instance_ : find(); }
  // Imports NumPy if need be. nullptr with an exception set if that fails.
  static const NumPy* require();

  // Has the program registered a reducer of its own for arrays?
  bool has_reducer() const;
  // An exact ndarray, no subclass.
  bool is_array(PyObject* object) const noexcept { return Py_TYPE(object) == array_type_; }
  bool is_array_or_subclass(PyObject* object) const noexcept {
    return PyObject_TypeCheck(object, array_type_);
  }
  // A NumPy scalar (numpy.generic), and what it is as an array without dimensions.
  bool is_scalar(PyObject* object) const noexcept { return PyObject_TypeCheck(object, generic_type_); }
  PyObject* as_array(PyObject* object) const;
  // The element type if it is a builtin number in native byte order, without metadata; 0 otherwise.
  std::uint8_t dtype_code(const ArrayHead& array) const;

  // A new array that owns its (uninitialised) memory.
  PyObject* empty(DType dtype, DimSpan shape, Order order) const;
  // An array over memory that `base` (reference stolen, also on failure) keeps alive.
  PyObject* over(void* data, DType dtype, DimSpan shape, Order order, bool writable, PyObject* base) const;
  // The same with strides in bytes.
  PyObject* over_strided(void* data, DType dtype, DimSpan shape, DimSpan strides, bool writable,
                         PyObject* base) const;

 private:
  static const NumPy* find();
  static bool load();
  PyObject* make(void* data, DType dtype, DimSpan shape, const Py_ssize_t* strides, int flags) const;
  PyObject* keep(PyObject* array, PyObject* base, bool writable) const;

  static NumPy instance_;
  PyTypeObject* array_type_ = nullptr;
  PyTypeObject* generic_type_ = nullptr;
  PyObject* reducers_ = nullptr;  // the tables that programs register in
  void** api_ = nullptr;
  PyObject* dtypes_[24] = {};  // NumPy's own object for each builtin number type
};

inline const ArrayHead& head_of(PyObject* array) noexcept {
  return *reinterpret_cast<const ArrayHead*>(array);
}
inline constexpr int kArrayC = 0x0001;
inline constexpr int kArrayFortran = 0x0002;
inline constexpr int kArrayAligned = 0x0100;
inline constexpr int kArrayWritable = 0x0400;

}  // namespace forklift::py
