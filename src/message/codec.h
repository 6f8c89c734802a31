// Values as bytes: MessagePack, with a tensor as extension type 1 whose payload is a tensor description
// (wire.h).
//
// Numbers and bytes in one piece (forklift/detail/packed.h) are extension type 2: a head of 16 bytes, then the items
// themselves, or, where they are many, their lease:
//
//   offset  size
//   0       1     1: bytes; 0: numbers
//   1       1     dtype (of bytes: uint8)
//   2       2     zero
//   4       4     width: numbers that make one item, a list itself; 0: items are numbers
//   8       4     index: which of the message's leases the items lie in; 0xfffffffe: they follow
//   12      4     zero
//   16      8     how many bytes there are in the lease; only with one
//
// Sending: encode() calls `place` for every tensor, in the order of their occurrence; it answers where the
// receiver will find the elements (after copying them into a block, say). Receiving: decode() calls `fetch`
// with what `place` answered at the other end, already checked as far as wire::decode_meta() can.
//
// What is decoded comes from another process: decode() copies it first, and whatever the bytes are, it ends
// in a Value or in kCorrupt, having allocated no more than a fixed multiple of their number.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "forklift/value.h"
#include "message/wire.h"

namespace forklift::inline abi_0_1::message {

inline constexpr std::int8_t kTensorExtension = 1;
inline constexpr std::int8_t kPackedExtension = 2;

// Packed items up to this lie between the other bytes of the message; more in a lease of their own, so that
// they are copied once at each end.
inline constexpr std::size_t kPackedInline = 8 * 1024;

using Place = std::function<Result<wire::TensorMeta>(const Tensor& tensor)>;
using Fetch = std::function<Result<Tensor>(const wire::TensorMeta& meta)>;

// Copies the bytes into memory that goes along with the message: the index of its lease. Empty: there is no
// such memory, everything is inline.
using Store = std::function<Result<std::uint32_t>(std::span<const std::byte> bytes)>;
// The memory of a lease of the message.
using Memory = std::function<Result<std::shared_ptr<Storage>>(std::uint32_t index)>;

// Appends to `out`. kInvalid: nested too deep, a key that is no scalar, a string that is not UTF-8, a length
// beyond 32 bits; or the failure of `place`. `out` has its old contents after a failure.
Status encode(const Value& value, const Place& place, std::vector<std::byte>& out, const Store& store = {});

// The n-th tensor as it lies in its storage, under index n.
struct Encoded {
  std::vector<std::byte> bytes;
  std::vector<Tensor> tensors;
};
Result<Encoded> encode(const Value& value);

// `bytes` may lie in shared memory. A failure of `fetch` is passed on.
Result<Value> decode(std::span<const std::byte> bytes, const Fetch& fetch, const Memory& memory = {});
// The same for bytes that nobody else can change meanwhile: saves the copy.
Result<Value> decode_private(std::span<const std::byte> bytes, const Fetch& fetch, const Memory& memory = {});

// Tensors over the storages of the message, by index.
Result<Value> decode(std::span<const std::byte> bytes, std::span<const std::shared_ptr<Storage>> storages);

}  // namespace forklift::inline abi_0_1::message
