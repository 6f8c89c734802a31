// forklift.ops: sorting, searching, sets, and sums along a dimension.
#include "forklift/sorting.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/ops/operand.h"
#include "bindings/ops/ops.h"
#include "bindings/tensor/create.h"

namespace nb = nanobind;

namespace forklift::py {
namespace {

std::optional<Dims> axes_or_none(nb::handle axis) {
  if (axis.is_none()) return std::nullopt;
  return Dims(DimSpan(lengths_of(axis)));
}

std::optional<Tensor> tensor_or_none(nb::handle object, std::vector<PyOperand>& keep) {
  if (object.is_none()) return std::nullopt;
  keep.push_back(PyOperand::require(object.ptr()));
  return required_tensor(keep.back());
}

using SortFunction = Tensor (*)(const Tensor&, const ops::SortOrder&);

void bind_sort(nb::module_& module, const char* name, SortFunction function) {
  module.def(
      name,
      [function](nb::handle object, std::int64_t axis, bool descending, bool) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor& tensor = required_tensor(x);
        return compute(takes_long(&tensor), [&] { return function(tensor, {axis, descending}); });
      },
      nb::arg("x"), nb::kw_only(), nb::arg("axis") = -1, nb::arg("descending") = false,
      nb::arg("stable") = true);
}

void bind_search(nb::module_& module) {
  module.def(
      "searchsorted",
      [](nb::handle first, nb::handle second, const std::string& side, nb::handle sorter) {
        if (side != "left" && side != "right")
          throw nb::value_error(("searchsorted: side is 'left' or 'right', not '" + side + "'").c_str());
        const PyOperand line = PyOperand::require(first.ptr());
        const PyOperand values = PyOperand::require(second.ptr());
        std::vector<PyOperand> keep;
        const std::optional<Tensor> order = tensor_or_none(sorter, keep);
        const Tensor& sorted = required_tensor(line);
        return compute(true, [&] {
          const ops::Side where = side == "left" ? ops::Side::kBefore : ops::Side::kAfter;
          if (values.tensor() != nullptr) return ops::searchsorted(sorted, *values.tensor(), where, order);
          return ops::searchsorted(sorted, ops::full({}, values.number()), where, order);
        });
      },
      nb::arg("x1"), nb::arg("x2"), nb::kw_only(), nb::arg("side") = "left", nb::arg("sorter") = nb::none());
  module.def(
      "isin",
      [](nb::handle first, nb::handle second, bool invert) {
        const PyOperand x = PyOperand::require(first.ptr());
        const PyOperand set = PyOperand::require(second.ptr());
        return compute(true, [&] {
          const auto tensor = [](const PyOperand& operand) {
            return operand.tensor() != nullptr ? *operand.tensor() : ops::full({}, operand.number());
          };
          return ops::isin(tensor(x), tensor(set), invert);
        });
      },
      nb::arg("x1"), nb::arg("x2"), nb::kw_only(), nb::arg("invert") = false);
}

// Python's named tuples, as the standard wants them.
nb::object result_type(nb::module_& module, const char* name, const char* fields) {
  const nb::object type = nb::module_::import_("collections").attr("namedtuple")(name, fields);
  type.attr("__module__") = "forklift.ops";
  module.attr(name) = type;
  return type;
}

// What unique_all() finds, as Python's objects.
struct Found {
  nb::object values;
  nb::object indices;
  nb::object inverse;
  nb::object counts;
};
Found find_unique(nb::handle object) {
  const PyOperand x = PyOperand::require(object.ptr());
  const Tensor& tensor = required_tensor(x);
  std::optional<ops::Unique> found;
  Found result;
  result.values = compute(takes_long(&tensor), [&] {
    found = ops::unique_all(tensor);
    return std::move(found->values);
  });
  const auto wrap = [](Tensor& part) { return compute(false, [&] { return std::move(part); }); };
  result.indices = wrap(found->indices);
  result.inverse = wrap(found->inverse_indices);
  result.counts = wrap(found->counts);
  return result;
}

void bind_sets(nb::module_& module) {
  module.def(
      "unique_values",
      [](nb::handle object) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor& tensor = required_tensor(x);
        return compute(takes_long(&tensor), [&] { return ops::unique_values(tensor); });
      },
      nb::arg("x"));
  module.def(
      "unique_all",
      [type = result_type(module, "UniqueAllResult", "values indices inverse_indices counts")](
          nb::handle object) {
        const Found found = find_unique(object);
        return type(found.values, found.indices, found.inverse, found.counts);
      },
      nb::arg("x"));
  module.def(
      "unique_counts",
      [type = result_type(module, "UniqueCountsResult", "values counts")](nb::handle object) {
        const Found found = find_unique(object);
        return type(found.values, found.counts);
      },
      nb::arg("x"));
  module.def(
      "unique_inverse",
      [type = result_type(module, "UniqueInverseResult", "values inverse_indices")](nb::handle object) {
        const Found found = find_unique(object);
        return type(found.values, found.inverse);
      },
      nb::arg("x"));
}

