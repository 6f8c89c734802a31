#include "bindings/torch/old_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <utility>

#include "node/node.h"

namespace forklift::py::torch {

namespace {

// From this size on the pages of a range are overlaid. Each overlay may cost two of the kernel's 65,530
// mappings of a process, so no more than kMostOverlays exist at a time.
constexpr std::size_t kOverlaidFrom = std::size_t{128} << 10;
constexpr std::size_t kMostOverlays = 16'384;
// What is overlaid in one step: other threads may wait for a storage meanwhile.
constexpr std::size_t kStep = std::size_t{1} << 20;
std::atomic<std::size_t> overlays{0};

// Small memory that is freed when as much has come after it.
class Lingering {
 public:
  void add(std::size_t bytes, Deleter deleter, void* context) {
    entries_.push_back({bytes, deleter, context});
    bytes_ += bytes;
    while (entries_.size() > kMost || bytes_ > kMostBytes) {
      const Entry oldest = entries_.front();
      entries_.pop_front();
      bytes_ -= oldest.bytes;
      oldest.deleter(oldest.context);
    }
  }

 private:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  struct Entry {
    std::size_t bytes;
    Deleter deleter;
    void* context;
  };
  std::deque<Entry> entries_;
  std::size_t bytes_ = 0;
};

Lingering& lingering() {
  static auto* const all = new Lingering;
  return *all;
}

bool reserve_overlay() noexcept {
  if (overlays.fetch_add(1, std::memory_order_relaxed) < kMostOverlays) return true;
  overlays.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

Result<os::Overlay> overlay_of(const arena::Lease& block, std::size_t begin, void* range, std::size_t bytes) {
  if (block.object().kind == arena::ObjectKind::kBlock)
    return block.arena().overlay(block, begin, range, bytes);
  const node::Node* node = node::Node::existing();
  if (!node) return Status(Code::kNotAttached, "");
  return node->segments().overlay(block, begin, range, bytes);
}

}  // namespace

std::size_t displacement_of(StorageView storage) noexcept {
  if (storage.bytes() < kOverlaidFrom || !storage.is_private()) return 0;
  return reinterpret_cast<std::uintptr_t>(storage.data()) % os::page_size();
}

OldMemory::OldMemory(StorageView storage) noexcept
    : data_(storage.data()),
      bytes_(storage.bytes()),
      deleter_(storage.deleter()),
      context_(storage.context()),
      unseen_(storage.is_private() && storage.is_resizable()) {}

OldMemory::OldMemory(OldMemory&& other) noexcept
    : data_(other.data_),
      bytes_(other.bytes_),
      deleter_(std::exchange(other.deleter_, nullptr)),
      context_(other.context_),
      unseen_(other.unseen_),
      overlay_(std::move(other.overlay_)) {}

OldMemory& OldMemory::operator=(OldMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(deleter_, other.deleter_);
  std::swap(context_, other.context_);
  std::swap(unseen_, other.unseen_);
  std::swap(overlay_, other.overlay_);
  return *this;
}

OldMemory::~OldMemory() {
  if (overlay_.valid()) {
    overlays.fetch_sub(1, std::memory_order_relaxed);
    // The allocator must not get memory that others share. It is leaked then.
    if (!overlay_.end()) return;
  }
  if (deleter_) deleter_(context_);
}

OldMemory::Pages OldMemory::pages() const noexcept {
  const std::size_t page = os::page_size();
  const auto first = reinterpret_cast<std::uintptr_t>(data_);
  const std::uintptr_t low = (first + page - 1) / page * page;
  const std::uintptr_t high = (first + bytes_) / page * page;
  return {low - first, low < high ? high - low : 0};
}

bool OldMemory::can_overlay(const arena::Lease& block, std::size_t begin) const noexcept {
  const std::size_t page = os::page_size();
  const auto copy = reinterpret_cast<std::uintptr_t>(block.data() + begin);
  return copy % page == reinterpret_cast<std::uintptr_t>(data_) % page && pages().bytes != 0;
}

bool OldMemory::overlay_more(const arena::Lease& block, std::size_t begin) {
  const Pages all = pages();
  const std::size_t at = all.begin + overlay_.bytes();
  const std::size_t next = std::min(kStep, all.bytes - overlay_.bytes());
  Result<os::Overlay> overlay = overlay_of(block, begin + at, data_ + at, next);
  if (!overlay) return false;
  if (overlay_.valid()) {
    overlay_.join(*std::move(overlay));
  } else {
    overlay_ = *std::move(overlay);
  }
  return true;
}

bool OldMemory::give_back(bool sole) {
  if (!unseen_ || !deleter_ || overlay_.valid()) return false;
  if (bytes_ >= kOverlaidFrom) return true;
  if (sole) lingering().add(bytes_, std::exchange(deleter_, nullptr), context_);
  return false;
}

bool OldMemory::give_back_more(const arena::Lease& block, std::size_t begin, bool sole, OldMemory& freed) {
  if (!deleter_) return false;
  if (overlay_.valid()) return overlay_more(block, begin) && overlay_.bytes() < pages().bytes;
  if (can_overlay(block, begin) && reserve_overlay()) {
    if (overlay_more(block, begin)) return overlay_.bytes() < pages().bytes;
    overlays.fetch_sub(1, std::memory_order_relaxed);
  }
  if (sole) freed = std::move(*this);
  return false;
}

}  // namespace forklift::py::torch
