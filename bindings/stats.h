// What this process has sent and received, for forklift.stats(). Counters of the process, not of the domain;
// relaxed: read them when nobody sends.
#pragma once

#include <atomic>
#include <cstdint>

namespace forklift::py {

struct Counters {
  std::atomic<std::uint64_t> messages_put{0};
  std::atomic<std::uint64_t> messages_got{0};
  std::atomic<std::uint64_t> inline_bytes{0};  // in the messages themselves
  std::atomic<std::uint64_t> block_bytes{0};   // copied into blocks of the arena
  std::atomic<std::uint64_t> shared_bytes{0};  // in blocks that were sent as a handle, without a copy
  // Payload that went through a pipe or a socket. Nothing in Forklift sends any.
  std::atomic<std::uint64_t> pipe_bytes{0};
};
inline Counters counters;

// A plain add: two threads that meet may lose a count, an atomic add on every message would cost more.
inline void bump(std::atomic<std::uint64_t>& counter, std::uint64_t by) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}
inline void count_block_bytes(std::uint64_t bytes) noexcept {
  counters.block_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace forklift::py
