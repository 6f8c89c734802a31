// Messages that were taken from a channel together, in one step.
//
//   Batch batch;
//   Incoming message;
//   Status got = channel.get_many(batch, message, 100, Deadline::never());
//   for (std::size_t i = 0; got && i < batch.size(); ++i) use(batch.bytes(i), batch.tag(i));
//   if (got && batch.empty()) use(message);                    // one that is not plain came alone
//
// A message is plain when its bytes lie in its record and it has no leases. Several of these are put, and taken, under
// one lock and with one store of the end's word, so that a death leaves all of them or none; they lie in one chunk,
// which bounds how long the lock is held and how large a Batch is. Those of one length that follow each other share a
// record (kPacked). Any other message moves its leases, which costs more than a lock does, and is put and taken by
// itself.
//
// Thread safety: none; each thread its own. Reuse the object: its memory is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "channel/channel.h"

namespace forklift::inline abi_0_1::channel {

// At most so many messages are put or taken in one step. As many as a chunk has units for records.
inline constexpr std::size_t kMostTogether = kChunkUnits - 1;

class Batch {
 public:
  std::size_t size() const noexcept { return messages_.size(); }
  bool empty() const noexcept { return messages_.empty(); }
  void clear() noexcept { messages_.clear(); }

  // Valid until the batch is cleared or filled again. Aligned to 8 bytes.
  std::span<const std::byte> bytes(std::size_t index) const noexcept {
    return {buffer_.get() + messages_[index].begin, messages_[index].bytes};
  }
  std::uint8_t codec(std::size_t index) const noexcept { return messages_[index].codec; }
  std::uint64_t tag(std::size_t index) const noexcept { return messages_[index].tag; }
  // Makes `as`, which must be empty, this message; its bytes stay in the batch.
  void show(std::size_t index, Incoming& as) const noexcept {
    as.bytes_ = bytes(index);
    as.codec_ = messages_[index].codec;
    as.tag_ = messages_[index].tag;
  }

 private:
  friend class Channel;
  struct Message {
    std::uint32_t begin;  // in the buffer
    std::uint32_t bytes;
    std::uint64_t tag;
    std::uint8_t codec;
  };
  // So that add() allocates nothing.
  void make_room() {
    if (buffer_) return;
    messages_.reserve(kMostTogether);
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(kChunkBytes);
  }
  // Of one chunk: what lies behind the records' headers, rounded up to whole words, is shorter than the chunk.
  void add(const RecordHeader& header, const std::byte* in) noexcept {
    const std::uint32_t begin =
        messages_.empty() ? 0 : (messages_.back().begin + messages_.back().bytes + 7) & ~7U;
    std::byte* out = buffer_.get() + begin;
    // Mostly a word or less, and a record has whole words.
    std::memcpy(out, in, sizeof(std::uint64_t));
    if (header.bytes > sizeof(std::uint64_t)) std::memcpy(out, in, header.bytes);
    messages_.push_back({begin, header.bytes, header.tag, header.codec});
  }
  void keep(std::size_t count) noexcept { messages_.resize(count); }

  std::unique_ptr<std::byte[]> buffer_;
  std::vector<Message> messages_;
};

}  // namespace forklift::inline abi_0_1::channel
