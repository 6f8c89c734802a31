// The descriptor of one object in shared memory, for poll(), epoll and event loops: readable while the object is ready.
//
//   DescriptorCell cell_;                                             // a member of the object
//   Result<int> fd = cell_.get(watches, row_.items, [this] { return !empty() || closed(); });
//   ...
//   cell_.settle();                                                   // after the object may have ceased to be ready
//
// What other processes do makes the descriptor readable. That it is no longer readable is the work of settle(), in the
// process that has the descriptor: each operation of the object that may take what it is ready with calls it. Where
// another process took it, or one was killed, the descriptor may be readable for nothing, until the next such operation
// finds nothing.
//
// A thread of the process, started with the first descriptor, looks for deaths twice a second, since a program that
// sleeps in its own loop does not; it ends before a fork, and starts again in the parent.
//
// Ownership: the cell owns the descriptor, and ends it. A forked child's cell makes one of its own when it is asked; the
// parent's is not touched.
// Thread safety: yes; destruction beside nothing.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "watch/set.h"

namespace forklift::inline abi_0_1::watch {

class Descriptor {
 public:
  using Ready = std::function<bool()>;
  // kNoSpace, kStalled, kSystem, kNotAttached.
  static Result<std::unique_ptr<Descriptor>> make(Watches& watches, sync::EventCount& event, Ready ready);

  bool mine() const noexcept { return set_->mine(); }
  int fd() const noexcept { return fd_; }
  void settle() noexcept;

 private:
  friend class DescriptorCell;
  Descriptor(std::unique_ptr<Set> set, Ready ready) noexcept
      : set_(std::move(set)), ready_(std::move(ready)) {}

  std::unique_ptr<Set> set_;
  Ready ready_;
  int fd_ = -1;
  std::unique_ptr<Descriptor> inherited_;  // of the parent process; threads may still see it
};

class DescriptorCell {
 public:
  DescriptorCell() noexcept = default;
  ~DescriptorCell() { delete descriptor_.load(std::memory_order_acquire); }
  DescriptorCell(const DescriptorCell&) = delete;
  DescriptorCell& operator=(const DescriptorCell&) = delete;

  // The errors of Descriptor::make().
  Result<int> get(Watches& watches, sync::EventCount& event, Descriptor::Ready ready);
  bool made() const noexcept { return descriptor_.load(std::memory_order_relaxed) != nullptr; }
  void settle() noexcept {
    if (Descriptor* const descriptor = descriptor_.load(std::memory_order_acquire)) [[unlikely]]
      descriptor->settle();
  }

 private:
  std::atomic<Descriptor*> descriptor_{nullptr};
};

}  // namespace forklift::inline abi_0_1::watch
