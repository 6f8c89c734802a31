// Tensors to and from DLPack's structures: what forklift/dlpack.h does, as Results.
//
//   Result<Tensor> in = import_versioned(managed);
//   if (!in) managed->deleter(managed);                      // a refused one still belongs to the caller
//
// Thread safety, invariants: those of forklift/dlpack.h.
#pragma once

#include <cstdint>
#include <optional>

#include "forklift/dlpack.h"
#include "forklift/status.h"

namespace forklift::inline abi_0_1::tensor {

// The result holds a reference to the tensor's storage until its deleter is called. `copied` says that the
// caller made a copy for this export (the specification's IS_COPIED). `stream` is the consumer's, of a tensor on a GPU,
// as the array API standard numbers them (1: the default stream, 2: that of each thread, -1: no order is wanted, none: 1).
Result<dlpack::ManagedTensorVersioned*> export_versioned(const Tensor& tensor, bool copied = false,
                                                         std::optional<std::intptr_t> stream = std::nullopt);
// kUnsupported for a read-only tensor: the old structure cannot say so.
Result<dlpack::ManagedTensor*> export_legacy(const Tensor& tensor,
                                             std::optional<std::intptr_t> stream = std::nullopt);

// On success the tensor owns `managed` and calls its deleter (if any) in the end; on failure nothing was
// taken. kVersion: another major version. kUnsupported: memory that the CPU cannot read, a type that has no
// dtype here, misaligned elements. kInvalid: what no correct producer writes (null pointers, negative
// lengths, overflow).
Result<Tensor> import_versioned(dlpack::ManagedTensorVersioned* managed);
Result<Tensor> import_legacy(dlpack::ManagedTensor* managed);

}  // namespace forklift::inline abi_0_1::tensor
