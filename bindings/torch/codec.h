// torch's tensors in messages, on the CPU and on GPUs of NVIDIA's: as memory that sender and receiver share.
//
// A tensor is extension 8 of the native codec (native.h), and the argument of a rebuilding function inside
// pickled messages. Little-endian:
//
//   offset  size
//   0       4      index of the message's lease that the storage lies in, or kNoLease
//   4       4      where the storage begins in the lease's memory
//   8       1      DLPack's type code
//   9       1      bits of an element
//   10      2      flags: 1 torch.nn.Parameter, 2 requires a gradient, 4 on a GPU
//   12      4      0
//   16      8      bytes of the storage
//   24      8      byte offset of the first element
//   32      4      dimensions
//   36      4      0
//   40      8*n    shape
//   ...     8*n    strides, in elements
//
// A storage by itself (pickled messages only) is the first 24 bytes, with type code and bits 0.
//
// All functions need the interpreter lock.
#pragma once

#include <Python.h>

#include <span>
#include <vector>

#include "bindings/message/native.h"
#include "bindings/message/reader.h"
#include "bindings/message/writer.h"

namespace forklift::py::torch {

// Appends the description to `out`. kUnsupported: for torch's own reductions (another device or layout, bits
// that say "conjugate", a dtype that DLPack does not have, an active mode, memory that torch shares already,
// something that raises).
Encoded place_tensor(PyObject* tensor, MessageWriter& writer, std::vector<std::byte>& out);
// The same for the storage at `impl` that `owner` keeps alive. It is moved whatever allocated it.
void place_storage(PyObject* owner, void* impl, std::byte* data, std::size_t bytes, MessageWriter& writer,
                   std::vector<std::byte>& out);

// New references, or nullptr with an exception set.
PyObject* take_tensor(std::span<const std::byte> payload, MessageReader& reader);
PyObject* take_storage(std::span<const std::byte> payload, MessageReader& reader);

// The entries in the native codec's tables: when the program has imported torch, and when this module is
// imported. A receiver may not have imported torch yet.
void register_torch_encoder(PyTypeObject* tensor_type, PyTypeObject* parameter_type);
void register_torch_decoder();

}  // namespace forklift::py::torch
