// Questions and answers: which puts are answers, and what an answer waits for.
//
// A put is an answer where the other end waits for it, and looks for nothing else meanwhile.
//
//   if (answers_.is_answer()) offer the record to the other processor
//
// A thread that has waited for a message since its last put to the channel most likely answers that message, or asks the
// next thing. Its record is best pushed to where the waiting end finds it soon. In a stream of messages that would slow
// down both ends: the putter would lose lines that it goes on writing, so a put without such a wait is none.
//
// Thread safety: yes; an update that is lost between threads makes one put less an answer, or more.
#pragma once

#include <atomic>
#include <cstdint>

namespace forklift::inline abi_0_1::channel {

// Waits for messages that this thread has ended, in any channel.
inline constinit thread_local std::uint32_t waits_ended = 0;

// Bytes of the largest message that this thread has put since it last ended a wait for one. The other end reads them before
// it answers, so the next wait spins as long as that takes (Channel::for_message).
inline constinit thread_local std::uint64_t unanswered_bytes = 0;

inline void note_question(std::uint64_t weight) noexcept {
  constexpr std::uint64_t kLarge = 32768;  // what is less is read in no time, and need not be noted
  if (weight >= kLarge && weight > unanswered_bytes) unanswered_bytes = weight;
}

// Of one channel.
class Answers {
 public:
  // Whether the put that is under way is one. To be asked once for each put.
  bool is_answer() noexcept {
    const std::uint32_t now = waits_ended;
    if (seen_.load(std::memory_order_relaxed) == now) return false;
    seen_.store(now, std::memory_order_relaxed);
    return true;
  }

 private:
  std::atomic<std::uint32_t> seen_{0};
};

}  // namespace forklift::inline abi_0_1::channel
