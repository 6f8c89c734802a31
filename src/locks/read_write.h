// ReadWriteLock: one thread writes, or any number of threads read.
//
//   status = lock->acquire_shared(deadline, hooks);  ...  lock->release_shared();
//   status = lock->acquire(deadline, hooks, how);    ...  released = lock->release();
//
// The writer is the owner of a Mutex; each process that reads has a record (a cell) that counts its reading threads.
// A reader adds one to its own process's cell, then looks for a writer; a writer becomes the owner, then looks at all
// cells. Both sides do so in sequentially consistent order, so at least one of the two sees the other; a reader that
// sees a writer leaves again. Reading thus writes no memory that other processes' readers write.
//
// Deaths: the cells of a process that ended, however it ended, are freed. A writer that ended, however it ended, is
// taken over from (Took::kAbandoned), and readers learn of it by abandoned() until a writer has been there.
//
// A writer waits for the readers that are there; new readers wait for it. A thread that reads and asks to read again
// while a writer waits, or that reads and asks to write, waits for itself.
//
// Source of the idea: one counter for each reader's place, W. C. Hsieh and W. E. Weihl, Scalable reader-writer locks
// for parallel systems, IPPS 1992.
//
// Thread and process safety: all functions.
#pragma once

#include "locks/mutex.h"

namespace forklift::inline abi_0_1::locks {

class ReadWriteLock : public Mutex {
 public:
  static Result<std::shared_ptr<ReadWriteLock>> create(Table& table);
  static Result<std::shared_ptr<ReadWriteLock>> open(Table& table, LockId id);

  // To write. kTimeout, kNotAttached, or the hooks' status: nothing is held then.
  Status acquire(os::Deadline deadline, WaitHooks* hooks, Took& how);
  // kNotOwner: this thread does not write.
  Released release() noexcept;

  // To read. Errors as of acquire(), and kNoSpace, kStalled where this process's record could not be made.
  Status acquire_shared(os::Deadline deadline, WaitHooks* hooks);
  // kNotHeld: no thread of this process reads.
  Released release_shared() noexcept;

  // Did the last writer die while it wrote, and has none written since? Also while this thread writes, if it took
  // over from that one.
  bool abandoned() const noexcept { return (owner() & Owner::kAbandoned) != 0; }
  // How many threads of all processes read: a moment's truth.
  std::uint64_t readers() const noexcept;
  // Wakes all waiters, which then check again.
  void wake_all() noexcept;

 private:
  ReadWriteLock(Table& table, Right right) : Mutex(table, std::move(right), false) {}
  // This process's record; nullptr: none yet.
  Cell* known_cell() const noexcept;
  Result<Cell*> cell_here();
  bool enter(Cell& cell) noexcept;
  void leave(Cell& cell) noexcept;
  bool free_to_read() const noexcept { return Owner::is_free(owner()); }
  Status wait_for_readers(os::Deadline deadline, WaitHooks* hooks);

  // {Owner of this process, without a thread:42, cell + 1:22}: what a forked child inherits does not name its process.
  std::atomic<std::uint64_t> known_{0};
};
using ReadWriteLockPtr = std::shared_ptr<ReadWriteLock>;

}  // namespace forklift::inline abi_0_1::locks
