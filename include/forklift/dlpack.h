// DLPack 1.x: tensors handed between libraries of one process without a copy.
//
//   dlpack::ManagedTensorVersioned* out = dlpack::export_versioned(tensor);   // into a capsule, say
//   ...
//   Tensor in = dlpack::import_versioned(managed);   // from a capsule; where it throws, `managed` is still the caller's
//
// The structures are this project's own writing of the ABI that the DLPack specification publishes; their
// layout is that of dlpack.h, so a pointer may be cast. Python's capsules are named "dltensor"
// (ManagedTensor) and "dltensor_versioned" (ManagedTensorVersioned); the capsules themselves are the
// bindings' business.
//
// Thread safety: any thread may export, import and delete. Process safety: what is exported points into this
// process and means nothing in another.
// Deleters: ours drops a Tensor. A foreign one runs when the last Tensor over the import dies, on that
// thread, and may take Python's GIL: see tensor.h.
//
// Invariants: nothing is taken over from a managed tensor before all of it was checked; exports always carry
// shape, strides and a zero byte_offset (many consumers ignore the latter two).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "forklift/dtype.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::dlpack {

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

// The version that exports carry. A consumer must refuse another major version.
inline constexpr Version kVersion{1, 0};

enum DeviceType : std::int32_t {
  kCpu = 1,
  kCuda = 2,
  kCudaHost = 3,
  kCudaManaged = 13,
};

struct Device {
  std::int32_t type;
  std::int32_t id;
};

enum TypeCode : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kOpaque = 3,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  // The narrow floats of DLPack 1.1, which have no dtype here.
  kFloat8E3M4 = 7,
  kFloat8E4M3 = 8,
  kFloat8E4M3B11Fnuz = 9,
  kFloat8E4M3Fn = 10,
  kFloat8E4M3Fnuz = 11,
  kFloat8E5M2 = 12,
  kFloat8E5M2Fnuz = 13,
  kFloat8E8M0Fnu = 14,
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct PlainTensor {  // DLTensor
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: C order without gaps
  std::uint64_t byte_offset;
};

struct ManagedTensor {  // DLManagedTensor
  PlainTensor tensor;
  void* manager_context;
  void (*deleter)(ManagedTensor* self);
};

inline constexpr std::uint64_t kReadOnly = 1;
inline constexpr std::uint64_t kIsCopied = 2;

struct ManagedTensorVersioned {  // DLManagedTensorVersioned
  Version version;
  void* manager_context;
  void (*deleter)(ManagedTensorVersioned* self);
  std::uint64_t flags;
  PlainTensor tensor;
};

DataType to_dlpack(DType dtype) noexcept;
// Nothing for more than one lane and for types that have no dtype here (float8, int4, float128, ...).
std::optional<DType> from_dlpack(DataType type) noexcept;
// "float32", "float8_e4m3fn"; empty for what is no single number of whole bytes, or has no name.
std::string_view type_name(DataType type) noexcept;

// The result holds a reference to the tensor's storage until its deleter is called. `copied` says that the
// caller made a copy for this export (the specification's IS_COPIED).
ManagedTensorVersioned* export_versioned(const Tensor& tensor, bool copied = false);
// Error: kUnsupported for a read-only tensor: the old structure cannot say so.
ManagedTensor* export_legacy(const Tensor& tensor);

// On success the tensor owns `managed` and calls its deleter (if any) in the end; on failure nothing was
// taken. Error: kVersion: another major version. kUnsupported: memory that the CPU cannot read, a type that has no
// dtype here, misaligned elements. kInvalid: what no correct producer writes (null pointers, negative
// lengths, overflow).
Tensor import_versioned(ManagedTensorVersioned* managed);
Tensor import_legacy(ManagedTensor* managed);

}  // namespace forklift::inline abi_0_1::dlpack
