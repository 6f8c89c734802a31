// Programs outside of the domain that use its named segments: they register at the manager's socket, and the
// manager has a lease in their stead for as long as the connection is open.
//
// The protocol is that of torch's own manager (torch/lib/libshm/alloc_info.h), so that torch's
// `_new_shared_filename_cpu`, called with the name of this socket, registers here. A client writes a Request
// for each segment that it opens and waits for "OK" ("NO": there is no such segment), and one with `free` for
// each that it closes, which has no answer.
//
// torch registers what it makes itself with the first manager that it meets, so one that has opened a segment
// of ours comes here with files of its own. They are treated as torch's manager does: their names go when no
// client is connected any more. Those of a killed manager stay, as with torch.
//
// Thread safety: none; the manager has one thread.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "os/fd.h"
#include "segment/segments.h"

namespace forklift::inline abi_0_1::shm_manager {

struct Request {
  pid_t pid = 0;  // for torch; the kernel says here who it is
  char free = 0;
  std::array<char, 60> name{};  // as for shm_open(3), with a zero behind it
};
static_assert(sizeof(Request) == 68);

class Clients {
 public:
  explicit Clients(segment::Segments& segments) : segments_(segments) {}
  ~Clients();
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  // Makes the socket, anew when its file was removed. kSystem.
  Status listen();
  // Is anybody connected?
  bool empty() const noexcept { return clients_.empty(); }
  // What to poll for, and what to do with the answers: the same elements, from `at` on.
  void watch(std::vector<pollfd>& items) const;
  void serve(const std::vector<pollfd>& items, std::size_t at);

 private:
  struct Client {
    os::Fd socket;
    std::array<std::byte, sizeof(Request)> bytes;  // of a request that is not complete yet
    std::size_t have = 0;
    std::vector<std::pair<std::string, segment::LeasePtr>> held;
  };
  void accept_all();
  // False: the client is gone, or says what no client says.
  bool read_from(Client& client);
  bool answer(Client& client, const Request& request);
  void remove_torchs_files();

  segment::Segments& segments_;
  os::Fd listener_;
  bool full_ = false;  // no descriptor was left for a client; the next tick tries again
  std::vector<Client> clients_;
  std::set<std::string> torchs_files_;
};

}  // namespace forklift::inline abi_0_1::shm_manager
