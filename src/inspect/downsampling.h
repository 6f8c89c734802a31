// A timeline reduced to what a screen can show. A part of report_json().
//
// Thread safety: any.
#pragma once

#include <cstdint>
#include <vector>

#include "inspect/breakdown.h"

namespace forklift::inline abi_0_1::inspect {

// A slice, or several small ones beside each other in the same row.
struct Block {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t total_ns = 0;  // of the slices, without what is between them
  std::uint64_t count = 0;
  const Slice* longest = nullptr;
  std::uint16_t row = 0;  // lane and depth as one number from the top
  bool same_name = true;  // all have that of the longest
};
// At most `most` of them where the thread has no more rows than that.
std::vector<Block> downsample(const ThreadTimeline& thread, std::size_t most);
// In each of `most` parts of the time the greatest value.
std::vector<Sample> downsample(const std::vector<Sample>& samples, std::size_t most);
// Parts of the path beside each other become one, with the thread and words of the longest.
std::vector<PathSegment> downsample(const std::vector<PathSegment>& path, std::size_t most);

}  // namespace forklift::inline abi_0_1::inspect
