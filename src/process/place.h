// Where a served name lives in the file system, and who may stand there.
//
//   <runtime directory>/<name>.sock    the door: where joiners connect
//   <runtime directory>/<name>.lock    three bytes to be locked, and the pid of who serves
//
// The runtime directory is $XDG_RUNTIME_DIR/forklift, or forklift-<uid> in the directory for temporary files:
// made with mode 0700, and used only if it is a directory of this user's that nobody else may enter.
//
// Which byte means what (OFD locks: the kernel frees them however their process ends):
//   kServer   exclusive: whoever answers at the door
//   kMember   shared: members of the served domain that stand by; exclusive: somebody who is beginning a new
//   kJoiner   shared: those who are joining; exclusive: as above
// So a name goes to a new domain only when nobody is left who has the old one, and a member that finds the
// server gone takes over without anybody coming between.
//
// Files that a killed process left are replaced; the last one to leave in good order removes them.
//
// Thread safety: one thread at a time per object. Fork: the locks are the parent's, too: a child must call
// abandon().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "os/fd.h"

namespace forklift::process {

enum class Stand : std::uint8_t {
  kServer = 0,
  kMember = 1,
  kJoiner = 2
};

class Place {
 public:
  Place() = default;
  // The directory is made if it is missing. kInvalid: no such name can be. kRefused: the directory is not
  // safe. kSystem.
  static Result<Place> find(std::string_view name);

  const std::string& name() const noexcept { return name_; }
  // For people.
  const std::string& directory() const noexcept { return directory_; }

  // The lock file, made if `make`. kNotFound: there is none. Call again after forget_lock().
  Status open_lock(bool make);
  void forget_lock() noexcept { lock_.close(); }
  // Is the open lock file still the one that has the name? Ask once a lock is held.
  bool is_current() const;

  // False: somebody else stands there in a way that excludes this one.
  Result<bool> take(Stand stand);
  Result<bool> share(Stand stand);
  Status leave(Stand stand);
  // Does anybody else stand there?
  Result<bool> taken(Stand stand) const;

  // Takes everything, for a domain that has not had the name. False: somebody is there; leave what was taken
  // by forget_lock().
  Result<bool> begin();
  // From there to a server among its members, once the door is open.
  Status settle();

  // Who serves, as noted by that process; 0: unknown. For people.
  pid_t server() const;

  // Replaces whatever is at the door. Only with kServer taken.
  Result<os::Fd> open_door();
  Result<os::Fd> knock() const;
  // Removes the files, if nobody else stands anywhere. Nothing is held afterwards.
  void clear() noexcept;
  // In a forked child: closes, changes nothing.
  void abandon() noexcept;

 private:
  std::string path(const char* suffix) const;

  std::string name_;
  std::string directory_;
  os::Fd folder_;
  os::Fd lock_;
};

}  // namespace forklift::process
