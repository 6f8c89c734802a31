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
#include <optional>
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
  // Fresh memory of large tensors and messages, from 2 MiB on, in transparent huge pages: first written six times as fast.
  // No more memory is taken than was asked for. Unset: where the kernel gives them on advice (/sys/kernel/mm/
  // transparent_hugepage/shmem_enabled: advise, within_size or always). True: also where that is `never`, the setting of
  // most machines, by collapsing pages; not where it is `deny`. False: nowhere. FORKLIFT_HUGE_PAGES=1 or 0 says it for
  // programs that do not.
  std::optional<bool> huge_pages = std::nullopt;
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
  std::uint64_t
      huge_bytes;  // of the arena, in huge pages in this process's page tables (from Linux 6.7 on found in
                   // some 50 us, before in milliseconds; at once where there can be none)
};

// These make the domain if there is none yet; they throw Error when that fails.
Stats stats();
// How much memory tensors and messages may take, for all processes of the domain. 0: as much as the machine
// and its control groups leave (the default).
//
// `prefault`: so much memory is made ready in the background, since fresh memory is written at a tenth of the speed: half of
// it for what processes share (tensors), half for what receivers get as their own (Python's arrays). It stays ready, beside
// what stays anyway, until the next call, which replaces this one. It is counted as cached_bytes until it is used. Throws
// Error (kInvalid) when that is more than the budget.
void set_budget(std::uint64_t bytes, std::uint64_t prefault = 0);
// Gives memory that is free but kept warm back to the system, but for `keep` bytes. How many bytes went back.
std::uint64_t trim(std::uint64_t keep = 0);
// Every violated invariant of the shared tables, in words; exact only while nobody else uses them. For tests.
std::vector<std::string> audit();

}  // namespace forklift::inline abi_0_1
