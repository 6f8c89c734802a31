// The chain of causes that ends with the last event of a recording. Parts of breakdown_of().
//
// It is walked backwards: a thread works from the end of its last wait on, and the wait was ended by a put, a get, a release or
// a process's end in another thread, where the walk goes on. A wait whose end was caused by nothing recorded is itself a part.
#pragma once

#include "inspect/breakdown.h"

namespace forklift::inline abi_0_1::inspect {

std::vector<PathSegment> critical_path(const Timeline& timeline);
std::vector<PathShare> shares_of(const std::vector<PathSegment>& path);

// Which queue, pool or lock a text of RecordedPlace ends with: `a message in queue "frames"`.
class PlaceTargets {
 public:
  explicit PlaceTargets(const Recording& recording);
  std::optional<std::uint32_t> queue_of(const Recording& recording, const Slice& wait) const;
  std::optional<std::uint32_t> lock_of(const Recording& recording, const Slice& wait) const;

 private:
  using Names = std::map<std::string, std::uint32_t, std::less<>>;
  static std::optional<std::uint32_t> find(const Names& names, std::string_view text);
  Names queues_;  // and pools, by their channels of tasks
  Names locks_;
};

}  // namespace forklift::inline abi_0_1::inspect
