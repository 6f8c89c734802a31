// The members of a domain, watched through pidfds by a process that serves them: it notices a death at once, and
// not at the end of a slice.
//
//   members.watch(domain);
//   const std::size_t at = items.size();
//   members.add_to(items);
//   ::poll(items.data(), items.size(), slice);
//   members.look_at(items, at);
//
// Thread safety: none.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <vector>

#include "domain/domain.h"
#include "os/fd.h"

namespace forklift::inline abi_0_1::shm_manager {

class Members {
 public:
  // Those that came and went since. One that has no pid yet, or for which no descriptor is left, is not watched.
  void watch(const domain::Domain& domain);
  // What to poll for, and what to do with the answers: the same elements, from `at` on.
  void add_to(std::vector<pollfd>& items) const;
  void look_at(const std::vector<pollfd>& items, std::size_t at);
  void clear() { watches_.clear(); }

 private:
  struct Watch {
    std::uint32_t generation = 0;
    os::Fd pidfd;  // none once it has told the process's end
  };
  std::map<std::uint32_t, Watch> watches_;  // by slot
};

}  // namespace forklift::inline abi_0_1::shm_manager
