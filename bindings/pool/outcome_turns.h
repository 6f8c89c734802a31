// Which thread takes the outcomes of an executor's calls from the engine: its manager thread, or one that waits for a
// result.
//
//   if (OutcomeTurns::Helping helping(turns); helping) {...}     // in a thread that waits for a result
//
//   std::vector<workers::Answer> handed;                         // in the manager thread
//   while (turns.wait(handed)) {
//     if (!handed.empty()) {...; continue;}
//     OutcomeTurns::Managing managing(turns);
//     ...
//   }
//
// A program that submits a call and waits for its result has the fewest hops when that very thread takes the outcome.
// So the manager thread keeps out of the way until somebody watches a future, at the end, and where calls are left that
// nobody has waited for within kPatience. While there are no calls it sleeps without an end.
//
// Who has the turn keeps it until the futures have what was taken: another thread that had the turn before that would
// wait for outcomes that do not come any more.
//
// Only the manager thread may run what a program has attached to futures: a waiting thread may hold locks that this
// needs. So a helper hands the outcomes of watched futures over.
//
// Thread safety: yes. The mutex is held for moments only, and never while the interpreter lock is acquired.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "workers/engine.h"

namespace forklift::py {

class OutcomeTurns {
 public:
  // A helper's turn; false: another thread has it, or the manager thread is to have it.
  class Helping {
   public:
    explicit Helping(OutcomeTurns& turns) : turns_(turns), mine_(turns.begin_helping()) {}
    ~Helping() { pause(); }
    Helping(const Helping&) = delete;
    Helping& operator=(const Helping&) = delete;
    explicit operator bool() const noexcept { return mine_; }

    // Gives the turn back and tries to have it again: around what may wait for outcomes itself.
    void pause() {
      if (std::exchange(mine_, false)) turns_.end_helping();
    }
    bool resume() { return mine_ = turns_.begin_helping(); }

   private:
    OutcomeTurns& turns_;
    bool mine_;
  };

  // The manager thread's turn, after wait() without something that was handed over.
  class Managing {
   public:
    explicit Managing(OutcomeTurns& turns) : turns_(turns) {}
    ~Managing() { turns_.end_managing(taken_); }
    Managing(const Managing&) = delete;
    Managing& operator=(const Managing&) = delete;
    void took(std::size_t count) noexcept { taken_ = count; }

   private:
    OutcomeTurns& turns_;
    std::size_t taken_ = 0;
  };

  // A call was given to the engine; somebody watches its future already.
  void note_sent(bool watched) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++left_;
    ++sent_;
    watched_ = watched_ || watched;
    if (idle_ || (waits_ && watched)) bell_.notify_one();
  }
  // Whoever has the turn has taken outcomes. Those of calls whose note_sent() is still to come count as well.
  void note_taken(std::size_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    left_ -= static_cast<std::int64_t>(count);
  }
  void hand_over(std::vector<workers::Answer> answers) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (workers::Answer& answer : answers) handed_.push_back(std::move(answer));
  }
  // Somebody watches a future.
  void watch() {
    const std::lock_guard<std::mutex> lock(mutex_);
    watched_ = true;
    if (waits_) bell_.notify_one();
  }
  // No further calls come, or it is to be looked whether they do.
  void ring() {
    const std::lock_guard<std::mutex> lock(mutex_);
    rung_ = true;
    bell_.notify_one();
  }

  // In the manager thread: until it has the turn, or until there is something that was handed over, which it puts into
  // `handed`. False: no call is left, and ring() was called since the last time.
  bool wait(std::vector<workers::Answer>& handed) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (bool patient = true;;) {
      if (!handed_.empty()) {
        handed = std::exchange(handed_, {});
        return true;
      }
      if (turn_ == Turn::kNobodys && left_ > 0 && (watched_ || rung_ || !patient)) {
        turn_ = Turn::kManagers;
        return true;
      }
      if (turn_ == Turn::kNobodys && left_ <= 0 && rung_) {
        rung_ = false;
        return false;
      }
      sleep(lock, patient);
    }
  }

 private:
  static constexpr std::chrono::milliseconds kPatience{5};
  enum class Turn : std::uint8_t {
    kNobodys,
    kManagers,
    kHelpers
  };

  void end_managing(std::size_t taken) {
    const std::lock_guard<std::mutex> lock(mutex_);
    turn_ = Turn::kNobodys;
    left_ -= static_cast<std::int64_t>(taken);
    if (left_ <= 0) watched_ = false;
  }
  bool begin_helping() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (turn_ != Turn::kNobodys || watched_ || rung_) return false;
    turn_ = Turn::kHelpers;
    return true;
  }
  void end_helping() {
    const std::lock_guard<std::mutex> lock(mutex_);
    turn_ = Turn::kNobodys;
    if (watched_ || rung_ || !handed_.empty()) bell_.notify_one();
  }

  // Sleeps for kPatience, or without an end where no call is left after such a sleep.
  void sleep(std::unique_lock<std::mutex>& lock, bool& patient) {
    const std::uint64_t seen = sent_;
    waits_ = true;
    idle_ = left_ <= 0 && !patient;
    const bool idle = idle_;
    if (idle) {
      bell_.wait(lock);
    } else {
      bell_.wait_for(lock, kPatience);
    }
    waits_ = false;
    idle_ = false;
    patient = idle || sent_ != seen;
  }

  std::mutex mutex_;
  std::condition_variable bell_;
  std::uint64_t sent_ = 0;
  std::int64_t left_ = 0;  // calls whose outcomes nobody has taken
  Turn turn_ = Turn::kNobodys;
  std::vector<workers::Answer> handed_;
  bool watched_ = false;  // the manager thread is to have the turn until no call is left
  bool rung_ = false;
  bool waits_ = false;  // the manager thread, for its turn
  bool idle_ = false;   // it does so without an end
};

}  // namespace forklift::py
