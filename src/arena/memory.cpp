// The arena's memory as a whole: what goes back, what is made ready, what lies in huge pages.
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "arena/arena.h"
#include "arena/audit.h"

namespace forklift::inline abi_0_1::arena {

std::uint64_t Arena::trim(std::uint64_t keep) {
  if (!domain_.attached()) return 0;
  cache_.clear();
  return ledger_.trim_to(keep);
}

Status Arena::set_budget(std::uint64_t bytes, std::uint64_t prefault) {
  if (!domain_.attached()) return domain_.not_attached();
  const std::uint64_t before = domain_.header().budget.load(std::memory_order_relaxed);
  domain_.set_budget(bytes);
  if (prefault > budget()) {
    Status status{Code::kInvalid, std::to_string(prefault) +
                                      " bytes are to be made ready, but the budget is " +
                                      std::to_string(budget())};
    domain_.set_budget(before);
    return status;
  }
  domain_.set_prefault(prefault);
  return prefault_.start(prefault);
}

// First what is free but warm, then what the dead still hold.
bool Arena::relieve(std::uint64_t bytes) {
  cache_.clear();
  return ledger_.trim_by(bytes) || domain_.reap() > 0;
}

std::uint64_t Arena::huge_bytes() {
  if (pages_.huge() == os::HugePages::kNone) return 0;
  std::vector<std::span<const std::byte>> ranges{{data_.data(), data_.size()}};
  ranges.reserve(16);  // before the lock
  {
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    views_.for_each([&](const os::Mapping& view) { ranges.emplace_back(view.data(), view.size()); });
  }
  std::uint64_t bytes = 0;
  for (const std::span<const std::byte> range : ranges)
    bytes += os::huge_bytes_mapped(range.data(), range.size());
  return bytes;
}

std::vector<std::string> Arena::audit() { return arena::audit(ledger_, cache_.depots()); }

}  // namespace forklift::inline abi_0_1::arena
