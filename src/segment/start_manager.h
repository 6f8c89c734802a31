// Starting the program forklift-shm-manager in one of its roles: the manager of a domain's named segments
// (shm_manager/segment_manager.h), or the broker of its memory pools' descriptors (shm_manager/pool_broker.h).
//
// Thread safety: start_manager and start_broker run in one thread of a process at a time, and no fork may happen meanwhile: the
// child would hold the pipe on which the manager answers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "domain/domain.h"
#include "os/clock.h"

namespace forklift::inline abi_0_1::segment {

enum class Role : std::uint8_t {
  kManage,
  kStandBy,  // becomes the manager when that is gone
  kBroker
};
// As the command line says it.
std::string_view name_of(Role role) noexcept;

// What the program is told on its command line: the role, and then in this order.
struct ManagerArguments {
  std::string folder;  // "-" for the broker
  std::uint64_t token = 0;
  int control = -1;  // descriptors of the domain that it inherits
  int data = -1;
  int ready = -1;  // where it answers "R" or what is wrong; -1: nowhere
  Role role = Role::kManage;
};

// FORKLIFT_SHM_MANAGER; else beside the library or the program, in libexec beside them, or where CMake has
// installed it. kNotFound.
Result<std::string> find_manager();

// Starts it in a session of its own, as nobody's child, and waits until it works or another process's
// manager does. kNotFound, kSystem; kPeerDied with the manager's words; kTimeout.
Status start_manager(const domain::Domain& domain, const std::string& folder, os::Deadline deadline);
// The same for the broker.
Status start_broker(const domain::Domain& domain, os::Deadline deadline);

// For the manager: starts this very program again, as its child, as the one who stands by.
Result<pid_t> start_stand_by(const ManagerArguments& arguments);

}  // namespace forklift::inline abi_0_1::segment
