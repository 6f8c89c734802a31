#include "shm_manager/members.h"

#include "os/proc.h"

namespace forklift::inline abi_0_1::shm_manager {

void Members::watch(const domain::Domain& domain) {
  const std::uint64_t used = domain.header().slots_used.load(std::memory_order_acquire);
  for (std::uint32_t index = 0; index < used && index < domain::kSlotCount; ++index) {
    const domain::SlotRef slot = domain.occupant(index);
    const auto known = watches_.find(index);
    if (known != watches_.end() && known->second.generation == slot.generation) continue;
    if (slot == domain.self() || domain.is_dead(slot)) {
      if (known != watches_.end()) watches_.erase(known);
      continue;
    }
    const std::uint64_t pid = domain.pid_of(slot);
    if (pid == 0) continue;  // its process does not run yet
    Result<os::Fd> pidfd = os::open_pidfd(static_cast<pid_t>(pid));
    if (pidfd) watches_[index] = Watch{slot.generation, *std::move(pidfd)};
  }
}

void Members::add_to(std::vector<pollfd>& items) const {
  for (const auto& [index, watch] : watches_) items.push_back({watch.pidfd.get(), POLLIN, 0});
}

void Members::look_at(const std::vector<pollfd>& items, std::size_t at) {
  // It stays readable, also while the kernel still counts the process as alive (a parent that does not wait for
  // it), so it is asked once.
  for (auto& [index, watch] : watches_)
    if (items[at++].revents != 0) watch.pidfd.close();
}

}  // namespace forklift::inline abi_0_1::shm_manager
