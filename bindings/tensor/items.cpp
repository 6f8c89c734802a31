#include "bindings/tensor/items.h"

#include <nanobind/stl/complex.h>

#include <complex>
#include <cstring>
#include <optional>

#include "bindings/core/errors.h"
#include "bindings/tensor/tensor.h"
#include "device/device.h"
#include "ops/arrangement.h"
#include "ops/placement.h"
#include "tensor/operations.h"
#include "tensor/pending.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

template <class T>
T required(Result<T> result) {
  if (!result) {
    raise(result.status());
    throw nb::python_error();
  }
  return *std::move(result);
}

// Calls visit(T{}) with the element type.
template <class Visit>
auto with_type(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kBool: return visit(bool{});
    case DType::kInt8: return visit(std::int8_t{});
    case DType::kInt16: return visit(std::int16_t{});
    case DType::kInt32: return visit(std::int32_t{});
    case DType::kInt64: return visit(std::int64_t{});
    case DType::kUInt8: return visit(std::uint8_t{});
    case DType::kUInt16: return visit(std::uint16_t{});
    case DType::kUInt32: return visit(std::uint32_t{});
    case DType::kUInt64: return visit(std::uint64_t{});
    case DType::kFloat16: return visit(Float16(0.0F));
    case DType::kBFloat16: return visit(BFloat16(0.0F));
    case DType::kFloat32: return visit(float{});
    case DType::kFloat64: return visit(double{});
    case DType::kComplex64: return visit(std::complex<float>{});
    case DType::kComplex128: return visit(std::complex<double>{});
  }
  throw nb::type_error("a tensor of an unknown type");
}

// Precondition: the tensor is settled.
nb::object element(const Tensor& tensor, std::int64_t offset) {
  const std::byte* from = detail::StorageAccess::address(*tensor.storage()) + tensor.byte_offset() +
                          offset * static_cast<std::int64_t>(tensor.item_size());
  return with_type(tensor.dtype(), [from](auto item) -> nb::object {
    using T = decltype(item);
    std::memcpy(&item, from, sizeof item);
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      return nb::cast(static_cast<float>(item));
    } else {
      return nb::cast(item);
    }
  });
}

std::optional<std::int64_t> bound(PyObject* object) {
  if (object == Py_None) return std::nullopt;
  const Py_ssize_t value = PyNumber_AsSsize_t(object, nullptr);  // clamps, as slices do
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

}  // namespace

Tensor index_tensor(const Tensor& tensor, nb::handle key) {
  const nb::tuple keys = PyTuple_Check(key.ptr()) ? nb::borrow<nb::tuple>(key) : nb::make_tuple(key);
  std::size_t used = 0;
  for (const nb::handle item : keys) used += item.ptr() == Py_Ellipsis || item.is_none() ? 0U : 1U;
  if (used > tensor.ndim()) {
    throw nb::index_error(
        ("too many indices for a tensor of " + std::to_string(tensor.ndim()) + " dimensions").c_str());
  }
  Tensor view = tensor;
  std::int64_t dim = 0;
  bool skipped = false;
  for (const nb::handle item : keys) {
    if (item.is_none()) {
      view = required(ops::add_dimension(view, dim));
      ++dim;
    } else if (item.ptr() == Py_Ellipsis) {
      if (skipped) throw nb::index_error("an index can have one Ellipsis only");
      skipped = true;
      dim += static_cast<std::int64_t>(tensor.ndim() - used);
    } else if (PySlice_Check(item.ptr())) {
      auto* slice = reinterpret_cast<PySliceObject*>(item.ptr());
      const std::int64_t step = bound(slice->step).value_or(1);
      view = required(tensor::slice(view, dim, bound(slice->start), bound(slice->stop), step));
      ++dim;
    } else if (PyIndex_Check(item.ptr()) && !PyBool_Check(item.ptr())) {
      const Py_ssize_t index = PyNumber_AsSsize_t(item.ptr(), PyExc_IndexError);
      if (index == -1 && PyErr_Occurred()) throw nb::python_error();
      const std::int64_t length = view.shape()[static_cast<std::size_t>(dim)];
      if (index < -length || index >= length) {
        throw nb::index_error(("index " + std::to_string(index) + " is out of range for a dimension of " +
                               std::to_string(length))
                                  .c_str());
      }
      view = required(tensor::select(view, dim, index));
    } else {
      throw nb::type_error(
          "a tensor is indexed by integers, slices, None and Ellipsis; use .numpy() for more");
    }
  }
  return view;
}

nb::object only_item(const Tensor& tensor) {
  if (tensor.numel() != 1) throw nb::value_error("item() needs a tensor of one element");
  if (tensor.storage()->on_device()) return only_item(require(ops::move_to(tensor, device::kCpu)));
  require(settled(tensor, false));
  return element(tensor, 0);
}

nb::object nested_list(const Tensor& tensor, std::size_t dim, std::int64_t offset) {
  if (dim == 0 && tensor.storage() && tensor.storage()->on_device())
    return nested_list(require(ops::move_to(tensor, device::kCpu)), 0, 0);
  if (dim == 0) require(settled(tensor, false));
  if (dim == tensor.ndim()) return element(tensor, offset);
  nb::list items;
  for (std::int64_t i = 0; i < tensor.shape()[dim]; ++i) {
    items.append(nested_list(tensor, dim + 1, offset + i * tensor.strides()[dim]));
  }
  return items;
}

void fill_with(Tensor& tensor, nb::handle value) {
  const Status status = with_type(tensor.dtype(), [&](auto item) -> Status {
    using T = decltype(item);
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      return tensor::fill_elements(tensor, T(nb::cast<float>(value)));
    } else if constexpr (std::is_same_v<T, bool>) {
      const int truth = PyObject_IsTrue(value.ptr());
      if (truth < 0) throw nb::python_error();
      return tensor::fill_elements(tensor, truth != 0);
    } else {
      T number{};
      if (!nb::try_cast(value, number)) {
        PyErr_Format(PyExc_ValueError, "%R does not fit a tensor of %s", value.ptr(),
                     name(tensor.dtype()).data());
        throw nb::python_error();
      }
      return tensor::fill_elements(tensor, number);
    }
  });
  if (!status) {
    raise(status);
    throw nb::python_error();
  }
}

}  // namespace forklift::py
