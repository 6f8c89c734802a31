// forklift.ops: tensors of other shapes, of several parts, and new ones.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "bindings/ops/operand.h"
#include "bindings/ops/ops.h"
#include "bindings/tensor/create.h"

namespace nb = nanobind;

namespace forklift::py {
namespace {

ops::Number number_of(nb::handle object) {
  const PyOperand operand = PyOperand::require(object.ptr());
  if (operand.tensor() != nullptr) throw nb::type_error("a number is needed, not a Tensor or an array");
  return operand.number();
}

std::optional<DType> dtype_or_none(nb::handle dtype) {
  return dtype.is_none() ? std::nullopt : std::optional(parse_dtype(dtype));
}

void bind_parts(nb::module_& module) {
  module.def(
      "concat",
      [](nb::handle arrays, std::optional<std::int64_t> axis) {
        const Parts parts = parts_of(arrays);
        return compute(true, [&] { return ops::concat(parts.tensors, axis); });
      },
      nb::arg("arrays"), nb::kw_only(), nb::arg("axis").none() = 0);
  module.def(
      "stack",
      [](nb::handle arrays, std::int64_t axis) {
        const Parts parts = parts_of(arrays);
        return compute(true, [&] { return ops::stack(parts.tensors, axis); });
      },
      nb::arg("arrays"), nb::kw_only(), nb::arg("axis") = 0);
}

void bind_shapes(nb::module_& module) {
  module.def(
      "broadcast_to",
      [](nb::handle object, nb::handle shape) {
        const PyOperand x = PyOperand::require(object.ptr());
        const std::vector<std::int64_t> lengths = lengths_of(shape);
        return compute(false, [&] { return ops::broadcast_to(required_tensor(x), Dims(DimSpan(lengths))); });
      },
      nb::arg("x"), nb::arg("shape"));
  module.def(
      "reshape",
      [](nb::handle object, nb::handle shape, std::optional<bool> copy) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor& tensor = required_tensor(x);
        const std::vector<std::int64_t> lengths = lengths_of(shape);
        if (copy == false && !tensor.is_contiguous()) {
          throw nb::value_error(("reshape: copy=False, but the elements of " + tensor.to_string() +
                                 " do not lie one behind the other")
                                    .c_str());
        }
        return compute(takes_long(&tensor) || copy == true, [&] {
          return ops::reshape(copy == true ? ops::astype(tensor, tensor.dtype()) : tensor,
                              Dims(DimSpan(lengths)));
        });
      },
      nb::arg("x"), nb::arg("shape"), nb::kw_only(), nb::arg("copy") = nb::none());
  module.def(
      "permute_dims",
      [](nb::handle object, nb::handle axes) {
        const PyOperand x = PyOperand::require(object.ptr());
        const std::vector<std::int64_t> order = lengths_of(axes);
        return compute(false, [&] { return required_tensor(x).permute(DimSpan(order)); });
      },
      nb::arg("x"), nb::arg("axes"));
  module.def(
      "expand_dims",
      [](nb::handle object, std::int64_t axis) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor& tensor = required_tensor(x);
        const auto places = static_cast<std::int64_t>(tensor.ndim()) + 1;
        if (axis < -places || axis >= places) {  // the standard wants this type of error
          throw nb::index_error(("expand_dims: axis " + std::to_string(axis) + " is out of range for " +
                                 tensor.to_string() + " and one more dimension")
                                    .c_str());
        }
        return compute(false, [&] { return ops::expand_dims(tensor, axis); });
      },
      nb::arg("x"), nb::kw_only(), nb::arg("axis") = 0);
  module.def(
      "squeeze",
      [](nb::handle object, nb::handle axis) {
        const PyOperand x = PyOperand::require(object.ptr());
        const std::vector<std::int64_t> axes = lengths_of(axis);
        return compute(false, [&] { return ops::squeeze(required_tensor(x), Dims(DimSpan(axes))); });
      },
      nb::arg("x"), nb::arg("axis"));
  module.def(
      "flip",
      [](nb::handle object, nb::handle axis) {
        const PyOperand x = PyOperand::require(object.ptr());
        std::optional<Dims> axes;
        if (!axis.is_none()) axes.emplace(DimSpan(lengths_of(axis)));
        return compute(false, [&] { return ops::flip(required_tensor(x), axes); });
      },
      nb::arg("x"), nb::kw_only(), nb::arg("axis") = nb::none());
}

void bind_new(nb::module_& module) {
  module.def(
      "full",
      [](nb::handle shape, nb::handle value, nb::handle dtype, const std::optional<std::string>& device) {
        const std::vector<std::int64_t> lengths = lengths_of(shape);
        const ops::Number number = number_of(value);
        const std::optional<DType> wanted = dtype_or_none(dtype);
        return compute(true,
                       [&] { return placed(ops::full(Dims(DimSpan(lengths)), number, wanted), device); });
      },
      nb::arg("shape"), nb::arg("fill_value"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none());
  module.def(
      "arange",
      [](nb::handle start, nb::handle stop, nb::handle step, nb::handle dtype,
         const std::optional<std::string>& device) {
        const ops::Number first = stop.is_none() ? ops::Number(0) : number_of(start);
        const ops::Number last = number_of(stop.is_none() ? start : stop);
        const ops::Number by = number_of(step);
        const std::optional<DType> wanted = dtype_or_none(dtype);
        return compute(true, [&] { return placed(ops::arange(first, last, by, wanted), device); });
      },
      nb::arg("start"), nb::arg("stop") = nb::none(), nb::arg("step") = 1, nb::kw_only(),
      nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none());
  module.def(
      "linspace",
      [](double start, double stop, std::int64_t count, nb::handle dtype,
         const std::optional<std::string>& device, bool endpoint) {
        const DType wanted = dtype_or_none(dtype).value_or(DType::kFloat32);
        return compute(true,
                       [&] { return placed(ops::linspace(start, stop, count, wanted, endpoint), device); });
      },
      nb::arg("start"), nb::arg("stop"), nb::arg("num"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("endpoint") = true);
}

}  // namespace

void bind_arrangement(nb::module_& module) {
  bind_parts(module);
  bind_shapes(module);
  bind_new(module);
}

}  // namespace forklift::py
