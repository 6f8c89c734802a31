// Segments whose name has left the domain: the ledger keeps them until somebody has found them, or for a moment
// after their last holder's end. And the audit of the table.
#include <algorithm>
#include <string>

#include "os/clock.h"
#include "segment/segments.h"

namespace forklift::inline abi_0_1::segment {

using arena::Lease;
using arena::Object;

Status Segments::hand_over(const Lease& lease) {
  if (Status status = prepare(); !status) return status;
  const Object object = lease.object();
  SegmentRow& row = rows_[object.index];
  for (;;) {
    const auto now = static_cast<std::uint64_t>(os::now_ns());
    Status held = arena_.ledger().hold_for(object, arena::Holder::handed_over(),
                                           [&](sync::Transaction& change, std::uint32_t taken) -> Status {
                                             if (row.handed.load(std::memory_order_relaxed) != 0)
                                               return {Code::kExists, "handed over before"};
                                             change.set(row.handed, now);
                                             change.set(row.handed_lease, taken);
                                             return {};
                                           });
    if (held.code() != Code::kExists) return held;
    bool renewed = false;
    Status changed = arena_.ledger().change_objects([&](sync::Transaction& change) -> Status {
      renewed = row.handed.load(std::memory_order_relaxed) != 0;
      if (renewed) change.set(row.handed, now);
      return {};
    });
    if (!changed || renewed) return changed;
  }
}

bool Segments::has_handed_over() const noexcept {
  for (std::uint32_t index = 0; index < rows_.used(); ++index) {
    if (rows_[index].count.load(std::memory_order_relaxed) != 0 &&
        rows_[index].handed.load(std::memory_order_relaxed) != 0)
      return true;
  }
  return false;
}

void Segments::drop_abandoned(std::int64_t moment_ns) {
  std::vector<std::pair<std::uint64_t, std::int64_t>> still;
  const std::int64_t now = os::now_ns();
  for (std::uint32_t index = 0; index < rows_.used(); ++index) {
    SegmentRow& row = rows_[index];
    const std::uint64_t handed = row.handed.load(std::memory_order_relaxed);
    if (row.count.load(std::memory_order_acquire) != 1 || handed == 0) continue;
    const std::uint64_t number =
        number_of(index, static_cast<std::uint32_t>(row.meta.load(std::memory_order_relaxed) >> 32));
    const auto known =
        std::find_if(alone_.begin(), alone_.end(), [&](const auto& entry) { return entry.first == number; });
    const std::int64_t since =
        std::max(known == alone_.end() ? now : known->second, static_cast<std::int64_t>(handed));
    if (now - since < moment_ns) {
      still.emplace_back(number, since);
      continue;
    }
    // In one transaction, so that the next one to hand it over makes a lease of his own. Dropping the lease
    // removes the segment.
    (void)arena_.take_over(
        arena::Holder::handed_over(), [&](sync::Transaction& change) -> Result<std::uint32_t> {
          if (row.count.load(std::memory_order_relaxed) != 1 ||
              row.handed.load(std::memory_order_relaxed) != handed)
            return Status(Code::kExists, "somebody has it again");
          change.set(row.handed, 0);
          return static_cast<std::uint32_t>(row.handed_lease.load(std::memory_order_relaxed));
        });
  }
  alone_ = std::move(still);
}

std::vector<std::string> Segments::audit() {
  std::vector<std::string> wrong;
  std::uint64_t bytes = 0;
  Status looked = arena_.ledger().change_objects([&](sync::Transaction&) -> Status {
    for (std::uint32_t index = 0; index < rows_.used(); ++index) {
      const SegmentRow& row = rows_[index];
      const bool in_use = (row.meta.load(std::memory_order_relaxed) & 1) != 0;
      if (in_use != (row.count.load(std::memory_order_relaxed) != 0))
        wrong.push_back("G1: named segment " + std::to_string(index) + " has a wrong state");
      if (in_use) bytes += file_bytes(row);
    }
    if (bytes != table_.bytes.load(std::memory_order_relaxed))
      wrong.push_back("G2: the table counts " + std::to_string(table_.bytes.load()) +
                      " bytes of named segments, the rows say " + std::to_string(bytes));
    return {};
  });
  if (!looked) wrong.push_back("G1: " + looked.to_string());
  return wrong;
}

}  // namespace forklift::inline abi_0_1::segment
