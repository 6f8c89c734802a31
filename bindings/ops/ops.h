// forklift.ops and the operators of forklift.Tensor.
#pragma once

#include <nanobind/nanobind.h>

#include "bindings/tensor/tensor.h"

namespace forklift::py {

// Adds Python's operators to the class.
void bind_operators(nanobind::class_<TensorBox>& type);

// Adds the properties and methods of the array API standard that are no operators.
void bind_array_methods(nanobind::class_<TensorBox>& type);

// Adds the function _core._ops(), which makes the submodule of operations when it is first called: most children of a
// program compute nothing, and each of these functions costs a microsecond to define.
void bind_ops(nanobind::module_& module);

// Adds to the submodule what changes shapes, joins tensors and makes new ones.
void bind_arrangement(nanobind::module_& module);
// What sorts, searches and accumulates.
void bind_sorting(nanobind::module_& module);
// What takes elements by their indices, and moves them.
void bind_indexing(nanobind::module_& module);
// The submodule of random numbers.
void bind_random(nanobind::module_& module);

// Adds to the submodule the array API standard's conversions to arrays and questions about dtypes.
void bind_array_api(nanobind::module_& module);

}  // namespace forklift::py
