// forklift.ops: elements by their indices, and tensors rearranged.
#include "forklift/indexing.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <vector>

#include "bindings/ops/operand.h"
#include "bindings/ops/ops.h"
#include "bindings/tensor/create.h"
#include "bindings/tensor/items.h"
#include "ops/arrangement.h"
#include "ops/indexing.h"
#include "ops/promotion.h"

namespace nb = nanobind;

namespace forklift::py {
namespace {

// Of a diagonal: one beyond the matrix is as good as any other there.
std::int64_t clamped(nb::handle number) {
  const Py_ssize_t value = PyNumber_AsSsize_t(number.ptr(), nullptr);
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

Dims dims_of(nb::handle numbers) { return Dims(DimSpan(lengths_of(numbers))); }

void bind_takes(nb::module_& module) {
  module.def(
      "take",
      [](nb::handle object, nb::handle places, std::optional<std::int64_t> axis) {
        const PyOperand x = PyOperand::require(object.ptr());
        const PyOperand indices = PyOperand::require(places.ptr());
        const Tensor& wanted = required_tensor(indices);
        Tensor tensor = required_tensor(x);
        const TensorBox keep(tensor);
        if (!axis && tensor.ndim() != 1) tensor = require(ops::rearrange(tensor, Dims{tensor.numel()}));
        const ops::Selection chosen =
            require_index(true, [&] { return ops::select_taken(tensor, wanted, axis.value_or(0)); });
        return compute(true, [&] { return value_or_throw(ops::gather(tensor, chosen)); });
      },
      nb::arg("x"), nb::arg("indices"), nb::kw_only(), nb::arg("axis") = nb::none());
  module.def(
      "take_along_axis",
      [](nb::handle object, nb::handle places, std::int64_t axis) {
        const PyOperand x = PyOperand::require(object.ptr());
        const PyOperand indices = PyOperand::require(places.ptr());
        const Tensor& tensor = required_tensor(x);
        const Tensor& wanted = required_tensor(indices);
        require_index(true, [&]() -> Result<bool> {
          Status status = ops::check_along(tensor, wanted, axis);
          return status ? Result<bool>(true) : status;
        });
        return compute(true, [&] { return value_or_throw(ops::take_along(tensor, wanted, axis)); });
      },
      nb::arg("x"), nb::arg("indices"), nb::kw_only(), nb::arg("axis") = -1);
}

void bind_copies(nb::module_& module) {
  module.def(
      "repeat",
      [](nb::handle object, nb::handle repeats, std::optional<std::int64_t> axis) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor& tensor = required_tensor(x);
        const PyOperand counts = PyOperand::require(repeats.ptr());
        return compute(true, [&] {
          if (counts.tensor() != nullptr) return ops::repeat(tensor, *counts.tensor(), axis);
          return ops::repeat(tensor, counts.number().whole(), axis);
        });
      },
      nb::arg("x"), nb::arg("repeats"), nb::kw_only(), nb::arg("axis") = nb::none());
  module.def(
      "roll",
      [](nb::handle object, nb::handle shift, nb::handle axis) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor& tensor = required_tensor(x);
        const Dims shifts = dims_of(shift);
        std::optional<Dims> axes;
        if (!axis.is_none()) axes = dims_of(axis);
        return compute(takes_long(&tensor), [&] { return ops::roll(tensor, shifts, axes); });
      },
      nb::arg("x"), nb::arg("shift"), nb::kw_only(), nb::arg("axis") = nb::none());
  module.def(
      "tile",
      [](nb::handle object, nb::handle repetitions) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Dims times = dims_of(repetitions);
        return compute(true, [&] { return ops::tile(required_tensor(x), times); });
      },
      nb::arg("x"), nb::arg("repetitions"));
  for (const bool lower : {true, false}) {
    module.def(
        lower ? "tril" : "triu",
        [lower](nb::handle object, nb::handle diagonal) {
          const std::int64_t k = clamped(diagonal);
          const PyOperand x = PyOperand::require(object.ptr());
          const Tensor& tensor = required_tensor(x);
          return compute(takes_long(&tensor),
                         [&] { return lower ? ops::tril(tensor, k) : ops::triu(tensor, k); });
        },
        nb::arg("x"), nb::kw_only(), nb::arg("k") = 0);
  }
}

