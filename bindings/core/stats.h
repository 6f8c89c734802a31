// Counts what this process (not the whole domain) has sent and received, for forklift.stats(). The counters
// are relaxed atomics: they are exact only when read while no thread sends or receives.
#pragma once

#include <atomic>
#include <cstdint>

#include "forklift/status.h"

namespace forklift::py {

// The counters fill a whole page, so that count_into() can map a page of a file in its place. The counts in a
// file outlive the process.
struct alignas(4096) Counters {
  std::atomic<std::uint64_t> messages_put{0};
  std::atomic<std::uint64_t> messages_got{0};
  std::atomic<std::uint64_t> inline_bytes{0};  // inside the messages
  std::atomic<std::uint64_t> block_bytes{0};   // copied into blocks of the arena
  std::atomic<std::uint64_t> shared_bytes{0};  // in blocks that were sent as a handle, without a copy
  // Payload that went through a pipe or a socket. Always 0: nothing in Forklift sends any.
  std::atomic<std::uint64_t> pipe_bytes{0};
  std::atomic<std::uint64_t> pid{0};  // the process that counts; set only in a file
};
static_assert(sizeof(Counters) == 4096);
inline Counters counters;

// Makes this process count in the page of `file` at `offset` from now on. `from_zero`: discards what the
// counters hold (in a forked child, the parent's counts); otherwise keeps it. Call it before other threads
// send.
Status count_into(int file, std::uint64_t offset, bool from_zero);

// Not an atomic add, which would cost more on every message: when two threads add at once, one count may be
// lost.
inline void bump(std::atomic<std::uint64_t>& counter, std::uint64_t by) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}
// Counts sent messages with `inline_bytes` bytes inside them.
inline void count_put(std::uint64_t inline_bytes, std::uint64_t messages = 1) noexcept {
  bump(counters.messages_put, messages);
  bump(counters.inline_bytes, inline_bytes);
}
inline void count_got(std::uint64_t messages = 1) noexcept { bump(counters.messages_got, messages); }
inline void count_block_bytes(std::uint64_t bytes) noexcept {
  counters.block_bytes.fetch_add(bytes, std::memory_order_relaxed);
}
inline void count_shared_bytes(std::uint64_t bytes) noexcept {
  counters.shared_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace forklift::py
