// Python objects as operands of forklift::ops, and calls of them.
//
//   std::optional<PyOperand> b = PyOperand::from(object, PyOperand::kArrays);   // a Tensor, a number, an array
//   return compute({a, b}, [&] { return ops::add(a->get(), b->get()); });
//
// Needs the interpreter lock.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/ops/runtime.h"
#include "bindings/tensor/tensor.h"
#include "forklift/error.h"
#include "forklift/ops.h"

namespace forklift::py {

class PyOperand {
 public:
  // What is taken besides tensors and numbers: NumPy's arrays and numbers, which have a dtype; anything with DLPack.
  enum Takes {
    kArrays,
    kAnything
  };
  // Nothing: it is no operand. Throws what a conversion raises (an array of strings, an integer beyond 64 bits).
  static std::optional<PyOperand> from(PyObject* object, Takes takes);
  // TypeError where from() has nothing.
  static PyOperand require(PyObject* object) {
    return is_tensor(object) ? PyOperand(&tensor_of(object)) : converted(object);
  }

  ops::Operand get() const noexcept { return tensor_ ? ops::Operand(*tensor_) : ops::Operand(number_); }
  // Null: a number.
  const Tensor* tensor() const noexcept { return tensor_; }
  const ops::Number& number() const noexcept { return number_; }

  PyOperand(PyOperand&& other) noexcept;
  PyOperand& operator=(PyOperand&&) = delete;
  PyOperand(const PyOperand&) = delete;
  PyOperand& operator=(const PyOperand&) = delete;
  ~PyOperand() = default;

 private:
  explicit PyOperand(const Tensor* tensor) noexcept : tensor_(tensor), number_(0) {}
  explicit PyOperand(ops::Number number) noexcept : number_(number) {}
  explicit PyOperand(Tensor&& made);
  static PyOperand converted(PyObject* object);

  std::optional<TensorBox> made_;  // dropped without the interpreter lock
  const Tensor* tensor_ = nullptr;
  ops::Number number_;
};

// TypeError: it is a number.
const Tensor& required_tensor(const PyOperand& operand);

// A sequence of tensors or arrays. The operands keep what was converted.
struct Parts {
  std::vector<PyOperand> operands;
  std::vector<Tensor> tensors;
};
// TypeError: one of them is something else.
Parts parts_of(nanobind::handle sequence);

// The dtype that is named, or the other one for None.
DType dtype_or(nanobind::handle dtype, DType otherwise);

// Does an operation on these keep other Python threads waiting for long, or wait for the executor? Then it runs
// without the interpreter lock.
bool takes_long(const Tensor* tensor) noexcept;

// Calls `operation` and returns its result, where it was made; core errors become Python's.
template <class Operation>
auto run_operation(bool without_lock, Operation operation) {
  const auto run = [&] {
    std::optional<GilRelease> released;
    if (without_lock) released.emplace();
    return operation();
  };
  try {
    auto made = run();
    watch_forks();
    return made;
  } catch (const Error& error) {
    throw_failure(error.status());
  }
}

// The same of one that makes a Tensor, which is wrapped.
template <class Operation>
nanobind::object compute(bool without_lock, Operation operation) {
  auto made = run_operation(without_lock, operation);
  if constexpr (std::is_same_v<decltype(made), Result<Tensor>>) {
    forklift::py::require(made.status());
    return owned(wrap_tensor(std::move(*made)));
  } else {
    return owned(wrap_tensor(std::move(made)));
  }
}

// The same of one that makes several: a tuple.
template <class Operation>
nanobind::object compute_several(bool without_lock, Operation operation) {
  std::vector<Tensor> made = run_operation(without_lock, operation);
  nanobind::list objects;
  for (Tensor& tensor : made) {
    PyObject* const object = wrap_tensor(std::move(tensor));
    if (object == nullptr) throw nanobind::python_error();
    objects.append(nanobind::steal(object));
  }
  return nanobind::tuple(objects);
}

// The tensor on that device: itself if it lies there, or if there is no name. For use inside compute().
Tensor placed(const Tensor& tensor, const std::optional<std::string>& device);

// The tensor that an `out` argument names; null for None. TypeError for anything else.
const Tensor* out_tensor(nanobind::handle out);

}  // namespace forklift::py
