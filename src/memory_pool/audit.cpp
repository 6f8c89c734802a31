// The audit of the tables: M1 to M4 of memory_pool/tables.h.
#include <string>

#include "memory_pool/pool_rows.h"

namespace forklift::inline abi_0_1::memory_pool {

std::vector<std::string> PoolRows::audit() {
  std::vector<std::string> wrong;
  const Status looked = arena_.ledger().change_objects([&](sync::Transaction&) -> Status {
    look(wrong);
    return {};
  });
  if (!looked) wrong.push_back("M1: " + looked.to_string());
  return wrong;
}

void PoolRows::look(std::vector<std::string>& wrong) const {
  const auto add = [&](const char* rule, const char* what, std::uint64_t index, const std::string& is) {
    wrong.push_back(std::string(rule) + ": " + what + " " + std::to_string(index) + " " + is);
  };
  std::vector<std::uint64_t> pieces_of(pools_.used(), 0);
  std::vector<bool> listed(pieces_.used(), false);
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < pools_.used(); ++i) {
    const PoolRow& pool = pools_[i];
    if ((load(pool.meta) & 1) == 0) continue;
    bytes += load(pool.bytes);
    if (load(pool.owner) == 0 && load(pool.pieces) == 0)
      add("M1", "memory pool", i, "has neither owner nor pieces");
    if (load(pool.owner) == 0 && load(pool.returned) != 0)
      add("M3", "memory pool", i, "has a list and no owner");
    for (std::uint64_t at = load(pool.returned); at != 0; at = load(pieces_[at - 1].next)) {
      if (at > pieces_.used() || listed[at - 1]) {
        add("M3", "memory pool", i, "has a list that does not end");
        break;
      }
      listed[at - 1] = true;
      if (static_cast<std::uint32_t>(load(pieces_[at - 1].pool)) != i)
        add("M3", "piece", at - 1, "is in another's list");
    }
  }
  for (std::uint64_t i = 0; i < pieces_.used(); ++i) {
    const PieceRow& piece = pieces_[i];
    const bool in_use = (load(piece.meta) & 1) != 0;
    if (in_use != (load(piece.count) != 0 || listed[i])) add("M3", "piece", i, "has a wrong state");
    if (in_use && listed[i] != (load(piece.listed) != 0)) add("M3", "piece", i, "is wrong about its list");
    if (!in_use) continue;
    const std::uint64_t of = load(piece.pool);
    if (!exists({static_cast<std::uint32_t>(of), static_cast<std::uint32_t>(of >> 32)})) {
      add("M2", "piece", i, "is of no pool");
      continue;
    }
    const std::uint64_t whole = load(pools_[of & 0xffffffff].bytes);
    ++pieces_of[of & 0xffffffff];
    if (load(piece.bytes) > whole || load(piece.offset) > whole - load(piece.bytes))
      add("M4", "piece", i, "does not lie within its pool");
  }
  for (std::uint64_t i = 0; i < pools_.used(); ++i) {
    if ((load(pools_[i].meta) & 1) != 0 && load(pools_[i].pieces) != pieces_of[i])
      add("M2", "memory pool", i,
          "counts " + std::to_string(load(pools_[i].pieces)) + " pieces of " + std::to_string(pieces_of[i]));
  }
  if (bytes != this->bytes())
    wrong.push_back("M2: the table counts " + std::to_string(this->bytes()) +
                    " bytes of memory pools, the rows say " + std::to_string(bytes));
}

}  // namespace forklift::inline abi_0_1::memory_pool
