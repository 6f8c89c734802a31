// Operations that were queued and still read or write a storage, and what became of them.
//
//   if (!StorageAccess::note(*storage, job)) ...   // its address is known to somebody: complete the job, then return
//   std::byte* memory = StorageAccess::address(*storage);       // for the job itself
//   if (Status status = settle(tensor); !status) return status;   // before anything else touches the elements
//
// A storage whose address nobody has asked for is "unseen": an executor may work on it behind the program's back.
// Whatever hands the address out, or lets another process see the memory, settles the storage first, which opens it
// for good. An operation that fails leaves its failure in the storages that it should have written.
//
// The executor works in order, so the last job that was noted is the last to end.
//
// Thread safety: yes. Fork: the lock is held across it. Lock order: the lock of this file is a leaf, never held across
// a wait, and never while a storage or a job is dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "forklift/status.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::detail {

// What an executor has still to do.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;

  virtual bool done() const noexcept = 0;
  // Returns when it is done. kBrokenByFork: it never will be, since it was under way in the parent at a fork. The
  // failure of an operation is no failure of the wait.
  virtual Status wait() noexcept = 0;
};

struct PendingAccess {
  std::shared_ptr<Work> last;
  Status failure;
};

struct StorageAccess {
  // Without waiting: for comparisons, and for the jobs themselves.
  static std::byte* address(const Storage& storage) noexcept { return storage.data_; }

  // Nobody has seen the address of this memory, which the caller has just made. From the next fork on the other process
  // sees it, too: then it counts as open.
  static void hide(const Storage& storage);

  // The storage lies on a device; settle() says that the CPU cannot touch it.
  static void mark_device(const Storage& storage) noexcept {
    storage.access_.store(Storage::kDevice, std::memory_order_relaxed);
  }

  // What lies here is an object (a SharedMap, a group, ...): a message in another domain cannot hold a copy of it.
  static void bind(const Storage& storage) noexcept { storage.bound_.store(true, std::memory_order_relaxed); }
  static bool is_bound(const Storage& storage) noexcept {
    return storage.bound_.load(std::memory_order_relaxed);
  }

  static bool is_busy(const Storage& storage) noexcept {
    return storage.access_.load(std::memory_order_acquire) == Storage::kBusy;
  }

  // Enters a job that reads or writes the storage. False, and nothing was changed: its address is known.
  static bool note(const Storage& storage, std::shared_ptr<Work> job);

  // Is any noted job unfinished? Forgets those that are done.
  static bool has_work(const Storage& storage);

  // Waits for all jobs that were noted, and returns the failure of one that should have written the storage. With
  // `open` the address is known from then on, unless there is a failure.
  static Status settle(const Storage& storage, bool open);

  // Of a job that should have written it.
  static void fail(const Storage& storage, const Status& failure);
  // Without waiting: the failure of a job that is done.
  static Status failure(const Storage& storage);

  // Registers this file's lock with fork, which its first use does otherwise.
  static void prepare_for_forks();

  // For ~Storage.
  static void drop(PendingAccess* pending) noexcept { delete pending; }
};

}  // namespace forklift::inline abi_0_1::detail

namespace forklift::inline abi_0_1::tensor {

// Waits for the operations that still work on the tensor's memory, and opens it. The failure of the operation that
// should have made its elements: it has none.
inline Status settle(const Tensor& tensor) {
  const std::shared_ptr<Storage>& storage = tensor.storage();
  return !storage || storage->is_open() ? Status() : detail::StorageAccess::settle(*storage, true);
}

// For who reads the elements now and keeps no address: does not open.
inline Status settle_for_reading(const Tensor& tensor) {
  const std::shared_ptr<Storage>& storage = tensor.storage();
  return !storage || storage->is_open() ? Status() : detail::StorageAccess::settle(*storage, false);
}

}  // namespace forklift::inline abi_0_1::tensor
