#include "bindings/ops/operand.h"

#include <complex>
#include <string>

#include "bindings/tensor/create.h"
#include "bindings/tensor/numpy.h"
#include "ops/placement.h"

namespace nb = nanobind;

namespace forklift::py {
namespace {

// So many elements are computed within a few microseconds.
constexpr std::int64_t kFewElements = 8192;

std::optional<ops::Number> number_from(PyObject* object) {
  if (PyBool_Check(object)) return ops::Number(object == Py_True);
  if (PyFloat_CheckExact(object)) return ops::Number(PyFloat_AS_DOUBLE(object));
  if (PyLong_Check(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) {
      if (value == -1 && PyErr_Occurred()) throw nb::python_error();
      return ops::Number(value);
    }
    const unsigned long long large = PyLong_AsUnsignedLongLong(object);
    if (large == static_cast<unsigned long long>(-1) && PyErr_Occurred()) throw nb::python_error();
    return ops::Number(large);
  }
  if (PyComplex_CheckExact(object)) {
    const Py_complex value = PyComplex_AsCComplex(object);
    return ops::Number(std::complex<double>(value.real, value.imag));
  }
  return std::nullopt;
}

}  // namespace

PyOperand::PyOperand(Tensor&& made)
    : made_(std::in_place, std::move(made)), tensor_(&made_->tensor), number_(0) {}

PyOperand::PyOperand(PyOperand&& other) noexcept : tensor_(other.tensor_), number_(other.number_) {
  if (!other.made_) return;
  made_.emplace(std::move(other.made_->tensor));
  tensor_ = &made_->tensor;
}

std::optional<PyOperand> PyOperand::from(PyObject* object, Takes takes) {
  if (is_tensor(object)) return PyOperand(&tensor_of(object));
  if (const std::optional<ops::Number> number = number_from(object)) return PyOperand(*number);
  Tensor tensor;
  if (tensor_from_array(object, tensor)) return PyOperand(std::move(tensor));
  if (PyErr_Occurred()) throw nb::python_error();
  // Subclasses of float and complex that are none of NumPy's.
  if (PyFloat_Check(object)) return PyOperand(ops::Number(PyFloat_AsDouble(object)));
  if (takes == kAnything && PyObject_HasAttrString(object, "__dlpack__")) {
    if (!tensor_from_dlpack(object, tensor)) throw nb::python_error();
    return PyOperand(std::move(tensor));
  }
  return std::nullopt;
}

PyOperand PyOperand::converted(PyObject* object) {
  std::optional<PyOperand> operand = from(object, kAnything);
  if (!operand) {
    throw nb::type_error((std::string("a Tensor, an array or a number is needed, not ") +
                          Py_TYPE(object)->tp_name + "; forklift.tensor() makes one of nested lists")
                             .c_str());
  }
  return *std::move(operand);
}

const Tensor& required_tensor(const PyOperand& operand) {
  if (operand.tensor() == nullptr) throw nb::type_error("a Tensor or an array is needed, not a number");
  return *operand.tensor();
}

DType dtype_or(nb::handle dtype, DType otherwise) { return dtype.is_none() ? otherwise : parse_dtype(dtype); }

Parts parts_of(nb::handle sequence) {
  Parts parts;
  for (const nb::handle item : nb::borrow<nb::sequence>(sequence)) {
    parts.operands.push_back(PyOperand::require(item.ptr()));
    parts.tensors.push_back(required_tensor(parts.operands.back()));
  }
  return parts;
}

bool takes_long(const Tensor* tensor) noexcept {
  return tensor != nullptr && (tensor->numel() > kFewElements || is_computed(*tensor));
}

Tensor placed(const Tensor& tensor, const std::optional<std::string>& device) {
  if (!device || *device == tensor.device()) return tensor;
  return value_or_throw(ops::move_to(tensor, *device));
}

const Tensor* out_tensor(nb::handle out) {
  if (out.is_none()) return nullptr;
  if (PyTuple_Check(out.ptr()) && PyTuple_GET_SIZE(out.ptr()) == 1)
    return out_tensor(PyTuple_GET_ITEM(out.ptr(), 0));
  if (!is_tensor(out.ptr())) {
    throw nb::type_error(
        (std::string("out= must be a forklift.Tensor, not ") + Py_TYPE(out.ptr())->tp_name).c_str());
  }
  return &tensor_of(out.ptr());
}

}  // namespace forklift::py
