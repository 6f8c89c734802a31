// Questions and answers: which puts are answers, what an answer waits for, and who reads the question.
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

// What this thread has put and waited for lately, in any channel or pipe.
struct Exchange {
  std::uint32_t waits_ended = 0;  // waits for messages of channels; pipes gain nothing by it (0356)
  // It slept in a wait since its last put. Who woke it may still be about that.
  bool has_slept = false;
  // Who reads what was put last was awake then, and about nothing else: it answers within moments, where one that must be
  // woken takes as long as that lasts. What is learnt of waits is learnt for each of the two (Channel::for_message).
  bool reader_is_awake = false;
  // Of the largest message that was put since a wait for one ended well. The other end reads them before it answers, so the
  // next wait spins as long as that takes.
  std::uint64_t unanswered_bytes = 0;

  // Behind each put, of one message or several of `weight` bytes together.
  void note_put(std::uint64_t weight, bool reader_sleeps) noexcept {
    constexpr std::uint64_t kLarge = 32768;  // what is less is read in no time, and need not be noted
    if (weight >= kLarge && weight > unanswered_bytes) unanswered_bytes = weight;
    reader_is_awake = !reader_sleeps && !has_slept;
    has_slept = false;
  }
};

inline constinit thread_local Exchange exchange;

// Of one channel.
class Answers {
 public:
  // Whether the put that is under way is one. To be asked once for each put.
  bool is_answer() noexcept {
    const std::uint32_t now = exchange.waits_ended;
    if (seen_.load(std::memory_order_relaxed) == now) return false;
    seen_.store(now, std::memory_order_relaxed);
    return true;
  }

 private:
  std::atomic<std::uint32_t> seen_{0};
};

}  // namespace forklift::inline abi_0_1::channel
