// What a domain's named segments leave outside of the domain: files, and the manager's two processes.
//
// Thread safety: any thread may call any function.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forklift::test {

// Names of the domain's files, sorted; those of all domains for token 0.
std::vector<std::string> shm_files(std::uint64_t token, const std::string& folder = "/dev/shm");
// Of these, the segments alone.
std::vector<std::string> shm_segments(std::uint64_t token, const std::string& folder = "/dev/shm");

// Processes of the domain's manager: who manages (one that has just been started, too), and who stands by.
std::vector<pid_t> managers(std::uint64_t token);
std::vector<pid_t> stand_bys(std::uint64_t token);
// Both processes of the broker of its memory pools.
std::vector<pid_t> brokers(std::uint64_t token);

// The two, when both are there: who serves, and its child who stands by.
struct ManagerPair {
  pid_t serves = 0;
  pid_t stands_by = 0;
};
std::optional<ManagerPair> manager_pair(std::uint64_t token);
// Waits for them; a failure and zeros otherwise. They are not those in `before`.
ManagerPair wait_for_pair(std::uint64_t token, const ManagerPair& before = {});
ManagerPair wait_for_brokers(std::uint64_t token, const ManagerPair& before = {});

// Nothing is left: no file, and no process that serves the domain. Waits for that; a failure otherwise.
void expect_nothing_left(std::uint64_t token, int timeout_ms = 5000, const std::string& folder = "/dev/shm");

}  // namespace forklift::test
