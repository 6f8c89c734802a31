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
#include <utility>

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
  static PyOperand require(PyObject* object);

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

  std::optional<TensorBox> made_;  // dropped without the interpreter lock
  const Tensor* tensor_ = nullptr;
  ops::Number number_;
};

// TypeError: it is a number.
const Tensor& required_tensor(const PyOperand& operand);

// Does an operation on these keep other Python threads waiting for long, or wait for the executor? Then it runs
// without the interpreter lock.
bool takes_long(const Tensor* tensor) noexcept;

// Calls `operation`, which makes a Tensor, and wraps its result; core errors become Python's.
template <class Operation>
nanobind::object compute(bool without_lock, Operation operation) {
  std::optional<Tensor> made;
  Status status;
  const auto run = [&] {
    try {
      made = operation();
    } catch (const Error& error) {
      status = error.status();
    }
  };
  if (without_lock) {
    const GilRelease released;
    run();
  } else {
    run();
  }
  forklift::py::require(status);
  watch_forks();
  PyObject* const object = wrap_tensor(*std::move(made));
  if (object == nullptr) throw nanobind::python_error();
  return nanobind::steal(object);
}

// The tensor, or the core's error as an exception, for use inside compute().
Tensor value(Result<Tensor> result);

// The tensor on that device: itself if it lies there, or if there is no name. For use inside compute().
Tensor placed(const Tensor& tensor, const std::optional<std::string>& device);

// The tensor that an `out` argument names; null for None. TypeError for anything else.
const Tensor* out_tensor(nanobind::handle out);

}  // namespace forklift::py
