// The audit of the tables: W1 to W4 of watch/tables.h.
#include <string>

#include "watch/watches.h"

namespace forklift::inline abi_0_1::watch {

namespace {
// Rows of a table that its free list names. W1.
template <class Table>
void look_at_free_list(const Table& rows, const char* what, std::vector<std::string>& wrong) {
  std::vector<bool> free(rows.used(), false);
  for (std::uint64_t at = load(rows.header().rows_free); at != 0; at = load(rows[at - 1].next)) {
    if (at > rows.used() || free[at - 1])
      return wrong.push_back(std::string("W1: the free list of ") + what + " does not end");
    free[at - 1] = true;
  }
  for (std::uint64_t i = 0; i < rows.used(); ++i) {
    if (((load(rows[i].meta) & 1) != 0) == free[i])
      wrong.push_back(std::string("W1: row ") + std::to_string(i) + " of " + what +
                      (free[i] ? " is in use and free" : " is neither in use nor free"));
  }
}
}  // namespace

std::vector<std::string> Watches::audit() {
  std::vector<std::string> wrong;
  const Status looked = arena_.ledger().change_objects([&](sync::Transaction&) -> Status {
    look(wrong);
    return {};
  });
  if (!looked) wrong.push_back("W1: " + looked.to_string());
  return wrong;
}

void Watches::look(std::vector<std::string>& wrong) const {
  look_at_free_list(sets_, "wait sets", wrong);
  look_at_free_list(watches_, "watches", wrong);
  const auto add = [&](const char* rule, std::uint64_t watch, const char* is) {
    wrong.push_back(std::string(rule) + ": watch " + std::to_string(watch) + " " + is);
  };
  std::vector<bool> listed(watches_.used(), false);
  for (const Word& bucket : watches_.header().buckets) {
    for (std::uint64_t at = load(bucket); at != 0; at = load(watches_[at - 1].link)) {
      if (at > watches_.used() || listed[at - 1]) {
        wrong.push_back("W2: the list of a bucket does not end");
        break;
      }
      listed[at - 1] = true;
      if (&bucket_of(load(watches_[at - 1].event)) != &bucket) add("W2", at - 1, "is in another bucket");
    }
  }
  for (std::uint64_t i = 0; i < watches_.used(); ++i) {
    const WatchRow& row = watches_[i];
    const bool in_use = (load(row.meta) & 1) != 0;
    if (in_use != listed[i]) add("W2", i, in_use ? "is in no list" : "is free and in a list");
    if (!in_use) continue;
    const std::uint64_t set = load(row.target) >> 32;
    if (set >= sets_.used() || (load(sets_[set].meta) & 1) == 0 || load(sets_[set].owner) == 0)
      add("W3", i, "is of no set");
    if (!event_at(load(row.event)).is_watched()) add("W4", i, "is of an event that is not marked as watched");
  }
}

}  // namespace forklift::inline abi_0_1::watch
