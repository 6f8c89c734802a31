#include "tensor/pending.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "tensor/device_storage.h"

namespace forklift::inline abi_0_1 {
namespace {

std::atomic<std::uint32_t> forks{0};

std::mutex& lock() {
  // Never destroyed: tensors may outlive main. Held across a fork, so that the child finds it free and the state whole.
  static std::mutex* const instance = [] {
    static std::mutex mutex;
    ::pthread_atfork(
        [] {
          lock().lock();
          forks.fetch_add(1, std::memory_order_relaxed);
        },
        [] { lock().unlock(); }, [] { lock().unlock(); });
    return &mutex;
  }();
  return *instance;
}

}  // namespace

Storage::~Storage() {
  if (pending_ != nullptr) [[unlikely]]
    detail::StorageAccess::drop(pending_);
}

std::byte* Storage::open() const noexcept {
  if (on_device()) return nullptr;
  // The failure stays where it is: who may fail asks for it.
  static_cast<void>(detail::StorageAccess::settle(*this, true));
  return data_;
}

namespace detail {

void StorageAccess::prepare_for_forks() { static_cast<void>(lock()); }

void StorageAccess::hide(const Storage& storage) {
  static_cast<void>(lock());  // forks are counted from here on
  storage.forks_ = forks.load(std::memory_order_relaxed);
  storage.access_.store(Storage::kUnseen, std::memory_order_relaxed);
}

bool StorageAccess::note(const Storage& storage, std::shared_ptr<Work> job) {
  const std::lock_guard held(lock());
  const Storage::Access access = storage.access_.load(std::memory_order_relaxed);
  if (access == Storage::kOpen || access == Storage::kDevice) return false;
  // A process that was forked since sees this memory, and cannot know what is on its way here.
  const bool shared = storage.forks_ != forks.load(std::memory_order_relaxed);
  if (shared && access == Storage::kUnseen) {
    storage.access_.store(Storage::kOpen, std::memory_order_release);
    return false;
  }
  if (storage.pending_ == nullptr) storage.pending_ = new PendingAccess;
  storage.pending_->last.swap(job);
  storage.access_.store(Storage::kBusy, std::memory_order_release);
  return !shared;
}

bool StorageAccess::has_work(const Storage& storage) {
  if (!is_busy(storage)) return false;
  const std::lock_guard held(lock());
  if (storage.access_.load(std::memory_order_relaxed) != Storage::kBusy) return false;
  if (!storage.pending_->last) return false;
  return !storage.pending_->last->done();
}

Status StorageAccess::settle(const Storage& storage, bool open) {
  if (storage.on_device()) return tensor::refuse_cpu(storage);
  std::shared_ptr<Work> waited;
  for (;;) {
    std::shared_ptr<Work> last;
    {
      const std::lock_guard held(lock());
      if (storage.access_.load(std::memory_order_relaxed) == Storage::kOpen) return {};
      PendingAccess* const pending = storage.pending_;
      if (pending == nullptr || !pending->last || pending->last == waited) {  // nothing was noted since
        if (pending != nullptr) {
          pending->last.reset();  // `waited` keeps the job
          if (!pending->failure) return pending->failure;
        }
        storage.access_.store(open ? Storage::kOpen : Storage::kUnseen, std::memory_order_release);
        return {};
      }
      last = pending->last;
    }
    if (Status status = last->wait(); !status) {
      fail(storage, status);
      return status;
    }
    waited = std::move(last);
  }
}

void StorageAccess::fail(const Storage& storage, const Status& failure) {
  if (storage.on_device()) return;  // its operations are complete when they return, and fail there
  const std::lock_guard held(lock());
  if (storage.pending_ == nullptr) storage.pending_ = new PendingAccess;
  if (storage.pending_->failure) storage.pending_->failure = failure;
  storage.access_.store(Storage::kBusy, std::memory_order_release);
}

Status StorageAccess::failure(const Storage& storage) {
  if (!is_busy(storage)) return {};
  const std::lock_guard held(lock());
  return storage.pending_ == nullptr ? Status() : storage.pending_->failure;
}

}  // namespace detail
}  // namespace forklift::inline abi_0_1
