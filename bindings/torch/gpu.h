// torch's tensors on GPUs of NVIDIA's, for codec.h: device memory under torch's storages.
//
// A storage is sent whole, as a lease on its memory (tensor/device_storage.h), which sender, receiver and messages hold; a
// received one is made by torch from a DLPack structure whose deleter gives the lease back.
//
// All functions need the interpreter lock, and release it while they ask the driver.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "arena/arena.h"
#include "bindings/message/native.h"
#include "bindings/message/writer.h"
#include "bindings/torch/layout.h"

namespace forklift::py::torch {

// Enters the lease on a tensor's storage into the message, once. What was queued on torch's current stream is done then, or comes
// first (device::handover_waits). kUnsupported: torch does not tell its stream, or the storage has changed meanwhile.
Encoded place_on_gpu(PyObject* tensor, StorageView storage, int ordinal, MessageWriter& writer,
                     PlacedStorage& placed);

bool is_on_gpu(const arena::Lease& lease) noexcept;

// A new tensor over `bytes` of the lease's memory from `begin` on. The caller has checked that they, and all elements, are
// within the lease. What is queued on torch's current stream from now on comes after Forklift's own work on it. New reference,
// or nullptr with an exception set.
PyObject* tensor_on_gpu(arena::LeasePtr lease, std::size_t begin, std::size_t bytes, Element element,
                        std::int32_t ndim, const std::int64_t* shape, const std::int64_t* strides);

}  // namespace forklift::py::torch
