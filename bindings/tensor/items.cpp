#include "bindings/tensor/items.h"

#include <nanobind/stl/complex.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/ops/operand.h"
#include "bindings/tensor/create.h"
#include "bindings/tensor/tensor.h"
#include "device/device.h"
#include "ops/elementwise.h"
#include "ops/placement.h"
#include "ops/promotion.h"
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

namespace {

// One entry of a key. An array or list of another kind than integers and bools is refused by the core.
ops::Index entry_of(nb::handle item) {
  PyObject* const object = item.ptr();
  if (object == Py_Ellipsis) return ops::all_others;
  if (object == Py_None) return ops::new_axis;
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    const std::int64_t step = bound(slice->step).value_or(1);
    return ops::Slice{bound(slice->start), bound(slice->stop), step};
  }
  if (PyBool_Check(object)) {
    const bool truth = object == Py_True;
    Tensor tensor = Tensor::wrap(Storage::heap(1), DType::kBool, Dims{});
    std::memcpy(detail::StorageAccess::address(*tensor.storage()), &truth, 1);
    return ops::Index(std::move(tensor));
  }
  if (std::optional<Tensor> tensor = any_array(object)) {
    // A single integer makes a view, wherever it lies.
    if (tensor->ndim() == 0 && ops::is_integer(tensor->dtype()))
      return ops::Index(nb::cast<std::int64_t>(only_item(*tensor)));
    return ops::Index(*std::move(tensor));
  }
  if (PyIndex_Check(object)) {
    const Py_ssize_t index = PyNumber_AsSsize_t(object, PyExc_IndexError);
    if (index == -1 && PyErr_Occurred()) throw nb::python_error();
    return ops::Index(index);
  }
  if (PyList_Check(object) || PyTuple_Check(object)) {
    nb::object array = nb::module_::import_("numpy").attr("asarray")(item);
    if (nb::len(item) == 0) array = array.attr("astype")("int64");
    if (std::optional<Tensor> tensor = any_array(array.ptr())) return ops::Index(*std::move(tensor));
  }
  throw nb::index_error(
      (std::string("a tensor is indexed by integers, slices, None, Ellipsis, and by tensors, "
                   "arrays and lists of integers or bools, not by ") +
       Py_TYPE(object)->tp_name)
          .c_str());
}

}  // namespace

ops::Selection index_tensor(const Tensor& tensor, nb::handle key) {
  std::vector<ops::Index> entries;
  if (PyTuple_Check(key.ptr())) {
    for (const nb::handle item : nb::borrow<nb::tuple>(key)) entries.push_back(entry_of(item));
  } else {
    entries.push_back(entry_of(key));
  }
  const bool plain = std::none_of(entries.begin(), entries.end(), [](const ops::Index& entry) {
    return std::holds_alternative<Tensor>(entry.value());
  });
  return require_index(!plain, [&] {
    const std::vector<ops::Index> own =
        std::move(entries);  // tensors are dropped without the interpreter lock
    return ops::select_items(tensor, own);
  });
}

void set_items(const Tensor& tensor, nb::handle key, nb::handle value) {
  const ops::Selection chosen = index_tensor(tensor, key);
  std::optional<PyOperand> operand = PyOperand::from(value.ptr(), PyOperand::kAnything);
  // What lies on a device is set by an operation there.
  const std::shared_ptr<Storage>& memory = tensor.storage();
  const bool here = memory == nullptr || !memory->on_device();
  if (here && chosen.is_view() && (!operand || operand->tensor() == nullptr) && !PyList_Check(value.ptr()) &&
      !PyTuple_Check(value.ptr())) {
    const TensorBox view(chosen.view);
    Tensor target = view.tensor;
    return fill_with(target, value);
  }
  if (!operand) {  // NumPy understands lists
    const nb::object array = nb::module_::import_("numpy").attr("asarray")(value);
    const TensorBox source(new_from(array, nb::str(name(tensor.dtype()).data())));
    GilRelease released;
    Status status = ops::scatter(tensor, chosen, source.tensor);
    released.acquire();
    return require(status);
  }
  GilRelease released;
  Status status = ops::scatter(tensor, chosen, operand->get());
  released.acquire();
  require(status);
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
  const auto fill = [&](auto item) { return ops::fill(tensor, dtype_of<decltype(item)>(), &item); };
  const Status status = with_type(tensor.dtype(), [&](auto item) -> Status {
    using T = decltype(item);
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      return fill(T(nb::cast<float>(value)));
    } else if constexpr (std::is_same_v<T, bool>) {
      const int truth = PyObject_IsTrue(value.ptr());
      if (truth < 0) throw nb::python_error();
      return fill(truth != 0);
    } else {
      T number{};
      if (!nb::try_cast(value, number)) {
        PyErr_Format(PyExc_ValueError, "%R does not fit a tensor of %s", value.ptr(),
                     name(tensor.dtype()).data());
        throw nb::python_error();
      }
      return fill(number);
    }
  });
  if (!status) {
    raise(status);
    throw nb::python_error();
  }
}

}  // namespace forklift::py
