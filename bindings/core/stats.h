// What this process has sent and received, for forklift.stats(). Counters of the process, not of the domain;
// relaxed: read them when nobody sends.
#pragma once

#include <atomic>
#include <cstdint>

#include "forklift/status.h"

namespace forklift::py {

// A page of its own, so that it can be a page of a file (count_into): then nobody's death loses its counts.
struct alignas(4096) Counters {
  std::atomic<std::uint64_t> messages_put{0};
  std::atomic<std::uint64_t> messages_got{0};
  std::atomic<std::uint64_t> inline_bytes{0};  // in the messages themselves
  std::atomic<std::uint64_t> block_bytes{0};   // copied into blocks of the arena
  std::atomic<std::uint64_t> shared_bytes{0};  // in blocks that were sent as a handle, without a copy
  // Payload that went through a pipe or a socket. Nothing in Forklift sends any.
  std::atomic<std::uint64_t> pipe_bytes{0};
  std::atomic<std::uint64_t> pid{0};  // in a file only: whose they are
};
static_assert(sizeof(Counters) == 4096);
inline Counters counters;

// From here on this process counts in the page of `file` at `offset`, from zero (a forked child's are its
// parent's until then) or from what it has counted so far. Before there are other threads that send.
Status count_into(int file, std::uint64_t offset, bool from_zero);

// A plain add: two threads that meet may lose a count, an atomic add on every message would cost more.
inline void bump(std::atomic<std::uint64_t>& counter, std::uint64_t by) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}
// A message that was sent, with so many bytes in itself.
inline void count_put(std::uint64_t inline_bytes) noexcept {
  bump(counters.messages_put, 1);
  bump(counters.inline_bytes, inline_bytes);
}
inline void count_got() noexcept { bump(counters.messages_got, 1); }
inline void count_block_bytes(std::uint64_t bytes) noexcept {
  counters.block_bytes.fetch_add(bytes, std::memory_order_relaxed);
}
inline void count_shared_bytes(std::uint64_t bytes) noexcept {
  counters.shared_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace forklift::py
