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
  explicit TensorBox(Tensor&& made) noexcept : tensor(std::move(made)) {}
  explicit TensorBox(const Tensor& shared) : tensor(shared) {}
  ~TensorBox();
  TensorBox(const TensorBox&) = delete;
  TensorBox& operator=(const TensorBox&) = delete;
};

bool is_tensor(PyObject* object) noexcept;
const Tensor& tensor_of(PyObject* object);
// New reference, or nullptr with an exception set.
PyObject* wrap_tensor(Tensor&& tensor);
inline PyObject* wrap_tensor(const Tensor& tensor) { return wrap_tensor(Tensor(tensor)); }

// Of a new reference, or the exception that is set.
inline nanobind::object owned(PyObject* object) {
  if (!object) throw nanobind::python_error();
  return nanobind::steal(object);
}

// Are operations still computing on its memory? Who waits for them does so without the interpreter lock.
bool is_computed(const Tensor& tensor) noexcept;
// Waits for them before anything looks at the elements. The failure of the operation that should have made them.
// `open`: the address is handed out, or another process will see the memory.
Status settled(const Tensor& tensor, bool open = true);

// What must be had of a tensor before its description can be written: its elements, or the lease of device memory.
Status prepare_to_send(const Tensor& tensor);
// Enters a tensor into a message: as a handle if its memory is shared, as a copy otherwise. Precondition:
// prepare_to_send().
void place_tensor(PyObject* object, MessageWriter& writer, wire::TensorMeta& meta);
// The tensor that `payload` (wire.h) describes. New reference, or nullptr with an exception set.
PyObject* take_tensor(std::span<const std::byte> payload, MessageReader& reader);

nanobind::class_<TensorBox> bind_tensor(nanobind::module_& module);
// Sending in pickles, and as an argument of a child that is started.
void bind_tensor_pickling(nanobind::module_& module, nanobind::class_<TensorBox>& type);
void bind_device_event(nanobind::module_& module);

}  // namespace forklift::py
