// A tensor's description as it travels: everything but the elements.
//
//   offset  size
//   0       4     index: which of the message's leases the elements lie in
//   4       1     dtype
//   5       1     flags: bit 0 read-only, the others zero
//   6       1     ndim, at most kMaxDims
//   7       1     zero
//   8       8     byte offset of the first element in the lease's memory
//   16      8*n   shape
//   16+8*n  8*n   strides, in elements
//
// little-endian, without alignment. Part of the shared layout: docs/layout.md.
//
// What comes in is data of another process: decode_meta() reads each byte once and checks what can be checked
// without the memory; tensor_over() checks the rest. Both answer kCorrupt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "forklift/status.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::wire {

struct TensorMeta {
  std::uint32_t index = 0;
  DType dtype = DType::kFloat32;
  bool readonly = false;
  std::uint64_t byte_offset = 0;
  Dims shape;
  Dims strides;
};

constexpr std::size_t meta_bytes(std::size_t ndim) noexcept { return 16 + 16 * ndim; }
inline constexpr std::size_t kMaxMetaBytes = meta_bytes(kMaxDims);

// How the tensor lies in its own storage.
TensorMeta meta_of(const Tensor& tensor, std::uint32_t index);

// Writes meta_bytes(meta.shape.size()) bytes. Precondition: `out` is that large; the meta is some tensor's.
void encode_meta(const TensorMeta& meta, std::byte* out) noexcept;
// Writes the description of meta_of(tensor, index).
void encode_tensor(const Tensor& tensor, std::uint32_t index, std::byte* out) noexcept;

// `bytes` may lie in shared memory. Checked: exact length, known dtype and flags, ndim, no negative length,
// no overflow.
Result<TensorMeta> decode_meta(std::span<const std::byte> bytes);

// The tensor that the meta describes over the memory of its lease. Checked: every element inside, and
// aligned.
Result<Tensor> tensor_over(TensorMeta meta, std::shared_ptr<Storage> storage);

// decode_meta() and tensor_over() in one step, for a tensor that is alone in its message. The index in the
// description is not checked: see index_of.
Result<Tensor> decode_tensor(std::span<const std::byte> bytes, std::shared_ptr<Storage> storage);
// The index in a description. Nothing if the bytes are too few for a description.
std::optional<std::uint32_t> index_of(std::span<const std::byte> bytes) noexcept;

}  // namespace forklift::inline abi_0_1::wire
