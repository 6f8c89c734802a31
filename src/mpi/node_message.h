// A message between the driver and an agent: a few fields and, beside them, memory that is not copied.
//
//   NodeMessage packet(Kind::kTasks, pool);
//   packet.put(std::uint64_t{7});
//   packet.put_payload(payload);              // the leases' memory travels as messages of its own
//
//   Reader reader(packet);                    // of what came
//   auto number = reader.take<std::uint64_t>();
//   Payload payload = reader.take_payload();
//
// Both ends are ranks of one program on machines of one kind, so fields are plain bytes. A Reader checks lengths all the same,
// and throws Error (kCorrupt).
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "arena/lease.h"
#include "forklift/error.h"

namespace forklift::inline abi_0_1::mpi {

// What a message says. To agents, then to the driver.
enum class Kind : std::uint32_t {
  kBegin = 1,  // a pool's options and initializer
  kTasks,
  kRecall,  // these tasks come back if no worker has begun them
  kClose,   // all tasks have ended
  kTerminate,
  kAsk,  // for the workers' process ids
  kBegun,
  kFailed,  // why the workers cannot work
  kAnswers,
  kRefused,  // these tasks were asked back, and have begun or ended
  kPids,
  kEnded,  // the workers are gone
};

// Memory that travels beside a message: a block of the arena, or of the heap.
struct Buffer {
  arena::LeasePtr lease;
  std::shared_ptr<std::byte[]> heap;
  std::size_t size = 0;
  std::byte* data() const noexcept { return lease ? lease->data() : heap.get(); }
};

// The message of a task or an answer, as channels have them.
struct Payload {
  std::shared_ptr<std::byte[]> bytes;
  std::size_t size = 0;
  std::vector<Buffer> buffers;  // the leases; of the heap where the arena had no room
  std::uint8_t codec = 0;

  // With a copy of the bytes, and without buffers.
  static Payload copy_of(std::span<const std::byte> bytes, std::uint8_t codec = 0);
};

class NodeMessage {
 public:
  NodeMessage() = default;
  NodeMessage(Kind kind, std::uint64_t pool) {
    put(kind);
    put(pool);
  }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    put_bytes(&value, sizeof value);
  }
  void put(const std::string& text) {
    put(static_cast<std::uint64_t>(text.size()));
    put_bytes(text.data(), text.size());
  }
  void put_payload(const Payload& payload);

  std::vector<std::byte> fields;
  std::vector<Buffer> buffers;

 private:
  void put_bytes(const void* data, std::size_t size) {
    const auto* const bytes = static_cast<const std::byte*>(data);
    fields.insert(fields.end(), bytes, bytes + size);
  }
};

class Reader {
 public:
  explicit Reader(NodeMessage& packet) : packet_(packet) {}
  template <class T>
    requires std::is_trivially_copyable_v<T>
  T take() {
    T value;
    std::memcpy(&value, bytes(sizeof value), sizeof value);
    return value;
  }
  bool has_more() const noexcept { return at_ < packet_.fields.size(); }
  std::string take_text();
  Payload take_payload();

 private:
  const std::byte* bytes(std::size_t size);
  Buffer buffer();
  NodeMessage& packet_;
  std::size_t at_ = 0;
  std::size_t next_ = 0;
};

// The head of a message: the sizes of its buffers, then its fields. And which buffers a head announces, as they are to be made.
std::vector<std::byte> head_of(const NodeMessage& packet);
struct Announced {
  std::size_t size;
  bool heap;
};
std::vector<Announced> announced(std::span<const std::byte> head);
std::vector<std::byte> fields_of(std::span<const std::byte> head);

}  // namespace forklift::inline abi_0_1::mpi
