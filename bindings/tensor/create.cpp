#include "bindings/tensor/create.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/tensor/numpy.h"
#include "bindings/tensor/tensor.h"
#include "device/device.h"
#include "ops/arrangement.h"
#include "ops/elementwise.h"
#include "ops/placement.h"
#include "ops/promotion.h"
#include "tensor/arena_storage.h"
#include "tensor/extent.h"
#include "tensor/operations.h"

namespace nb = nanobind;

namespace forklift::py {
namespace {

nb::object made(Tensor tensor) {
  PyObject* const object = wrap_tensor(std::move(tensor));
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

Tensor new_tensor(const std::vector<std::int64_t>& shape, DType dtype, bool zeroed) {
  Dims dims((DimSpan(shape)));
  const auto bytes = static_cast<std::size_t>(require(tensor::byte_count(dims, item_size(dtype))));
  if (bytes <= kQuickBytes) return require(tensor::in_arena(dims, dtype, zeroed));
  GilRelease released;
  Result<Tensor> made = tensor::in_arena(dims, dtype, zeroed);
  released.acquire();
  return require(std::move(made));
}

// Python's numbers, alone or in lists, become float32, int64, bool and complex64 where nobody says otherwise.
DType default_for(const Tensor& source) {
  if (source.dtype() == DType::kFloat64) return DType::kFloat32;
  return source.dtype() == DType::kComplex128 ? DType::kComplex64 : source.dtype();
}

Tensor converted(const Tensor& source, DType dtype) {
  if (dtype == source.dtype()) return copy_to_arena(source);
  GilRelease released;
  Result<Tensor> made = ops::convert(source, dtype);
  released.acquire();
  return require(std::move(made));
}

// Where new tensors are made (forklift.context).
Tensor to_target(Tensor tensor) {
  if (device::targets_cpu()) return tensor;
  GilRelease released;
  Result<Tensor> moved = ops::move_to_target(tensor);
  released.acquire();
  return require(std::move(moved));
}

}  // namespace

std::vector<std::int64_t> lengths_of(nb::handle shape) {
  if (PyIndex_Check(shape.ptr())) return {nb::cast<std::int64_t>(nb::int_(shape))};
  return nb::cast<std::vector<std::int64_t>>(shape);
}

DType parse_dtype(nb::handle object) {
  std::string text;
  if (PyUnicode_Check(object.ptr())) {
    text = nb::cast<std::string>(object);
  } else if (object.ptr() == reinterpret_cast<PyObject*>(&PyFloat_Type)) {
    return DType::kFloat32;
  } else if (object.ptr() == reinterpret_cast<PyObject*>(&PyComplex_Type)) {
    return DType::kComplex64;
  } else if (object.ptr() == reinterpret_cast<PyObject*>(&PyLong_Type)) {
    return DType::kInt64;
  } else if (PyType_Check(object.ptr())) {
    text = nb::cast<std::string>(object.attr("__name__"));  // numpy.float32, bool
  } else if (nb::hasattr(object, "name")) {
    text = nb::cast<std::string>(nb::str(object.attr("name")));
  } else {
    text = nb::cast<std::string>(nb::str(object));
    if (const std::size_t dot = text.rfind('.'); dot != std::string::npos)
      text.erase(0, dot + 1);  // torch.float32
  }
  std::optional<DType> dtype = dtype_from_name(text);
  if (!dtype) dtype = dtype_from_typestr(text);
  if (!dtype) {
    std::string lower = text;
    for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    dtype = dtype_from_name(lower);
  }
  if (!dtype) throw nb::type_error(("unknown dtype '" + text + "'").c_str());
  return *dtype;
}

std::optional<Tensor> any_array(PyObject* object) {
  Tensor tensor;
  if (is_tensor(object)) return tensor_of(object);
  if (tensor_from_array(object, tensor)) return tensor;
  if (PyErr_Occurred()) throw nb::python_error();
  if (!PyObject_HasAttrString(object, "__dlpack__")) return std::nullopt;
  if (!tensor_from_dlpack(object, tensor)) throw nb::python_error();
  return tensor;
}

Tensor copy_to_arena(const Tensor& source) {
  if (source.storage() && source.storage()->on_device()) {
    const GilRelease released;
    return value_or_throw(ops::convert(source, source.dtype()));
  }
  const std::vector<std::int64_t> shape(source.shape().begin(), source.shape().end());
  Tensor made = new_tensor(shape, source.dtype(), false);
  if (source.nbytes() <= kQuickBytes && !is_computed(source)) {
    require(tensor::copy_elements(made, source));
    return made;
  }
  Status status;
  {
    const GilRelease released;
    status = tensor::copy_elements(made, source);
  }
  require(status);
  return made;
}

namespace {

// An array of a number or nested lists, which NumPy understands. OverflowError: an integer does not fit into `dtype`.
nb::object numpy_array(nb::handle data, nb::handle dtype) {
  const nb::object asarray = nb::module_::import_("numpy").attr("asarray");
  nb::object array = asarray(data);
  if (dtype.is_none() || !ops::is_integer(parse_dtype(dtype))) return array;
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  const bool is_whole = kind == "i" || kind == "u" || kind == "O";  // O: larger than any integer of 64 bits
  return is_whole ? asarray(data, nb::str(name(parse_dtype(dtype)).data())) : array;
}

}  // namespace

Tensor new_from(nb::handle data, nb::handle dtype) {
  std::optional<Tensor> source = any_array(data.ptr());
  const bool has_dtype = source.has_value();
  if (!source) {
    source = any_array(numpy_array(data, dtype).ptr());
    if (!source) throw nb::type_error("no array of numbers can be made of this");
  }
  const TensorBox keep(*source);  // dropped without the interpreter lock
  const DType wanted = !dtype.is_none() ? parse_dtype(dtype)
                       : has_dtype      ? source->dtype()
                                        : default_for(*source);
  return to_target(converted(*source, wanted));
}

// Where new tensors are made.
Tensor new_on_target(const std::vector<std::int64_t>& shape, DType dtype, bool zeroed) {
  if (device::targets_cpu()) return new_tensor(shape, dtype, zeroed);
  Dims dims((DimSpan(shape)));
  GilRelease released;
  Result<Tensor> made = zeroed ? ops::filled(std::move(dims), std::int64_t{0}, dtype)
                               : ops::uninitialized(std::move(dims), dtype);
  released.acquire();
  return require(std::move(made));
}

void bind_factories(nb::module_& module) {
  module.def(
      "empty",
      [](nb::handle shape, nb::handle dtype) {
        return made(new_on_target(lengths_of(shape), parse_dtype(dtype), false));
      },
      nb::arg("shape"), nb::arg("dtype") = "float32");
  module.def(
      "zeros",
      [](nb::handle shape, nb::handle dtype) {
        return made(new_on_target(lengths_of(shape), parse_dtype(dtype), true));
      },
      nb::arg("shape"), nb::arg("dtype") = "float32");
  module.def(
      "tensor", [](nb::handle data, nb::handle dtype) { return made(new_from(data, dtype)); },
      nb::arg("data"), nb::arg("dtype") = nb::none());
}

}  // namespace forklift::py
