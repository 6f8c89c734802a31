// What the Python array API standard asks of a namespace and of its arrays besides operations.
#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <complex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/core/gil.h"
#include "bindings/ops/operand.h"
#include "bindings/ops/ops.h"
#include "bindings/tensor/create.h"
#include "bindings/tensor/items.h"
#include "bindings/tensor/numpy.h"
#include "ops/elementwise.h"
#include "ops/promotion.h"
#include "tensor/operations.h"

namespace nb = nanobind;

namespace forklift::py {
namespace {

using ops::Kind;

constexpr std::array<std::string_view, 4> kVersions = {"2021.12", "2022.12", "2023.12", "2024.12"};

// The dtype that an argument names, or that of an array.
DType dtype_of_argument(nb::handle object) {
  if (const std::optional<Tensor> array = any_array(object.ptr())) return array->dtype();
  return parse_dtype(object);
}

// Nothing: it is no name of a kind.
std::optional<bool> is_of_kind(DType dtype, std::string_view name) {
  const Kind kind = ops::kind_of(dtype);
  if (name == "bool") return kind == Kind::kBool;
  if (name == "signed integer") return kind == Kind::kSigned;
  if (name == "unsigned integer") return kind == Kind::kUnsigned;
  if (name == "integral") return ops::is_integer(dtype);
  if (name == "real floating") return kind == Kind::kReal;
  if (name == "complex floating") return kind == Kind::kComplex;
  if (name == "numeric") return kind != Kind::kBool;
  return std::nullopt;
}

bool is_dtype(DType dtype, nb::handle kind) {
  if (PyTuple_Check(kind.ptr())) {
    for (const nb::handle each : nb::borrow<nb::tuple>(kind)) {
      if (is_dtype(dtype, each)) return true;
    }
    return false;
  }
  if (PyUnicode_Check(kind.ptr())) {
    const auto text = nb::cast<std::string>(kind);
    if (const std::optional<bool> answer = is_of_kind(dtype, text)) return *answer;
    if (!dtype_from_name(text)) {
      throw nb::value_error(
          ("isdtype: '" + text +
           "' is neither a dtype nor one of the kinds bool, signed integer, unsigned integer, "
           "integral, real floating, complex floating, numeric")
              .c_str());
    }
  }
  return dtype == parse_dtype(kind);
}

// `source` as the arguments want it: itself where they allow it, else a copy. ValueError: copy=False needs one.
nb::object brought(nb::handle original, const Tensor& source, DType dtype,
                   const std::optional<std::string>& device, std::optional<bool> copy) {
  const bool moves = device && *device != source.device();
  const bool converts = dtype != source.dtype();
  if (copy == false && (moves || converts)) {
    throw nb::value_error(("copy=False, but " + source.to_string() + " must be copied to become " +
                           std::string(name(dtype)) + " on " + device.value_or(source.device()))
                              .c_str());
  }
  if (is_tensor(original.ptr()) && !moves && !converts && copy != true) return nb::borrow(original);
  const bool copies = converts || copy == true;
  return compute(copies || moves, [&] {
    return placed(copies ? value_or_throw(ops::convert(source, dtype)) : source, device);
  });
}

nb::object as_array(nb::handle object, nb::handle dtype, const std::optional<std::string>& device,
                    std::optional<bool> copy) {
  std::optional<Tensor> source = any_array(object.ptr());
  if (!source && PyObject_CheckBuffer(object.ptr()))
    source = any_array(nb::object(nb::module_::import_("numpy").attr("asarray")(object)).ptr());
  if (source) {
    const TensorBox keep(*source);  // dropped without the interpreter lock
    return brought(object, *source, dtype.is_none() ? source->dtype() : parse_dtype(dtype), device, copy);
  }
  if (copy == false)
    throw nb::value_error("asarray: copy=False, but numbers and lists must be copied into a tensor");
  const Tensor made = new_from(object, dtype);
  return compute(device.has_value(), [&] { return placed(made, device); });
}

nb::object from_dlpack(nb::handle object, const std::optional<std::string>& device,
                       std::optional<bool> copy) {
  Tensor source;
  if (is_tensor(object.ptr())) {
    source = tensor_of(object.ptr());
  } else if (!tensor_from_dlpack(object.ptr(), source)) {
    throw nb::python_error();
  }
  const TensorBox keep(source);
  return brought(object, source, source.dtype(), device, copy);
}

void bind_creation(nb::module_& module) {
  module.def("asarray", as_array, nb::arg("obj"), nb::kw_only(), nb::arg("dtype") = nb::none(),
             nb::arg("device") = nb::none(), nb::arg("copy") = nb::none());
  module.def("from_dlpack", from_dlpack, nb::arg("x"), nb::kw_only(), nb::arg("device") = nb::none(),
             nb::arg("copy") = nb::none());
}

Tensor transposed(const Tensor& tensor, const char* property, bool matrices) {
  if (tensor.ndim() < 2 || (!matrices && tensor.ndim() != 2)) {
    throw nb::value_error((std::string(property) + " needs a tensor of " +
                           (matrices ? "two or more dimensions" : "two dimensions") + ", not " +
                           tensor.to_string() + "; permute_dims() takes any order")
                              .c_str());
  }
  const auto last = static_cast<std::int64_t>(tensor.ndim()) - 1;
  return require(tensor::transpose(tensor, last - 1, last));
}

nb::object wrapped(Tensor tensor) {
  PyObject* const object = wrap_tensor(std::move(tensor));
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

nb::object namespace_of(nb::handle, nb::handle version) {
  if (!version.is_none()) {
    const auto wanted = nb::cast<std::string>(nb::str(version));
    if (std::find(kVersions.begin(), kVersions.end(), wanted) == kVersions.end()) {
      throw nb::value_error(("no version '" + wanted +
                             "' of the array API standard here; there are 2021.12, 2022.12, 2023.12, 2024.12")
                                .c_str());
    }
  }
  return nb::module_::import_("forklift.ops");
}

// Of a tensor without dimensions only, since Python asks every object that stands as an index for it.
nb::object index_of(const TensorBox& self) {
  if (self.tensor.ndim() != 0 || !ops::is_integer(self.tensor.dtype())) {
    throw nb::type_error(
        ("only an integer tensor without dimensions is an index, not " + self.tensor.to_string()).c_str());
  }
  return only_item(self.tensor);
}

std::complex<double> complex_of(const TensorBox& self) {
  const nb::object item = only_item(self.tensor);
  const Py_complex number = PyComplex_AsCComplex(item.ptr());
  if (number.real == -1.0 && PyErr_Occurred()) throw nb::python_error();
  return {number.real, number.imag};
}

}  // namespace

void bind_array_methods(nb::class_<TensorBox>& type) {
  type.def_prop_ro("T", [](const TensorBox& self) { return wrapped(transposed(self.tensor, "T", false)); })
      .def_prop_ro("mT", [](const TensorBox& self) { return wrapped(transposed(self.tensor, "mT", true)); })
      .def("__array_namespace__", namespace_of, nb::kw_only(), nb::arg("api_version") = nb::none())
      .def(
          "to_device",
          [](nb::handle self, const std::string& device, nb::handle stream) {
            if (!stream.is_none())
              throw nb::value_error("to_device: stream must be None: there are no streams");
            const Tensor& tensor = tensor_of(self.ptr());
            if (tensor.device() == device) return nb::borrow(self);
            return compute(true, [&] { return placed(tensor, device); });
          },
          nb::arg("device"), nb::kw_only(), nb::arg("stream") = nb::none())
      .def("__index__", index_of)
      .def("__complex__", complex_of);
}

void bind_array_api(nb::module_& module) {
  bind_creation(module);
  module.attr("_max_dims") = kMaxDims;
  module.def(
      "isdtype", [](nb::handle dtype, nb::handle kind) { return is_dtype(parse_dtype(dtype), kind); },
      nb::arg("dtype"), nb::arg("kind"));
  module.def("_dtype_name", [](nb::handle object) { return std::string(name(dtype_of_argument(object))); });
}

}  // namespace forklift::py
