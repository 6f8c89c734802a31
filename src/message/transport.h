// The message of a tensor that gives its own lease away, and received messages as values and tensors.
//
//   Status sent = channel.put(builder.message(), deadline);    // message_builder.h
//
//   channel.get(incoming, deadline);
//   Result<Value> value = unpack(incoming);                    // tensors over the leases' memory
//
// Thread safety: none; each thread its own.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "channel/channel.h"
#include "forklift/value.h"
#include "message/message_builder.h"
#include "message/tensor_head.h"
#include "message/wire.h"

namespace forklift::inline abi_0_1::message {

// A tensor that is the only user of its block, as the message in which its own lease goes along instead of
// another one. The caller empties the tensor when the message was put, and keeps it when that failed.
class LastUse {
 public:
  // Finds out whether the tensor is the only user of a block in this arena. The tensor must not change while
  // this object is used.
  LastUse(const Tensor& tensor, const arena::Arena& arena) noexcept;
  explicit operator bool() const noexcept { return lease_ != nullptr; }
  // Precondition: the tensor is the only user. The message refers to this object and to the tensor.
  channel::Outgoing message() const noexcept {
    return {std::span(bytes_).first(size_), {lease_, 1}, kPortableCodec, 0};
  }

 private:
  const arena::LeasePtr* lease_ = nullptr;
  std::size_t size_ = 0;
  std::array<std::byte, kMostTensorBytes> bytes_;
};

// The storages of a received message, made when a tensor asks for one. Takes the message's leases.
class Unpacker {
 public:
  explicit Unpacker(channel::Incoming& message);

  Result<Tensor> tensor(wire::TensorMeta meta);
  Result<std::shared_ptr<Storage>> storage(std::uint32_t index);

 private:
  std::vector<arena::LeasePtr> leases_;
  std::vector<std::shared_ptr<Storage>> storages_;
};

// The value of a portable message. kCorrupt: the bytes are no portable value.
Result<Value> unpack(channel::Incoming& message);
// The value in a part of the message's bytes.
Result<Value> unpack(channel::Incoming& message, std::span<const std::byte> bytes);
// As unpack().as<Tensor>(), faster. kInvalid: the value is no tensor.
Result<Tensor> unpack_tensor(channel::Incoming& message);

}  // namespace forklift::inline abi_0_1::message
