#include "arena/views.h"

namespace forklift::inline abi_0_1::arena {

Result<View*> Views::current() {
  if (current_) return current_;
  if (views_.size() < kMostViews) {
    Result<os::Mapping> mapping = os::Mapping::shared(file_, begin_, bytes_);
    if (mapping) {
      views_.emplace_back();
      views_.back().mapping = *std::move(mapping);
      current_ = &views_.back();
      return current_;
    }
    if (views_.empty()) return mapping.status();
  }
  // A private view is correct too, but slower: its pages are dropped with each payload, so each one starts
  // cold.
  View& last = views_.back();
  if (Status status = widen(last); !status) return status;
  return &last;
}

// Makes the rest of a private view private too. Only what holds no live payload is mapped again: mapping the
// written pages anew would lose them.
Status Views::widen(View& view) {
  const std::uint64_t end = begin_ + bytes_;
  if (view.private_low > begin_) {
    Status status = view.mapping.make_private(file_, begin_, 0, view.private_low - begin_);
    if (!status) return status;
    view.private_low = begin_;
  }
  if (view.private_high < end) {
    Status status = view.mapping.make_private(file_, view.private_high, view.private_high - begin_,
                                              end - view.private_high);
    if (!status) return status;
    view.private_high = end;
  }
  return {};
}

void Views::leave(View& view) {
  if (--view.live > 0 || &view == current_) return;
  views_.remove_if([&](const View& candidate) { return &candidate == &view; });
}

Status Views::isolate(std::uint64_t low, std::uint64_t high) {
  Status status = current_->mapping.make_private(file_, low, low - begin_, high - low);
  if (!status) return status;
  current_->is_private = true;
  current_->private_low = low;
  current_->private_high = high;
  current_ = nullptr;
  return {};
}

void Views::forget_residency() {
  for (View& view : views_) view.resident.forget();
}

}  // namespace forklift::inline abi_0_1::arena
