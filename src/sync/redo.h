// The redo record: several words change together or not at all, even if the process is killed in between.
//
//   Transaction change(record, base);
//   change.set(list_head, block.next);
//   change.set(block.count, 1);
//   change.commit();
//
// How: set() writes the new (absolute) values into the record; commit() stores `count`, then the words, and
// then clears `count`. If the process is killed before `count` is stored, nothing has changed. If it is
// killed after that, the next owner of the lock calls replay(), which stores the same values again. Replay is
// idempotent because the words covered by a record are changed only under its lock. Cost: about 27 ns for ten
// words.
//
// Source: redo logging with absolute values, as in ARIES' physical redo (Mohan et al., 1992), for one
// transaction at a time.
#pragma once

#include <cstddef>

#include "sync/word.h"

namespace forklift::inline abi_0_1::sync {

// Lives in shared memory, beside the RobustMutex that guards it. All-zero is a valid, empty record.
struct alignas(64) RedoRecord {
  static constexpr std::size_t kCapacity = 40;
  struct Entry {
    std::uint64_t offset;  // of the word, in bytes from the segment's base
    std::uint64_t value;
  };
  Word count;
  Entry entries[kCapacity];
};

class Transaction {
 public:
  Transaction(RedoRecord& record, std::byte* base) noexcept : record_(record), base_(base) {}
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // Later entries for the same word win. At most RedoRecord::kCapacity entries (checked where lists grow).
  void set(Word& word, std::uint64_t value) noexcept {
    record_.entries[count_].offset = static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(&word) - base_);
    record_.entries[count_].value = value;
    ++count_;
  }
  std::size_t size() const noexcept { return count_; }

  void commit() noexcept {
    crash_fence();
#ifndef FORKLIFT_SEED_FAULT
    // The seeded fault leaves out this step; then a death below leaves the change half done.
    record_.count.store(count_, std::memory_order_release);
#endif
    crash_fence();
    apply(record_, count_, base_);
    crash_fence();
    record_.count.store(0, std::memory_order_release);
    crash_fence();
  }

  // Completes the change of an owner that died inside commit(). Call with the lock held.
  static void replay(RedoRecord& record, std::byte* base) noexcept {
    const std::uint64_t count = record.count.load(std::memory_order_acquire);
    apply(record, count <= RedoRecord::kCapacity ? count : 0, base);
    crash_fence();
    record.count.store(0, std::memory_order_release);
  }

 private:
  // In the order of set(), also as others see it who read without the lock (watch/watches.h).
  static void apply(const RedoRecord& record, std::uint64_t count, std::byte* base) noexcept {
    for (std::uint64_t i = 0; i < count; ++i) {
      reinterpret_cast<Word*>(base + record.entries[i].offset)
          ->store(record.entries[i].value, std::memory_order_release);
    }
  }

  RedoRecord& record_;
  std::byte* base_;
  std::size_t count_ = 0;
};

}  // namespace forklift::inline abi_0_1::sync
