#include "bindings/ops/ops.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bindings/ops/operand.h"
#include "bindings/tensor/create.h"
#include "kernels/opcodes.h"
#include "ops/elementwise.h"
#include "runtime/executor.h"

namespace nb = nanobind;

namespace forklift::py {
namespace {

ops::Out out_of(const Tensor* out) { return out != nullptr ? ops::Out(*out) : ops::Out(); }

// With `out` the result is that object.
nb::object result_or(nb::handle out, nb::object made) {
  if (out.is_none()) return made;
  return nb::borrow(PyTuple_Check(out.ptr()) ? nb::handle(PyTuple_GET_ITEM(out.ptr(), 0)) : out);
}

void bind_unary(nb::module_& module, kernels::UnaryOp op) {
  module.def(
      std::string(kernels::name(op)).c_str(),
      [op](nb::handle object, nb::handle out) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor* const target = out_tensor(out);
        return result_or(out, compute(takes_long(x.tensor()) || takes_long(target),
                                      [&] { return ops::unary(op, x.get(), out_of(target)); }));
      },
      nb::arg("x"), nb::kw_only(), nb::arg("out") = nb::none());
}

void bind_binary(nb::module_& module, kernels::BinaryOp op) {
  module.def(
      std::string(kernels::name(op)).c_str(),
      [op](nb::handle first, nb::handle second, nb::handle out) {
        const PyOperand a = PyOperand::require(first.ptr());
        const PyOperand b = PyOperand::require(second.ptr());
        const Tensor* const target = out_tensor(out);
        return result_or(out, compute(takes_long(a.tensor()) || takes_long(b.tensor()) || takes_long(target),
                                      [&] { return ops::binary(op, a.get(), b.get(), out_of(target)); }));
      },
      nb::arg("x1"), nb::arg("x2"), nb::kw_only(), nb::arg("out") = nb::none());
}

void bind_choices(nb::module_& module) {
  module.def(
      "where",
      [](nb::handle condition, nb::handle first, nb::handle second, nb::handle out) {
        const PyOperand mask = PyOperand::require(condition.ptr());
        const PyOperand a = PyOperand::require(first.ptr());
        const PyOperand b = PyOperand::require(second.ptr());
        const Tensor* const target = out_tensor(out);
        return result_or(
            out, compute(takes_long(mask.tensor()) || takes_long(a.tensor()) || takes_long(b.tensor()),
                         [&] { return ops::where(mask.get(), a.get(), b.get(), out_of(target)); }));
      },
      nb::arg("condition"), nb::arg("x1"), nb::arg("x2"), nb::kw_only(), nb::arg("out") = nb::none());
  module.def(
      "clip",
      [](nb::handle object, nb::handle low, nb::handle high, nb::handle out) {
        const PyOperand x = PyOperand::require(object.ptr());
        std::optional<PyOperand> bounds[2];
        std::optional<ops::Operand> limits[2];
        const nb::handle given[2] = {low, high};
        for (int i = 0; i < 2; ++i) {
          if (given[i].is_none()) continue;
          bounds[i].emplace(PyOperand::require(given[i].ptr()));
          limits[i].emplace(bounds[i]->get());
        }
        const Tensor* const target = out_tensor(out);
        return result_or(out, compute(takes_long(x.tensor()), [&] {
                           return ops::clip(x.get(), limits[0], limits[1], out_of(target));
                         }));
      },
      nb::arg("x"), nb::arg("min") = nb::none(), nb::arg("max") = nb::none(), nb::kw_only(),
      nb::arg("out") = nb::none());
}

// The axes that an argument names: None, a number or several.
std::optional<Dims> axes_of(nb::handle axis) {
  if (axis.is_none()) return std::nullopt;
  if (PyIndex_Check(axis.ptr())) return Dims{nb::cast<std::int64_t>(nb::int_(axis))};
  return Dims(DimSpan(nb::cast<std::vector<std::int64_t>>(axis)));
}

ops::Reduction reduction(nb::handle axis, bool keepdims, nb::handle dtype) {
  ops::Reduction how{axes_of(axis), keepdims, std::nullopt};
  if (!dtype.is_none()) how.dtype = parse_dtype(dtype);
  return how;
}

using ReductionFunction = Tensor (*)(const Tensor&, const ops::Reduction&, ops::Out);

void bind_reduction(nb::module_& module, const char* name, ReductionFunction function) {
  module.def(
      name,
      [function](nb::handle object, nb::handle axis, nb::handle dtype, bool keepdims, nb::handle out) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor& tensor = required_tensor(x);
        const ops::Reduction how = reduction(axis, keepdims, dtype);
        const Tensor* const target = out_tensor(out);
        return result_or(out,
                         compute(takes_long(&tensor), [&] { return function(tensor, how, out_of(target)); }));
      },
      nb::arg("x"), nb::kw_only(), nb::arg("axis") = nb::none(), nb::arg("dtype") = nb::none(),
      nb::arg("keepdims") = false, nb::arg("out") = nb::none());
}

