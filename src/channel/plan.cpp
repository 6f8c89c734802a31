#include "channel/plan.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "sync/past_caches.h"

namespace forklift::inline abi_0_1::channel {

namespace {

// A right can be passed on once only.
bool names_one_twice(std::span<const arena::LeasePtr> leases) {
  if (leases.size() <= 8) {
    for (std::size_t i = 1; i < leases.size(); ++i) {
      if (std::find(leases.begin(), leases.begin() + static_cast<std::ptrdiff_t>(i), leases[i]) !=
          leases.begin() + static_cast<std::ptrdiff_t>(i))
        return true;
    }
    return false;
  }
  std::vector<arena::LeasePtr::element_type*> all;
  all.reserve(leases.size());
  for (const arena::LeasePtr& lease : leases) all.push_back(lease.get());
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) != all.end();
}

}  // namespace

Status check_leases(std::span<const arena::LeasePtr> leases, arena::Arena& arena) {
  for (const arena::LeasePtr& lease : leases) {
    if (!lease || !lease->held()) return {Code::kInvalid, "a lease of the message was passed on already"};
    if (!arena::travels(lease->object().kind)) return {Code::kInvalid, "channels cannot travel in messages"};
    if (&lease->arena() != &arena)
      return {Code::kInvalid, "memory of " + lease->arena().domain().described() +
                                  " cannot go into a message in " + arena.domain().described() +
                                  " as it is: make it there, or send a tensor, which is copied"};
  }
  if (names_one_twice(leases)) return {Code::kInvalid, "a lease is in the message twice"};
  for (const arena::LeasePtr& lease : leases)
    if (Status status = arena.separate(lease); !status) return status;
  return {};
}

Result<arena::LeasePtr> spill(const Outgoing& message, arena::Arena& arena, int node) {
  const std::size_t body = message.leases.size() * sizeof(arena::Handle) + message.bytes.size();
  Result<arena::LeasePtr> block =
      arena.allocate(arena::Kind::kShare, sizeof(SpillHeader) + body, false, node);
  if (!block) return block.status();
  std::byte* out = (*block)->data();
  const SpillHeader header{message.bytes.size(), static_cast<std::uint32_t>(message.leases.size()), 0};
  std::memcpy(out, &header, sizeof header);
  out += sizeof header;
  for (const arena::LeasePtr& lease : message.leases) {
    std::memcpy(out, &lease->handle(), sizeof(arena::Handle));
    out += sizeof(arena::Handle);
  }
  if (!message.bytes.empty()) sync::copy_large(out, message.bytes.data(), message.bytes.size());
  return block;
}

}  // namespace forklift::inline abi_0_1::channel
