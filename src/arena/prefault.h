// Makes free memory warm on request, in the background: pages come to exist before anybody asks for a block.
//
//   prefault.start(std::uint64_t{256} << 20);       // replaces what is under way; 0: nothing more
//
// A thread does it, which ends when it is done. Half of the bytes go to each kind, into one large block that later requests
// split. The thread holds the block only while it makes a few mebibytes exist, and books no more than these: whoever
// allocates meanwhile takes what is there, and a death frees the block like any other. It stops where the budget does.
//
// Fork: the thread ends before it. It goes on in the parent at the next resume(); the child has no part in it.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "arena/ledger.h"
#include "arena/pages.h"

namespace forklift::inline abi_0_1::arena {

class Prefault {
 public:
  Prefault(Ledger& ledger, const Pages& pages) noexcept : ledger_(ledger), pages_(pages) {}
  ~Prefault();
  Prefault(const Prefault&) = delete;
  Prefault& operator=(const Prefault&) = delete;

  // kSystem: there is no thread.
  Status start(std::uint64_t bytes);
  // Goes on after a fork. One load when there is nothing to do; waits for nobody.
  void resume() noexcept {
    if (paused_.load(std::memory_order_relaxed)) [[unlikely]]
      start_again();
  }
  // Called before the arena's own lock is taken, which the thread may want.
  void before_fork();
  void after_fork(bool in_child);

 private:
  // What is held, and how long a fork waits, at most.
  static constexpr std::uint64_t kPiece = std::uint64_t{4} << 20;

  void start_again() noexcept;
  Status begin();  // with the lock
  void end();      // with the lock
  void run(const std::stop_token& stop);
  std::uint64_t make_piece(Kind kind, std::uint64_t left);

  Ledger& ledger_;
  const Pages& pages_;
  std::mutex mutex_;  // held across a fork; the thread does not take it
  std::array<std::uint64_t, kKinds> goals_{};
  std::array<std::atomic<std::uint64_t>, kKinds> left_{};
  std::atomic<bool> paused_{false};
  std::unique_ptr<std::jthread> thread_;
};

}  // namespace forklift::inline abi_0_1::arena
