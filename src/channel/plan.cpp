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

Result<arena::LeasePtr> spill(const Outgoing& message, arena::Arena& arena, const Channel* channel) {
  const std::size_t body = message.leases.size() * sizeof(arena::Handle) + message.bytes.size();
  Result<arena::LeasePtr> block =
      arena.allocate(arena::Kind::kShare, sizeof(SpillHeader) + body, false,
                     channel != nullptr ? channel->reader_node(body) : arena::kAnyNode);
  if (!block) return block.status();
  std::byte* out = (*block)->data();
  const SpillHeader header{message.bytes.size(), static_cast<std::uint32_t>(message.leases.size()), 0};
  std::memcpy(out, &header, sizeof header);
  out += sizeof header;
  for (const arena::LeasePtr& lease : message.leases) {
    std::memcpy(out, &lease->handle(), sizeof(arena::Handle));
    out += sizeof(arena::Handle);
  }
  const std::span<const std::byte> bytes = message.bytes;
  if (bytes.empty()) return block;
  if (channel != nullptr) {
    channel->copy_in(out, bytes.data(), bytes.size());
  } else {
    sync::copy_large(out, bytes.data(), bytes.size());
  }
  return block;
}

void Channel::copy_in(void* dst, const void* src, std::size_t bytes) const noexcept {
  if (sync::taken_lines_cost(bytes) && sync::taken_lines_cost((std::size_t{size()} + 1) * bytes)) {
    sync::copy_past_caches(dst, src, bytes);
  } else {
    sync::copy_large(dst, src, bytes);
  }
}

}  // namespace forklift::inline abi_0_1::channel
