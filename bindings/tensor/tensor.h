// forklift.Tensor, and how one enters and leaves a message.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <span>

#include "bindings/message/reader.h"
#include "bindings/message/writer.h"
#include "forklift/tensor.h"
#include "message/wire.h"

namespace forklift::py {

// What a Python Tensor object holds. Dropping memory may wait for the arena's lock or for a foreign deleter,
// so it happens without the interpreter lock.
struct TensorBox {
  Tensor tensor;
  explicit TensorBox(Tensor made) noexcept : tensor(std::move(made)) {}
  ~TensorBox();
  TensorBox(const TensorBox&) = delete;
  TensorBox& operator=(const TensorBox&) = delete;
};

bool is_tensor(PyObject* object) noexcept;
const Tensor& tensor_of(PyObject* object);
// New reference, or nullptr with an exception set.
PyObject* wrap_tensor(Tensor tensor);

// Are operations still computing on its memory? Who waits for them does so without the interpreter lock.
bool is_computed(const Tensor& tensor) noexcept;
// Waits for them before anything looks at the elements. The failure of the operation that should have made them.
// `open`: the address is handed out, or another process will see the memory.
Status settled(const Tensor& tensor, bool open = true);

// Enters a tensor into a message: as a handle if its memory is shared, as a copy otherwise. Precondition: settled().
void place_tensor(PyObject* object, MessageWriter& writer, wire::TensorMeta& meta);
// The tensor that `payload` (wire.h) describes. New reference, or nullptr with an exception set.
PyObject* take_tensor(std::span<const std::byte> payload, MessageReader& reader);

nanobind::class_<TensorBox> bind_tensor(nanobind::module_& module);
void bind_device_event(nanobind::module_& module);

}  // namespace forklift::py
