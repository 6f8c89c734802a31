// A message on its way out: its bytes, and the leases that go along with them.
//
//   MessageBuilder builder(node.arena());
//   Status added = builder.add(value);                          // tensors become leases
//   Status sent = channel.put(builder.message(), deadline);
//
// A tensor in memory of the share kind travels as another lease on its block, whatever its strides; all such
// tensors of a builder that lie in one block share one lease. Any other tensor is copied, without gaps, into
// a block of the kind that the builder was made with: kShare for the C++ face (Tensor means shared memory),
// kPrivate where the receiver is to get a copy of its own (NumPy arrays). An empty tensor travels without a
// lease.
//
// Where encoding must neither wait nor copy (Python encodes under its interpreter lock), leases are noted
// first and made later:
//
//   MessageBuilder builder;
//   const PendingCopy& copy = builder.note_copy(data, bytes, arena::Kind::kPrivate);
//   write_description(copy.lease, builder.bytes());             // the lease's place in the message
//   Status allocated = builder.allocate(arena);
//   if (allocated) builder.copy();
//   Status sent = channel.put(builder.message(codec), deadline);
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
#include "sync/past_caches.h"

namespace forklift::inline abi_0_1::message {

// How to read a payload: RecordHeader.codec.
enum Codec : std::uint8_t {
  kRawCodec = 1,       // a C++ type's bytes; the tag names the type
  kPortableCodec = 2,  // a Value: codec.h
  kNativeCodec = 3,    // Python's own: MessagePack with its types
  kPickleCodec = 4,    // pickle, with out-of-band buffers
  kErrorCodec = 5,     // an exception: process/report.h
  kLoanCodec = 6,      // as kRawCodec, but in a block that the sender wrote: loan.h
};

// In TensorMeta.index: the tensor has no elements and so no lease.
inline constexpr std::uint32_t kNoLease = 0xffffffffU;

// Memory that is to be copied into a block of the message. Whoever notes it keeps it alive until it is
// copied.
struct PendingCopy {
  const void* data = nullptr;
  std::size_t bytes = 0;
  // Of strided memory; both empty otherwise.
  Dims shape;
  Dims strides;  // in bytes
  std::size_t item_size = 1;
  std::uint32_t lease = 0;  // the block's place among the message's leases
  arena::Kind kind = arena::Kind::kPrivate;
  std::size_t offset = 0;  // in the block
  std::size_t block_bytes = 0;
  bool done = false;
};

class MessageBuilder {
 public:
  // For messages whose leases are noted; add() and place() need an arena.
  MessageBuilder() noexcept = default;
  explicit MessageBuilder(arena::Arena& arena, arena::Kind copies = arena::Kind::kShare) noexcept
      : arena_(&arena), copies_(copies) {}

  // Appends the value as MessagePack. After a failure the builder is as it was, but for leases without a use.
  Status add(const Value& value);
  // As add(Value(tensor)), faster.
  Status add(const Tensor& tensor);
  // Gives a tensor a lease of the message. Returns its description, which the caller writes where its codec
  // wants it.
  Result<wire::TensorMeta> place(const Tensor& tensor);

  // Notes a copy in a block of its own. The reference is valid until the next one is noted.
  PendingCopy& note_copy(const void* data, std::size_t bytes, arena::Kind kind);
  // Notes another copy in the block of an earlier one, whose block_bytes make room for it.
  void note_part(std::uint32_t lease, std::size_t offset, const void* data, std::size_t bytes);
  // Notes another lease on a block of the share kind. Returns its place among the message's leases.
  std::uint32_t note_share(arena::LeasePtr held);
  // Replaces the lease at this place, whose block is given up, with another one on `held`.
  void share_instead(std::uint32_t lease, arena::LeasePtr held);

  // Who is to read the message, if that is known: the blocks that it gets from here on lie there (Channel::reader_node).
  // Until clear(); the channel must last as long.
  void goes_to(const channel::Channel* channel) noexcept { channel_ = channel; }

  // Makes the leases that are noted and not there yet. After a failure it may be called again.
  Status allocate(arena::Arena& arena);
  // Copies what is noted and not copied yet. Precondition: allocate() succeeded.
  void copy();
  // Notes that the caller has copied what goes into the lease's block.
  void mark_copied(std::uint32_t lease) noexcept;

  std::vector<std::byte>& bytes() noexcept { return bytes_; }
  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  std::vector<arena::LeasePtr>& leases() noexcept { return leases_; }
  // Refers to this builder.
  channel::Outgoing message(std::uint8_t codec = kPortableCodec, std::uint64_t tag = 0) const noexcept {
    return {bytes_, leases_, codec, tag, false, noted_bytes_};
  }
  // Whether anything was noted since the last clear().
  bool noted() const noexcept { return noted_; }
  // Of the memory that note_copy() was told of.
  std::size_t noted_bytes() const noexcept { return noted_bytes_; }
  // What copy() and allocate() have done since the last clear(), for statistics.
  std::uint64_t copied_bytes() const noexcept { return copied_bytes_; }
  std::uint64_t shared_bytes() const noexcept { return shared_bytes_; }
  // Of all blocks of the message, those that are noted and not there yet included. 0: it has none.
  std::uint64_t block_bytes() const noexcept;
  // Whether clear() gives leases up, which may wait for the arena's lock.
  bool holds_leases() const noexcept;

  // For a message that leaves the domain, with copies of its leases' memory: shared memory that is an object is refused
  // (kInvalid), and of a large block a small part is copied out, so that the rest does not travel.
  void leaves_domain() noexcept { leaves_domain_ = true; }

  // Empty again; keeps its buffers.
  void clear() noexcept {
    bytes_.clear();
    leases_.clear();
    placed_.clear();
    channel_ = nullptr;
    if (noted_) clear_noted();
  }
  // Empty again and for another arena.
  void reset(arena::Arena& arena) noexcept {
    clear();
    arena_ = &arena;
  }

 private:
  struct PendingShare {
    arena::LeasePtr held;
    std::uint32_t lease;
  };

  Result<arena::LeasePtr> allocate_block(arena::Arena& arena, arena::Kind kind, std::size_t bytes) const {
    return arena.allocate(kind, bytes, false,
                          channel_ != nullptr ? channel_->reader_node(bytes) : arena::kAnyNode);
  }
  void copy_into_block(void* dst, const void* src, std::size_t bytes) const noexcept {
    channel_ != nullptr ? channel_->copy_in(dst, src, bytes) : sync::copy_large(dst, src, bytes);
  }
  Status copy_instead(arena::Arena& arena, const PendingShare& share);
  // Of a tensor that travels as it lies; kNoLease: it is to be copied.
  Result<std::uint32_t> lease_of(const Tensor& tensor);
  Result<wire::TensorMeta> place_copy(const Tensor& tensor);
  // A copy of packed items, in a lease of their own.
  Result<std::uint32_t> store(std::span<const std::byte> bytes);
  void clear_noted() noexcept;

  arena::Arena* arena_ = nullptr;
  const channel::Channel* channel_ = nullptr;
  bool leaves_domain_ = false;
  arena::Kind copies_ = arena::Kind::kShare;
  std::vector<std::byte> bytes_;
  std::vector<arena::LeasePtr> leases_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> placed_;  // packed object -> index of its lease
  bool noted_ = false;                                           // false: what follows is empty
  std::vector<PendingCopy> pending_copies_;
  std::vector<PendingShare> pending_shares_;
  std::size_t noted_bytes_ = 0;
  std::uint64_t copied_bytes_ = 0;
  std::uint64_t shared_bytes_ = 0;
};

}  // namespace forklift::inline abi_0_1::message
