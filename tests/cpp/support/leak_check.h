// What a test may not leave behind, and the listener that asserts it after every test.
//
//   Snapshot before = Snapshot::take();
//   ... a test ...
//   for (const std::string& leak : leaks_between(before, Snapshot::take())) ADD_FAILURE() << leak;
//
// Checked: children (running or not waited for), descriptors, mappings of shared memory, entries in
// /dev/shm, and whatever probes were added. A layer of the core adds its own:
//
//   namespace { const bool kProbe = add_leak_probe("live blocks", [] { return arena_live_blocks(); }); }
//
// A process's own domain is made once, lazily, and stays: its memfds ("forklift...") may appear once for
// each domain that the process is attached to. set_domain_count() tells how many those are; without it one
// is assumed from the first test in which such memfds appear.
//
// Thread safety: take() reads /proc and may be called by one thread at a time. Not for forked children.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace forklift::test {

using Count = std::function<std::int64_t()>;

// A number that must not be larger after a test than before it. Returns true, for use in an initializer.
bool add_leak_probe(std::string name, Count count);

// How many domains this process is attached to at the moment.
bool set_domain_count(Count count);

// The numbers of descriptors that the process's domains open on demand and keep.
bool set_kept_descriptors(std::function<std::set<int>()> numbers);

// What one domain may keep open for as long as its process lives.
struct DomainAllowance {
  std::size_t descriptors = 8;
  std::size_t mapped_files = 8;
};

struct Snapshot {
  std::map<std::string, std::size_t> descriptors;  // target of the link -> how many
  std::map<std::string, std::uint64_t> mappings;   // shared memory object -> bytes mapped
  std::set<std::string> shm_entries;               // of this user
  std::set<pid_t> children;                        // running or dead, not waited for
  std::map<std::string, std::int64_t> probes;
  std::int64_t domains = 0;

  static Snapshot take();
};

// One sentence for each thing that is there after and was not there before.
std::vector<std::string> leaks_between(const Snapshot& before, const Snapshot& after,
                                       const DomainAllowance& allowance = {});

// For a process that ends by exit() in the middle of something. LeakSanitizer looks for what is in use from
// the stacks that it knows; that of a child that was forked in a thread is not among them.
void expect_no_leak_report_here();

// Adds the listener to GoogleTest. Children that a failed test left are killed and waited for.
void install_leak_check();

}  // namespace forklift::test