void bind_turned_views(nb::module_& module) {
  module.def(
      "moveaxis",
      [](nb::handle object, nb::handle source, nb::handle destination) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Dims from = dims_of(source);
        const Dims to = dims_of(destination);
        return compute(false, [&] { return ops::moveaxis(required_tensor(x), from, to); });
      },
      nb::arg("x"), nb::arg("source"), nb::arg("destination"));
  module.def(
      "matrix_transpose",
      [](nb::handle object) {
        const PyOperand x = PyOperand::require(object.ptr());
        return compute(false, [&] { return ops::matrix_transpose(required_tensor(x)); });
      },
      nb::arg("x"));
  module.def(
      "unstack",
      [](nb::handle object, std::int64_t axis) {
        const PyOperand x = PyOperand::require(object.ptr());
        return compute_several(false, [&] { return ops::unstack(required_tensor(x), axis); });
      },
      nb::arg("x"), nb::kw_only(), nb::arg("axis") = 0);
  module.def("broadcast_arrays", [](nb::args arrays) {
    const Parts parts = parts_of(arrays);
    return nb::list(compute_several(false, [&] { return ops::broadcast_arrays(parts.tensors); }));
  });
  module.def(
      "meshgrid",
      [](nb::args arrays, const std::string& indexing) {
        if (indexing != "xy" && indexing != "ij")
          throw nb::value_error(("meshgrid: indexing is 'xy' or 'ij', not '" + indexing + "'").c_str());
        const Parts parts = parts_of(arrays);
        return nb::list(
            compute_several(true, [&] { return ops::meshgrid(parts.tensors, indexing == "xy"); }));
      },
      nb::arg("arrays"), nb::kw_only(), nb::arg("indexing") = "xy");
}

using NewFunction = Tensor (*)(Dims, DType);
using LikeFunction = Tensor (*)(const Tensor&, std::optional<DType>);

