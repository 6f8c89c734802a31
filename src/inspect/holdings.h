// Who holds which blocks of the arena, and since when, as far as repeated looks at the ledger show it.
//
//   Holdings holdings;
//   holdings.look(view, leases, now_ns);        // each look replaces what the one before saw, and keeps since when
//   for (const Holding& each : holdings.blocks()) ... each.held_seconds(now_ns)
//
// No row says when a block was allocated: that would cost each allocation a reading of the clock. A looker remembers
// instead, so ages count from its first look.
//
// Thread safety: one thread's.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "arena/tables.h"
#include "inspect/view.h"

namespace forklift::inline abi_0_1::inspect {

struct Holding {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  std::uint64_t bytes = 0;  // committed
  std::uint64_t leases = 0;
  std::vector<domain::SlotRef> processes;  // of the leases, those that are processes'
  arena::Holder other;                     // what has one of the others
  std::int64_t since_ns = 0;               // only() was seen first

  // The process that alone holds it.
  std::optional<domain::SlotRef> only() const noexcept {
    return leases == 1 && processes.size() == 1 ? std::optional(processes.front()) : std::nullopt;
  }
  double held_seconds(std::int64_t now_ns) const noexcept {
    return only() ? static_cast<double>(now_ns - since_ns) / 1e9 : 0;
  }
};

class Holdings {
 public:
  void look(const View& view, std::span<const arena::LeaseRow> leases, std::int64_t now_ns);

  // Those in use, by their index.
  const std::vector<Holding>& blocks() const noexcept { return blocks_; }
  std::uint64_t leases() const noexcept { return leases_; }

 private:
  std::vector<Holding> blocks_;
  std::uint64_t leases_ = 0;
};

}  // namespace forklift::inline abi_0_1::inspect