using SpreadFunction = Tensor (*)(const Tensor&, double, const ops::Reduction&, ops::Out);

void bind_spread(nb::module_& module, const char* name, SpreadFunction function) {
  module.def(
      name,
      [function](nb::handle object, nb::handle axis, double correction, bool keepdims, nb::handle out) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor& tensor = required_tensor(x);
        const ops::Reduction how = reduction(axis, keepdims, nb::none());
        const Tensor* const target = out_tensor(out);
        return result_or(out, compute(takes_long(&tensor),
                                      [&] { return function(tensor, correction, how, out_of(target)); }));
      },
      nb::arg("x"), nb::kw_only(), nb::arg("axis") = nb::none(), nb::arg("correction") = 0.0,
      nb::arg("keepdims") = false, nb::arg("out") = nb::none());
}

using IndexFunction = Tensor (*)(const Tensor&, std::optional<std::int64_t>, bool);

void bind_index(nb::module_& module, const char* name, IndexFunction function) {
  module.def(
      name,
      [function](nb::handle object, std::optional<std::int64_t> axis, bool keepdims) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor& tensor = required_tensor(x);
        return compute(takes_long(&tensor), [&] { return function(tensor, axis, keepdims); });
      },
      nb::arg("x"), nb::kw_only(), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false);
}

void bind_reductions(nb::module_& module) {
  bind_reduction(module, "sum", ops::sum);
  bind_reduction(module, "prod", ops::prod);
  bind_reduction(module, "max", ops::max);
  bind_reduction(module, "min", ops::min);
  bind_reduction(module, "all", ops::all);
  bind_reduction(module, "any", ops::any);
  bind_reduction(module, "mean", ops::mean);
  bind_spread(module, "var", ops::var);
  bind_spread(module, "std", ops::std);
  bind_index(module, "argmax", ops::argmax);
  bind_index(module, "argmin", ops::argmin);
}

void bind_algebra(nb::module_& module) {
  module.def(
      "matmul",
      [](nb::handle first, nb::handle second, nb::handle out) {
        const PyOperand a = PyOperand::require(first.ptr());
        const PyOperand b = PyOperand::require(second.ptr());
        const Tensor& left = required_tensor(a);
        const Tensor& right = required_tensor(b);
        const Tensor* const target = out_tensor(out);
        return result_or(out, compute(true, [&] { return ops::matmul(left, right, out_of(target)); }));
      },
      nb::arg("x1"), nb::arg("x2"), nb::kw_only(), nb::arg("out") = nb::none());
  module.def(
      "astype",
      [](nb::handle object, nb::handle dtype, bool copy, const std::optional<std::string>& device) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor& tensor = required_tensor(x);
        const DType wanted = parse_dtype(dtype);
        const bool moves = device && *device != tensor.device();
        if (!copy && wanted == tensor.dtype() && is_tensor(object.ptr()) && !moves) return nb::borrow(object);
        return compute(takes_long(&tensor) || moves,
                       [&] { return placed(ops::astype(tensor, wanted), device); });
      },
      nb::arg("x"), nb::arg("dtype"), nb::kw_only(), nb::arg("copy") = true, nb::arg("device") = nb::none());
}

nb::object make_ops(nb::handle parent) {
  nb::module_ core = nb::borrow<nb::module_>(parent);
  nb::module_ module = core.def_submodule("_operations", "Operations on tensors; see forklift.ops.");
  for (std::size_t i = 0; i < kernels::kUnaryNames.size(); ++i)
    bind_unary(module, static_cast<kernels::UnaryOp>(i));
  for (std::size_t i = 0; i < kernels::kBinaryNames.size(); ++i)
    bind_binary(module, static_cast<kernels::BinaryOp>(i));
  bind_choices(module);
  bind_reductions(module);
  bind_algebra(module);
  bind_arrangement(module);
  bind_array_api(module);
  bind_sorting(module);
  bind_indexing(module);
  bind_random(module);
  return module;
}

}  // namespace

void bind_ops(nb::module_& module) {
  module.def("_ops", [module = nb::handle(module)] {
    static PyObject* const made = make_ops(module).release().ptr();
    return nb::borrow(made);
  });
}

}  // namespace forklift::py