void bind_counts(nb::module_& module) {
  module.def(
      "nonzero",
      [](nb::handle object) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor& tensor = required_tensor(x);
        return compute_several(takes_long(&tensor), [&] { return ops::nonzero(tensor); });
      },
      nb::arg("x"));
  module.def(
      "count_nonzero",
      [](nb::handle object, nb::handle axis, bool keepdims) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor& tensor = required_tensor(x);
        const std::optional<Dims> axes = axes_or_none(axis);
        return compute(takes_long(&tensor), [&] { return ops::count_nonzero(tensor, axes, keepdims); });
      },
      nb::arg("x"), nb::kw_only(), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false);
}

using AccumulationFunction = Tensor (*)(const Tensor&, const ops::Accumulation&);

void bind_accumulation(nb::module_& module, const char* name, AccumulationFunction function) {
  module.def(
      name,
      [function](nb::handle object, std::optional<std::int64_t> axis, nb::handle dtype,
                 bool include_initial) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor& tensor = required_tensor(x);
        ops::Accumulation how{axis, std::nullopt, include_initial};
        if (!dtype.is_none()) how.dtype = parse_dtype(dtype);
        return compute(takes_long(&tensor), [&] { return function(tensor, how); });
      },
      nb::arg("x"), nb::kw_only(), nb::arg("axis") = nb::none(), nb::arg("dtype") = nb::none(),
      nb::arg("include_initial") = false);
}

void bind_differences(nb::module_& module) {
  module.def(
      "diff",
      [](nb::handle object, std::int64_t axis, std::int64_t n, nb::handle prepend, nb::handle append) {
        const PyOperand x = PyOperand::require(object.ptr());
        const Tensor& tensor = required_tensor(x);
        std::vector<PyOperand> keep;
        keep.reserve(2);
        const std::optional<Tensor> before = tensor_or_none(prepend, keep);
        const std::optional<Tensor> after = tensor_or_none(append, keep);
        return compute(takes_long(&tensor), [&] { return ops::diff(tensor, axis, n, before, after); });
      },
      nb::arg("x"), nb::kw_only(), nb::arg("axis") = -1, nb::arg("n") = 1, nb::arg("prepend") = nb::none(),
      nb::arg("append") = nb::none());
}

}  // namespace

void bind_sorting(nb::module_& module) {
  bind_sort(module, "sort", ops::sort);
  bind_sort(module, "argsort", ops::argsort);
  bind_search(module);
  bind_sets(module);
  bind_counts(module);
  bind_accumulation(module, "cumulative_sum", ops::cumulative_sum);
  bind_accumulation(module, "cumulative_prod", ops::cumulative_prod);
  bind_differences(module);
}

}  // namespace forklift::py
