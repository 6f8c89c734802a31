#include "mpi/node_message.h"

#include <utility>

namespace forklift::inline abi_0_1::mpi {
namespace {

// Bytes of more than that are a buffer of their own.
constexpr std::size_t kLarge = 16 * 1024;
#include "sync/past_caches.h"
constexpr std::uint64_t kHeap = std::uint64_t{1} << 63U;

[[noreturn]] void throw_short() {
  throw Error({Code::kCorrupt, "a message of another rank is shorter than it says"});
}

std::uint64_t word_at(std::span<const std::byte> head, std::size_t at) {
  std::uint64_t word = 0;
  if (head.size() < at + sizeof word) throw_short();
  std::memcpy(&word, head.data() + at, sizeof word);
  return word;
}

}  // namespace

Payload Payload::copy_of(std::span<const std::byte> bytes, std::uint8_t codec) {
  Payload payload;
  payload.codec = codec;
  payload.size = bytes.size();
  payload.bytes = std::make_shared_for_overwrite<std::byte[]>(bytes.size());
  if (!bytes.empty()) sync::copy_bytes(payload.bytes.get(), bytes.data(), bytes.size());
  return payload;
}

void NodeMessage::put_payload(const Payload& payload) {
  put(payload.codec);
  put(static_cast<std::uint64_t>(payload.size));
  put(static_cast<std::uint64_t>(payload.buffers.size()));
  if (payload.size > kLarge) {
    buffers.push_back({nullptr, payload.bytes, payload.size});
  } else {
    put_bytes(payload.bytes.get(), payload.size);
  }
  buffers.insert(buffers.end(), payload.buffers.begin(), payload.buffers.end());
}

const std::byte* Reader::bytes(std::size_t size) {
  if (packet_.fields.size() - at_ < size) throw_short();
  return packet_.fields.data() + std::exchange(at_, at_ + size);
}

Buffer Reader::buffer() {
  if (next_ >= packet_.buffers.size()) throw_short();
  return std::move(packet_.buffers[next_++]);
}

std::string Reader::take_text() {
  const auto size = take<std::uint64_t>();
  return {reinterpret_cast<const char*>(bytes(size)), size};
}

Payload Reader::take_payload() {
  Payload payload;
  payload.codec = take<std::uint8_t>();
  payload.size = take<std::uint64_t>();
  const auto count = take<std::uint64_t>();
  if (payload.size > kLarge) {
    Buffer apart = buffer();
    if (apart.size != payload.size || !apart.heap) throw_short();
    payload.bytes = std::move(apart.heap);
  } else {
    payload.bytes = std::make_shared_for_overwrite<std::byte[]>(payload.size);
    if (payload.size != 0) std::memcpy(payload.bytes.get(), bytes(payload.size), payload.size);
  }
  for (std::uint64_t i = 0; i < count; ++i) payload.buffers.push_back(buffer());
  return payload;
}

std::vector<std::byte> head_of(const NodeMessage& packet) {
  NodeMessage head;
  head.put(static_cast<std::uint64_t>(packet.buffers.size()));
  for (const Buffer& each : packet.buffers)
    head.put(static_cast<std::uint64_t>(each.size) | (each.lease ? std::uint64_t{0} : kHeap));
  head.fields.insert(head.fields.end(), packet.fields.begin(), packet.fields.end());
  return std::move(head.fields);
}

std::vector<Announced> announced(std::span<const std::byte> head) {
  const std::uint64_t count = word_at(head, 0);
  if (count > head.size() / sizeof count) throw_short();
  std::vector<Announced> buffers;
  for (std::uint64_t i = 1; i <= count; ++i) {
    const std::uint64_t word = word_at(head, i * sizeof word);
    buffers.push_back({word & ~kHeap, (word & kHeap) != 0});
  }
  return buffers;
}

std::vector<std::byte> fields_of(std::span<const std::byte> head) {
  const std::size_t begin = (word_at(head, 0) + 1) * sizeof(std::uint64_t);
  if (begin > head.size()) throw_short();
  return {head.begin() + static_cast<std::ptrdiff_t>(begin), head.end()};
}

}  // namespace forklift::inline abi_0_1::mpi
