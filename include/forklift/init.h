// init: the first line of main. And what there is to set and to ask about the domain, the shared memory that
// this process and its children use together.
//
//   int main(int argc, char** argv) {
//     forklift::init(argc, argv);
//     ...
//     std::cout << forklift::stats().committed_bytes << '\n';
//   }
//
// In a process that Process::spawn() or a forkserver started, init() runs the registered function and exits;
// what main does before it is done in each of them. In a program that another one started with queues
// (Process::program, Python's forklift.Program), it joins that one's domain. Otherwise it does nothing that
// costs: the domain is made when something is first put into it, the forkserver's process when it is first
// needed.
//
// Thread safety: init() before there are other threads; the others any time. Process safety: all processes of
// a domain see the same figures, and a budget set by one holds for all.
//
// Invariants: init() can be called again without effect. A program that never calls it can fork, but not
// spawn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forklift/error.h"

namespace forklift::inline abi_0_1 {

// Throws Error when it comes late (a queue, tensor or lock exists already), or when the domain that this
// process was invited to cannot be joined.
void init(int argc, char** argv);

// What can be chosen before the shared memory is made.
struct DomainOptions {
  // Address space for it, at most: a power of two from 512 KiB, else the next lower one. It is reserved, not used.
  // 0: as much as the limits of this process allow, up to 1 TiB. FORKLIFT_SEGMENT_SIZE limits it, too.
  std::uint64_t reservation_bytes = 0;
  std::uint64_t budget_bytes = 0;  // as set_budget()
  // Transparent huge pages, where the kernel has them for shared memory (/sys/kernel/mm/transparent_hugepage/
  // shmem_enabled: advise, within_size or always); elsewhere this changes nothing. Fresh memory is then made by 2 MiB,
  // which is more than was asked for where small tensors lie far apart. FORKLIFT_HUGE_PAGES=1 asks for them, too.
  bool huge_pages = false;
};

// For the domain that this process will make; it has no effect on one that it joins. Error (kInvalid): it has one, since
// a queue, tensor, lock or child was made before.
void configure(const DomainOptions& options);

// How things stand in this process's domain.
struct Stats {
  std::uint64_t budget_bytes;     // may be committed
  std::uint64_t committed_bytes;  // pages that exist or may exist
  std::uint64_t cached_bytes;     // of these: free, kept warm
  std::uint64_t held_blocks;      // of the arena, by processes and messages
  std::uint64_t leases;           // of all processes and messages
  std::uint64_t channels;         // in use
  std::uint64_t processes;        // alive or not yet reaped
};

// These make the domain if there is none yet; they throw Error when that fails.
Stats stats();
// How much memory tensors and messages may take, for all processes of the domain. 0: as much as the machine
// and its control groups leave (the default).
void set_budget(std::uint64_t bytes);
// Gives memory that is free but kept warm back to the system, but for `keep` bytes. How many bytes went back.
std::uint64_t trim(std::uint64_t keep = 0);
// Every violated invariant of the shared tables, in words; exact only while nobody else uses them. For tests.
std::vector<std::string> audit();

}  // namespace forklift::inline abi_0_1
