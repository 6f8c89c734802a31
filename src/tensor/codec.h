// Values as bytes: MessagePack, with a tensor as extension type 1 whose payload is a tensor description
// (wire.h).
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
#include "tensor/wire.h"

namespace forklift::tensor {

inline constexpr std::int8_t kTensorExtension = 1;

using Place = std::function<Result<wire::TensorMeta>(const Tensor& tensor)>;
using Fetch = std::function<Result<Tensor>(const wire::TensorMeta& meta)>;

// Appends to `out`. kInvalid: nested too deep, a key that is no scalar, a string that is not UTF-8, a length
// beyond 32 bits; or the failure of `place`. `out` has its old contents after a failure.
Status encode(const Value& value, const Place& place, std::vector<std::byte>& out);

// The n-th tensor as it lies in its storage, under index n.
struct Encoded {
  std::vector<std::byte> bytes;
  std::vector<Tensor> tensors;
};
Result<Encoded> encode(const Value& value);

// `bytes` may lie in shared memory. A failure of `fetch` is passed on.
Result<Value> decode(std::span<const std::byte> bytes, const Fetch& fetch);
// The same for bytes that nobody else can change meanwhile: saves the copy.
Result<Value> decode_private(std::span<const std::byte> bytes, const Fetch& fetch);

// Tensors over the storages of the message, by index.
Result<Value> decode(std::span<const std::byte> bytes, std::span<const std::shared_ptr<Storage>> storages);

}  // namespace forklift::tensor
