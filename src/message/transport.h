// Values and tensors as messages of a channel: bytes and leases.
//
//   MessageBuilder builder(node.arena());
//   Status packed = builder.add(value);                         // tensors become leases
//   Status sent = channel.put(builder.message(), deadline);
//
//   channel.get(incoming, deadline);
//   Result<Value> value = unpack(incoming);                    // tensors over the leases' memory
//
// A tensor in memory of the share kind travels as another lease on its block, whatever its strides; all such
// tensors of a builder that lie in one block share one lease. Any other tensor is copied, without gaps, into a
// block of the kind that the builder was made with: kShare for the C++ face (Tensor means shared memory),
// kPrivate where the receiver is to get a copy of its own (NumPy arrays). An empty tensor travels without a
// lease.
//
// Thread safety: none; each thread its own.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "channel/channel.h"
#include "forklift/value.h"
#include "message/wire.h"

namespace forklift::message {

// How to read a payload: RecordHeader.codec.
enum Codec : std::uint8_t {
  kRawCodec = 1,       // a C++ type's bytes; the tag names the type
  kPortableCodec = 2,  // a Value: codec.h
  kNativeCodec = 3,    // Python's own: MessagePack with its types
  kPickleCodec = 4,    // pickle, with out-of-band buffers
  kErrorCodec = 5,     // an exception: process/report.h
};

// In TensorMeta.index: the tensor has no elements and so no lease.
inline constexpr std::uint32_t kNoLease = 0xffffffffU;

// A tensor's description with MessagePack's head before it.
inline constexpr std::size_t kMostTensorBytes = wire::kMaxMetaBytes + 4;

class MessageBuilder {
 public:
  explicit MessageBuilder(arena::Arena& arena, arena::Kind copies = arena::Kind::kShare) noexcept
      : arena_(&arena), copies_(copies) {}

  // Appends the value as MessagePack. After a failure the builder is as it was, but for leases without a use.
  Status add(const Value& value);
  // As add(Value(tensor)), faster.
  Status add(const Tensor& tensor);
  // Enters one tensor: what describes it in the message. The caller writes it wherever its codec wants it.
  Result<wire::TensorMeta> place(const Tensor& tensor);

  std::vector<std::byte>& bytes() noexcept { return bytes_; }
  std::vector<arena::LeasePtr>& leases() noexcept { return leases_; }
  // Refers to this builder.
  channel::Outgoing message(std::uint8_t codec = kPortableCodec, std::uint64_t tag = 0) const noexcept {
    return {bytes_, leases_, codec, tag};
  }
  void clear() noexcept;
  // Empty again and for another arena; keeps its buffers.
  void reset(arena::Arena& arena) noexcept;

 private:
  // Of a tensor that travels as it lies; kNoLease: it is to be copied.
  Result<std::uint32_t> lease_of(const Tensor& tensor);
  Result<wire::TensorMeta> place_copy(const Tensor& tensor);
  // A copy of packed items, in a lease of their own.
  Result<std::uint32_t> store(std::span<const std::byte> bytes);

  arena::Arena* arena_;
  arena::Kind copies_;
  std::vector<std::byte> bytes_;
  std::vector<arena::LeasePtr> leases_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> placed_;  // block's offset -> index of its lease
};

// A tensor that is the only user of its block, as the message in which its own lease goes along instead of
// another one. The caller empties the tensor when the message was put, and keeps it when that failed.
class LastUse {
 public:
  // Is it such a tensor, in this arena? It must stay as it is while this object is used.
  LastUse(const Tensor& tensor, const arena::Arena& arena) noexcept;
  explicit operator bool() const noexcept { return lease_ != nullptr; }
  // Precondition: it is. Refers to this object and the tensor.
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

// A portable message as a Value. kCorrupt: it is not one.
Result<Value> unpack(channel::Incoming& message);
// The same of a part of its bytes.
Result<Value> unpack(channel::Incoming& message, std::span<const std::byte> bytes);
// As unpack().as<Tensor>(), faster. kInvalid: it is another value.
Result<Tensor> unpack_tensor(channel::Incoming& message);

}  // namespace forklift::message
