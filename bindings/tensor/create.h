// Making tensors of Python's objects.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "forklift/tensor.h"

namespace forklift::py {

// Memory of this size is had and cleared in less time than another thread needs to take the interpreter lock.
inline constexpr std::size_t kQuickBytes = 16 * 1024;

// A name ("float32", "<f4", "Float32"), or what has one: NumPy's and torch's dtypes, Python's float and int. TypeError.
DType parse_dtype(nanobind::handle object);

// A shape: a sequence of lengths, or one length.
std::vector<std::int64_t> lengths_of(nanobind::handle shape);

// A view of a Tensor, an array, or anything with DLPack. Nothing: it is none of these.
std::optional<Tensor> any_array(PyObject* object);

// A copy in shared memory, without gaps.
Tensor copy_to_arena(const Tensor& source);
// Of arrays, numbers and nested lists: Tensor(data, dtype). `dtype` may be None.
Tensor new_from(nanobind::handle data, nanobind::handle dtype);

// empty(), zeros() and tensor().
void bind_factories(nanobind::module_& module);

}  // namespace forklift::py
