#include "inspect/holdings.h"

#include <algorithm>
#include <utility>

namespace forklift::inline abi_0_1::inspect {

namespace {

struct BlockLease {
  std::uint32_t block;
  arena::Holder holder;
};

// Of blocks that are in use, by block.
std::vector<BlockLease> leases_of(std::span<const arena::LeaseRow> rows,
                                  std::span<const arena::BlockRow> blocks) {
  std::vector<BlockLease> found;
  for (const arena::LeaseRow& row : rows) {
    const std::uint64_t word = load(row.object);
    const arena::Object object = arena::Object::unpack(word);
    if (word == 0 || object.kind != arena::ObjectKind::kBlock || object.index >= blocks.size()) continue;
    const auto meta = arena::BlockMeta::unpack(load(blocks[object.index].meta));
    if (meta.state == arena::BlockState::kHeld) found.push_back({object.index, {load(row.holder)}});
  }
  std::sort(found.begin(), found.end(),
            [](const BlockLease& a, const BlockLease& b) { return a.block < b.block; });
  return found;
}

}  // namespace

void Holdings::look(const View& view, std::span<const arena::LeaseRow> leases, std::int64_t now_ns) {
  const std::span<const std::byte> region = view.region(domain::Region::kBlocks);
  const std::span<const arena::BlockRow> rows{reinterpret_cast<const arena::BlockRow*>(region.data()),
                                              region.size() / sizeof(arena::BlockRow)};
  const std::vector<BlockLease> found = leases_of(leases, rows);
  leases_ = found.size();
  std::vector<Holding> now;
  for (const BlockLease& lease : found) {
    if (now.empty() || now.back().index != lease.block) {
      const arena::BlockRow& row = rows[lease.block];
      Holding holding;
      holding.index = lease.block;
      holding.generation = arena::BlockMeta::unpack(load(row.meta)).generation;
      holding.bytes = load(row.committed);
      holding.since_ns = now_ns;
      now.push_back(std::move(holding));
    }
    ++now.back().leases;
    if (lease.holder.is_process())
      now.back().processes.push_back(lease.holder.slot());
    else
      now.back().other = lease.holder;
  }
  auto before = blocks_.cbegin();
  for (Holding& each : now) {
    while (before != blocks_.cend() && before->index < each.index) ++before;
    if (before == blocks_.cend()) break;
    if (before->index == each.index && before->generation == each.generation && before->only() == each.only())
      each.since_ns = before->since_ns;
  }
  blocks_ = std::move(now);
}

}  // namespace forklift::inline abi_0_1::inspect
