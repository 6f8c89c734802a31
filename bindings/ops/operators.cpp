// Python's operators of forklift.Tensor.
#include "bindings/ops/ops.h"

#include <nanobind/operators.h>

#include <optional>

#include "bindings/ops/operand.h"

namespace nb = nanobind;

namespace forklift::py {
namespace {

// None, too, comes to the function, which says NotImplemented: x == None is False.
const auto kOther = nb::arg("other").none();

using BinaryFunction = Tensor (*)(const ops::Operand&, const ops::Operand&, ops::Out);
using UnaryFunction = Tensor (*)(const ops::Operand&, ops::Out);

nb::object apply(BinaryFunction function, const PyOperand& a, const PyOperand& b,
                 const Tensor* out = nullptr) {
  const bool without_lock = takes_long(a.tensor()) || takes_long(b.tensor());
  return compute(without_lock, [&] { return function(a.get(), b.get(), out ? ops::Out(*out) : ops::Out()); });
}

template <BinaryFunction function>
nb::object forward(nb::handle self, nb::handle other) {
  const std::optional<PyOperand> b = PyOperand::from(other.ptr(), PyOperand::kArrays);
  if (!b) return nb::borrow(Py_NotImplemented);
  return apply(function, PyOperand::require(self.ptr()), *b);
}

template <BinaryFunction function>
nb::object reflected(nb::handle self, nb::handle other) {
  const std::optional<PyOperand> a = PyOperand::from(other.ptr(), PyOperand::kArrays);
  if (!a) return nb::borrow(Py_NotImplemented);
  return apply(function, *a, PyOperand::require(self.ptr()));
}

// a += b writes into a's memory, where other processes see it.
template <BinaryFunction function>
nb::object in_place(nb::handle self, nb::handle other) {
  const std::optional<PyOperand> b = PyOperand::from(other.ptr(), PyOperand::kArrays);
  if (!b) return nb::borrow(Py_NotImplemented);
  const PyOperand a = PyOperand::require(self.ptr());
  apply(function, a, *b, a.tensor());
  return nb::borrow(self);
}

template <UnaryFunction function>
nb::object prefix(nb::handle self) {
  const PyOperand x = PyOperand::require(self.ptr());
  return compute(takes_long(x.tensor()), [&] { return function(x.get(), {}); });
}

template <bool reflected>
nb::object multiply(nb::handle self, nb::handle other) {
  const std::optional<PyOperand> operand = PyOperand::from(other.ptr(), PyOperand::kArrays);
  if (!operand || operand->tensor() == nullptr) return nb::borrow(Py_NotImplemented);
  const Tensor& own = tensor_of(self.ptr());
  const Tensor& theirs = *operand->tensor();
  return compute(true, [&] { return reflected ? ops::matmul(theirs, own) : ops::matmul(own, theirs); });
}

// The product, which has the shape of `self`, written into its memory.
nb::object multiply_in_place(nb::handle self, nb::handle other) {
  const std::optional<PyOperand> operand = PyOperand::from(other.ptr(), PyOperand::kArrays);
  if (!operand || operand->tensor() == nullptr) return nb::borrow(Py_NotImplemented);
  const Tensor& own = tensor_of(self.ptr());
  compute(true, [&] { return ops::matmul(own, *operand->tensor(), own); });
  return nb::borrow(self);
}

template <BinaryFunction function>
void define(nb::class_<TensorBox>& type, const char* name, const char* reflected_name,
            const char* in_place_name) {
  type.def(name, forward<function>, kOther)
      .def(reflected_name, reflected<function>, kOther)
      .def(in_place_name, in_place<function>, kOther);
}

}  // namespace

void bind_operators(nb::class_<TensorBox>& type) {
  define<ops::add>(type, "__add__", "__radd__", "__iadd__");
  define<ops::subtract>(type, "__sub__", "__rsub__", "__isub__");
  define<ops::multiply>(type, "__mul__", "__rmul__", "__imul__");
  define<ops::divide>(type, "__truediv__", "__rtruediv__", "__itruediv__");
  define<ops::floor_divide>(type, "__floordiv__", "__rfloordiv__", "__ifloordiv__");
  define<ops::remainder>(type, "__mod__", "__rmod__", "__imod__");
  define<ops::bitwise_and>(type, "__and__", "__rand__", "__iand__");
  define<ops::bitwise_or>(type, "__or__", "__ror__", "__ior__");
  define<ops::bitwise_xor>(type, "__xor__", "__rxor__", "__ixor__");
  define<ops::bitwise_left_shift>(type, "__lshift__", "__rlshift__", "__ilshift__");
  define<ops::bitwise_right_shift>(type, "__rshift__", "__rrshift__", "__irshift__");
  type.def(
          "__pow__",
          [](nb::handle self, nb::handle other, nb::handle modulus) {
            return modulus.is_none() ? forward<ops::pow>(self, other) : nb::borrow(Py_NotImplemented);
          },
          nb::arg("other").none(), nb::arg("modulus") = nb::none())
      .def(
          "__rpow__",
          [](nb::handle self, nb::handle other, nb::handle modulus) {
            return modulus.is_none() ? reflected<ops::pow>(self, other) : nb::borrow(Py_NotImplemented);
          },
          nb::arg("other").none(), nb::arg("modulus") = nb::none())
      .def("__ipow__", in_place<ops::pow>, kOther);
  type.def("__matmul__", multiply<false>, kOther)
      .def("__rmatmul__", multiply<true>, kOther)
      .def("__imatmul__", multiply_in_place, kOther);
  type.def("__eq__", forward<ops::equal>, kOther)
      .def("__ne__", forward<ops::not_equal>, kOther)
      .def("__lt__", forward<ops::less>, kOther)
      .def("__le__", forward<ops::less_equal>, kOther)
      .def("__gt__", forward<ops::greater>, kOther)
      .def("__ge__", forward<ops::greater_equal>, kOther)
      // As an object: comparing makes tensors, and elements change.
      .def("__hash__", [](nb::handle self) { return reinterpret_cast<Py_ssize_t>(self.ptr()) >> 4; });
  type.def("__neg__", prefix<ops::negative>)
      .def("__pos__", prefix<ops::positive>)
      .def("__abs__", prefix<ops::abs>)
      .def("__invert__", prefix<ops::bitwise_invert>);
}

}  // namespace forklift::py
