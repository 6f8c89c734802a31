#include "inspect/downsampling.h"

#include <algorithm>

#include "inspect/slice_text.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

// The row of depth 0 of each lane.
std::vector<std::uint16_t> rows_of_lanes(const ThreadTimeline& thread) {
  std::vector<std::uint16_t> deepest(thread.lanes, 0);
  for (const Slice& slice : thread.slices) deepest[slice.lane] = std::max(deepest[slice.lane], slice.depth);
  std::vector<std::uint16_t> rows(thread.lanes, 0);
  for (std::size_t lane = 1; lane < rows.size(); ++lane)
    rows[lane] = static_cast<std::uint16_t>(rows[lane - 1] + deepest[lane - 1] + 1);
  return rows;
}

bool same_name(const Slice& one, const Slice& other) noexcept {
  return one.kind == other.kind && slice_name_key(one) == slice_name_key(other);
}

// Puts slices together that are shorter than half of `most_ns` and all lie within that time.
std::vector<Block> merge(const ThreadTimeline& thread, const std::vector<std::uint16_t>& rows,
                         std::int64_t most_ns) {
  std::vector<Block> blocks;
  std::vector<std::size_t> last;  // by row: the last block, if it may grow; otherwise none
  constexpr auto kNone = static_cast<std::size_t>(-1);
  for (const Slice& slice : thread.slices) {
    const auto row = static_cast<std::uint16_t>(rows[slice.lane] + slice.depth);
    if (row >= last.size()) last.resize(row + std::size_t{1}, kNone);
    const bool small = slice.duration() < most_ns / 2;
    if (small && last[row] != kNone && slice.end - blocks[last[row]].begin <= most_ns) {
      Block& block = blocks[last[row]];
      block.end = std::max(block.end, slice.end);
      block.total_ns += slice.duration();
      ++block.count;
      block.same_name = block.same_name && same_name(*block.longest, slice);
      if (slice.duration() > block.longest->duration()) block.longest = &slice;
      continue;
    }
    last[row] = small ? blocks.size() : kNone;
    blocks.push_back({slice.begin, slice.end, slice.duration(), 1, &slice, row, true});
  }
  return blocks;
}

}  // namespace

std::vector<Block> downsample(const ThreadTimeline& thread, std::size_t most) {
  const std::vector<std::uint16_t> rows = rows_of_lanes(thread);
  std::vector<Block> blocks = merge(thread, rows, 0);
  if (blocks.size() <= most) return blocks;
  const std::int64_t span = thread.slices.back().end - thread.slices.front().begin;
  for (std::int64_t most_ns = span / static_cast<std::int64_t>(most) + 1;; most_ns *= 2) {
    blocks = merge(thread, rows, most_ns);
    // By then each row is one block.
    if (blocks.size() <= most || most_ns / 2 > span) return blocks;
  }
}

std::vector<Sample> downsample(const std::vector<Sample>& samples, std::size_t most) {
  if (samples.size() <= most) return samples;
  const std::int64_t first = samples.front().time;
  const std::int64_t part = (samples.back().time - first) / static_cast<std::int64_t>(most) + 1;
  std::vector<Sample> kept;
  for (const Sample& sample : samples) {
    const bool same = !kept.empty() && (sample.time - first) / part == (kept.back().time - first) / part;
    if (!same) {
      kept.push_back(sample);
    } else {
      kept.back().value = std::max(kept.back().value, sample.value);
    }
  }
  return kept;
}

std::vector<PathSegment> downsample(const std::vector<PathSegment>& path, std::size_t most) {
  if (path.size() <= most) return path;
  const std::int64_t span = path.back().end - path.front().begin;
  const std::int64_t part = span / static_cast<std::int64_t>(most / 2) + 1;
  std::vector<PathSegment> kept;
  std::int64_t longest = 0;
  bool whole = true;  // the last one is a segment as it was
  for (const PathSegment& segment : path) {
    const std::int64_t ns = segment.end - segment.begin;
    const bool small = ns < part;
    if (!kept.empty() && small && !whole && segment.end - kept.back().begin < part) {
      kept.back().end = segment.end;
      if (ns > longest) {
        kept.back().thread = segment.thread;
        kept.back().process = segment.process;
        kept.back().what = segment.what;
        longest = ns;
      }
      continue;
    }
    kept.push_back(segment);
    longest = ns;
    whole = !small;
  }
  return kept;
}

}  // namespace forklift::inline abi_0_1::inspect
