// Tensors to and from DLPack's structures: what forklift/dlpack.h does, as Results.
//
//   Result<Tensor> in = import_versioned(managed);
//   if (!in) managed->deleter(managed);                      // a refused one still belongs to the caller
//
// Thread safety, invariants: those of forklift/dlpack.h.
#pragma once

#include "forklift/dlpack.h"
#include "forklift/status.h"

namespace forklift::tensor {

// The result holds a reference to the tensor's storage until its deleter is called. `copied` says that the
// caller made a copy for this export (the specification's IS_COPIED).
Result<dlpack::ManagedTensorVersioned*> export_versioned(const Tensor& tensor, bool copied = false);
// kUnsupported for a read-only tensor: the old structure cannot say so.
Result<dlpack::ManagedTensor*> export_legacy(const Tensor& tensor);

// On success the tensor owns `managed` and calls its deleter (if any) in the end; on failure nothing was
// taken. kVersion: another major version. kUnsupported: memory that the CPU cannot read, a type that has no
// dtype here, misaligned elements. kInvalid: what no correct producer writes (null pointers, negative
// lengths, overflow).
Result<Tensor> import_versioned(dlpack::ManagedTensorVersioned* managed);
Result<Tensor> import_legacy(dlpack::ManagedTensor* managed);

}  // namespace forklift::tensor
