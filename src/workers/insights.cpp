#include "workers/insights.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "os/clock.h"

namespace forklift::inline abi_0_1::workers {
namespace {

using Words = std::array<std::uint64_t, kFigureWords>;

// A slow task's version stays odd if its writer was killed, so a reader does not wait for it for ever.
constexpr int kMostReads = 1000;

std::uint64_t now() noexcept { return static_cast<std::uint64_t>(os::now_ns()); }

Figures read_half(const InsightsRow& row, std::uint64_t commits) noexcept {
  Words words{};
  for (std::size_t i = 0; i < kFigureWords; ++i)
    words[i] = row.halves[commits & 1][i].load(std::memory_order_relaxed);
  return std::bit_cast<Figures>(words);
}

// A try fails only if the writer commits meanwhile. One that was killed or stopped leaves `commits` alone, and its valid
// half whole: then the next try succeeds.
Figures read(const InsightsRow& row) noexcept {
  Figures figures;
  for (;;) {
    const std::uint64_t commits = row.commits.load(std::memory_order_acquire);
    figures = read_half(row, commits);
    sync::load_fence();
    if (row.commits.load(std::memory_order_relaxed) == commits) break;
    sync::cpu_relax();
  }
  if (static_cast<std::uint64_t>(figures.phase) >= kPhases) figures.phase = Phase::kNone;
  return figures;
}

// At most so many bytes, without a part of a character at the end.
std::string_view shortened(std::string_view text) noexcept {
  if (text.size() <= kSlowTextBytes) return text;
  std::size_t end = kSlowTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  return text.substr(0, end);
}

}  // namespace

Insights::Insights(InsightsRow& row) noexcept : row_(&row), figures_(read(row)) {
  for (std::size_t i = 0; i < kSlowTasks; ++i) {
    SlowTaskRow& slow = row.slow[i];
    // The one who wrote it died.
    if ((slow.version.load(std::memory_order_relaxed) & 1) != 0) {
      slow.ns.store(0, std::memory_order_relaxed);
      slow.version.fetch_add(1, std::memory_order_release);
    }
    slow_ns_[i] = slow.ns.load(std::memory_order_relaxed);
  }
}

void Insights::commit() noexcept {
  const std::uint64_t next = row_->commits.load(std::memory_order_relaxed) + 1;
  const Words words = std::bit_cast<Words>(figures_);
  for (std::size_t i = 0; i < kFigureWords; ++i)
    row_->halves[next & 1][i].store(words[i], std::memory_order_relaxed);
  row_->commits.store(next, std::memory_order_release);
  sync::store_fence();  // the next commit writes the other half, which readers that come late still copy
}

void Insights::step(Phase next, std::uint64_t now_ns) noexcept {
  last_ns_ = now_ns > figures_.since ? now_ns - figures_.since : 0;
  if (figures_.phase != Phase::kNone) figures_.ns[static_cast<std::size_t>(figures_.phase)] += last_ns_;
  figures_.phase = next;
  figures_.since = now_ns;
}

void Insights::enter(Phase next) noexcept {
  step(next, now());
  commit();
}

void Insights::begin_worker(std::uint64_t now_ns) noexcept {
  step(Phase::kStarting, now_ns);
  ++figures_.workers;
  commit();
}

bool Insights::worked(std::uint64_t items, bool listed) noexcept {
  step(Phase::kAnswering, now());
  ++figures_.tasks;
  figures_.items += items;
  if (listed) {
    ++figures_.listed_tasks;
    figures_.listed_items += items;
    figures_.listed_ns += last_ns_;
  }
  commit();
  return last_ns_ > *std::min_element(slow_ns_.begin(), slow_ns_.end());
}

void Insights::describe(std::string_view text, std::uint64_t pid) noexcept {
  const auto least = std::min_element(slow_ns_.begin(), slow_ns_.end());
  if (last_ns_ <= *least) return;
  SlowTaskRow& slow = row_->slow[least - slow_ns_.begin()];
  const std::string_view kept = shortened(text);
  std::array<std::uint64_t, kSlowTextBytes / sizeof(Word)> words{};
  std::memcpy(words.data(), kept.data(), kept.size());
  const std::uint64_t version = slow.version.load(std::memory_order_relaxed);
  slow.version.store(version + 1, std::memory_order_relaxed);
  sync::store_fence();
  slow.ns.store(last_ns_, std::memory_order_relaxed);
  slow.pid.store(pid, std::memory_order_relaxed);
  slow.bytes.store(kept.size(), std::memory_order_relaxed);
  for (std::size_t i = 0; i < words.size(); ++i) slow.text[i].store(words[i], std::memory_order_relaxed);
  slow.version.store(version + 2, std::memory_order_release);
  *least = last_ns_;
}

void Insights::end_worker(std::string_view text, std::uint64_t pid) noexcept {
  step(Phase::kNone, now());
  commit();
  if (!text.empty()) describe(text, pid);
}

Figures figures_of(const InsightsRow& row) noexcept {
  Figures figures = read(row);
  const std::uint64_t now_ns = now();
  if (figures.phase != Phase::kNone && now_ns > figures.since)
    figures.ns[static_cast<std::size_t>(figures.phase)] += now_ns - figures.since;
  return figures;
}

void append_slow_tasks(const InsightsRow& row, std::vector<SlowTask>& into) {
  for (const SlowTaskRow& slow : row.slow) {
    for (int reads = 0; reads < kMostReads; ++reads) {
      const std::uint64_t version = slow.version.load(std::memory_order_acquire);
      const std::uint64_t bytes =
          std::min<std::uint64_t>(slow.bytes.load(std::memory_order_relaxed), kSlowTextBytes);
      std::array<std::uint64_t, kSlowTextBytes / sizeof(Word)> words{};
      for (std::size_t i = 0; i < words.size(); ++i) words[i] = slow.text[i].load(std::memory_order_relaxed);
      SlowTask task{.ns = slow.ns.load(std::memory_order_relaxed),
                    .pid = slow.pid.load(std::memory_order_relaxed),
                    .text = {}};
      sync::load_fence();
      if ((version & 1) != 0 || slow.version.load(std::memory_order_relaxed) != version) continue;
      if (task.ns == 0) break;
      task.text.assign(reinterpret_cast<const char*>(words.data()), bytes);
      into.push_back(std::move(task));
      break;
    }
  }
}

}  // namespace forklift::inline abi_0_1::workers
