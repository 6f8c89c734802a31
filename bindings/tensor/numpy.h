// Tensors from and to NumPy arrays and DLPack capsules, without copying elements. All need the interpreter
// lock.
#pragma once

#include <Python.h>

#include <cstdint>
#include <optional>
#include <string>

#include "forklift/tensor.h"

namespace forklift::py {

// A view of an array's (or NumPy scalar's) memory that keeps the array alive. False without an exception if
// `object` is no array; with TypeError set if its dtype is not one of ours, its byte order is foreign or its
// strides do not count elements.
bool tensor_from_array(PyObject* object, Tensor& tensor);
// An array over a forklift.Tensor object, which it keeps alive. New reference, or nullptr with an exception.
PyObject* array_over_tensor(PyObject* tensor);

// From an object with __dlpack__, in memory of the CPU or of a GPU. False with an exception set. With `unknown`, elements of
// a type that is none of ours come as unsigned integers of its size, and `unknown` is set to its name.
bool tensor_from_dlpack(PyObject* object, Tensor& tensor, std::string* unknown = nullptr);
// A capsule "dltensor_versioned", or "dltensor" for consumers that ask for no version. `stream`: the consumer's, of a
// tensor on a GPU (tensor/dlpack.h).
PyObject* dlpack_capsule(const Tensor& tensor, bool versioned, bool copied,
                         std::optional<std::intptr_t> stream = std::nullopt);

}  // namespace forklift::py