void bind_new_ones(nb::module_& module, const char* name, NewFunction make, LikeFunction make_like) {
  module.def(
      name,
      [make](nb::handle shape, nb::handle dtype, const std::optional<std::string>& device) {
        const Dims lengths = dims_of(shape);
        const DType wanted = dtype_or(dtype, DType::kFloat32);
        return compute(true, [&] { return placed(make(lengths, wanted), device); });
      },
      nb::arg("shape"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none());
  module.def((std::string(name) + "_like").c_str(),
             [make_like](nb::handle object, nb::handle dtype, const std::optional<std::string>& device) {
               const PyOperand x = PyOperand::require(object.ptr());
               const Tensor& tensor = required_tensor(x);
               const DType wanted = dtype_or(dtype, tensor.dtype());
               return compute(true, [&] { return placed(make_like(tensor, wanted), device); });
             },
             nb::arg("x"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none());
}

void bind_all_new(nb::module_& module) {
  bind_new_ones(module, "zeros", ops::zeros, ops::zeros_like);
  bind_new_ones(module, "ones", ops::ones, ops::ones_like);
  bind_new_ones(module, "empty", ops::empty, ops::empty_like);
  module.def(
      "full_like",
      [](nb::handle object, nb::handle value, nb::handle dtype, const std::optional<std::string>& device) {
        const PyOperand x = PyOperand::require(object.ptr());
        const PyOperand number = PyOperand::require(value.ptr());
        if (number.tensor() != nullptr)
          throw nb::type_error("full_like: fill_value must be a number, not an array");
        const Tensor& tensor = required_tensor(x);
        const DType wanted = dtype_or(dtype, tensor.dtype());
        return compute(true, [&] { return placed(ops::full_like(tensor, number.number(), wanted), device); });
      },
      nb::arg("x"), nb::arg("fill_value"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none());
  module.def(
      "eye",
      [](std::int64_t rows, std::optional<std::int64_t> columns, nb::handle diagonal, nb::handle dtype,
         const std::optional<std::string>& device) {
        const std::int64_t k = clamped(diagonal);
        const DType wanted = dtype_or(dtype, DType::kFloat32);
        return compute(true, [&] { return placed(ops::eye(rows, columns, k, wanted), device); });
      },
      nb::arg("n_rows"), nb::arg("n_cols") = nb::none(), nb::kw_only(), nb::arg("k") = 0,
      nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none());
}

void bind_products(nb::module_& module) {
  module.def(
      "vecdot",
      [](nb::handle first, nb::handle second, std::int64_t axis) {
        const PyOperand a = PyOperand::require(first.ptr());
        const PyOperand b = PyOperand::require(second.ptr());
        return compute(true, [&] { return ops::vecdot(required_tensor(a), required_tensor(b), axis); });
      },
      nb::arg("x1"), nb::arg("x2"), nb::kw_only(), nb::arg("axis") = -1);
  module.def(
      "tensordot",
      [](nb::handle first, nb::handle second, nb::handle axes) {
        const PyOperand a = PyOperand::require(first.ptr());
        const PyOperand b = PyOperand::require(second.ptr());
        const Tensor& left = required_tensor(a);
        const Tensor& right = required_tensor(b);
        if (PyIndex_Check(axes.ptr())) {
          const auto count = nb::cast<std::int64_t>(nb::int_(axes));
          return compute(true, [&] { return ops::tensordot(left, right, count); });
        }
        const nb::sequence pair = nb::borrow<nb::sequence>(axes);
        if (nb::len(pair) != 2) throw nb::value_error("tensordot: axes are a number, or two sequences");
        const Dims own = dims_of(pair[0]);
        const Dims other = dims_of(pair[1]);
        return compute(true, [&] { return ops::tensordot(left, right, own, other); });
      },
      nb::arg("x1"), nb::arg("x2"), nb::kw_only(), nb::arg("axes") = 2);
}

// What is no Tensor, array or number names a dtype.
std::optional<PyOperand> operand_or_none(nb::handle object) {
  if (PyUnicode_Check(object.ptr()) || PyType_Check(object.ptr())) return std::nullopt;
  return PyOperand::from(object.ptr(), PyOperand::kAnything);
}

void bind_dtypes(nb::module_& module) {
  module.def("result_type", [](nb::args arguments) {
    std::optional<DType> dtype;
    std::vector<ops::Number> numbers;
    for (const nb::handle argument : arguments) {
      const std::optional<PyOperand> operand = operand_or_none(argument);
      if (operand && operand->tensor() == nullptr) {
        numbers.push_back(operand->number());
        continue;
      }
      const DType own = operand ? operand->tensor()->dtype() : parse_dtype(argument);
      dtype = dtype ? ops::promote(*dtype, own) : own;
    }
    const bool numbers_only = !dtype;
    for (const ops::Number& number : numbers) {
      const DType own = ops::default_dtype(number);
      dtype = !dtype         ? own
              : numbers_only ? ops::promote_numbers(*dtype, own)
                             : ops::dtype_with(number, *dtype);
    }
    if (!dtype) throw nb::value_error("result_type: no arguments");
    return std::string(name(*dtype));
  });
  module.def(
      "can_cast",
      [](nb::handle from, nb::handle to) {
        const std::optional<PyOperand> operand = operand_or_none(from);
        const DType source = operand ? required_tensor(*operand).dtype() : parse_dtype(from);
        return ops::can_cast(source, parse_dtype(to));
      },
      nb::arg("from_"), nb::arg("to"));
}

}  // namespace

void bind_indexing(nb::module_& module) {
  bind_takes(module);
  bind_copies(module);
  bind_turned_views(module);
  bind_all_new(module);
  bind_products(module);
  bind_dtypes(module);
}

}  // namespace forklift::py
