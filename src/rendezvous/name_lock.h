// A served name, and which processes have which role in it. Nothing of it lies in the file system, so nothing
// stays behind when a process is killed:
//
//   the socket    an abstract socket, to which joiners connect
//   three roles   each taken by one process (an abstract socket that nobody talks to), or shared by several (a
//                 shared lock on a byte of the runtime directory itself)
//
// The runtime directory is $XDG_RUNTIME_DIR/forklift, or forklift-<uid> in the directory for temporary files:
// made with mode 0700, and used only if it is a directory of this user's that nobody else may enter. Its
// inode is part of the sockets' addresses, so that each directory has names of its own. An abstract address
// has no owner: another user could take it first, so both ends look at the other's user (SO_PEERCRED); and it
// is one of a network namespace: programs of several cannot meet.
//
// What the roles mean (the kernel frees them however their process ends):
//   kServer   taken: whoever answers at the socket
//   kMember   shared: members of the served domain that stand by; taken: a process that begins a new domain
//   kJoiner   shared: those who are joining; taken: as above
// So a name goes to a new domain only when nobody is left who has the old one, and a member that finds the
// server gone takes over without anybody coming between. Who takes has the socket before it looks at the
// shared locks, who shares has the lock before it looks for the socket: of two at once, at most one succeeds.
//
// Thread safety: one thread at a time per object. Fork: the locks are the parent's, too: a child must call
// abandon().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "os/fd.h"

namespace forklift::rendezvous {

enum class Role : std::uint8_t {
  kServer = 0,
  kMember = 1,
  kJoiner = 2
};

class NameLock {
 public:
  NameLock() = default;
  // The directory is made if it is missing. kInvalid: no such name can be. kRefused: the directory is not
  // safe. kSystem.
  static Result<NameLock> find(std::string_view name);

  const std::string& name() const noexcept { return name_; }
  // For people.
  const std::string& directory() const noexcept { return directory_; }

  // Before standing anywhere. kNotFound: nobody does, unless this is to `begin`. Call again after
  // forget_lock().
  Status open_lock(bool begin);
  // Leaves every role.
  void forget_lock() noexcept;

  // False: somebody else roles there in a way that excludes this one.
  Result<bool> take(Role role);
  Result<bool> share(Role role);
  Status leave(Role role);
  // Does another process have the role?
  Result<bool> taken(Role role) const;

  // Takes everything, for a domain that has not had the name. False: somebody is there; leave what was taken
  // by forget_lock().
  Result<bool> begin();
  // From there to a server among its members, once the socket is open.
  Status settle();

  // Who serves, as the kernel says; 0: unknown. For people.
  pid_t server() const;
  // The socket's.
  std::string address() const { return socket_name("served"); }

  // Only with kServer taken.
  Result<os::Fd> open_socket();
  Result<os::Fd> knock() const;
  // Nothing is held afterwards.
  void clear() noexcept { forget_lock(); }
  // In a forked child: closes, changes nothing.
  void abandon() noexcept;

 private:
  std::string socket_name(std::string_view what) const;
  std::string socket_name(Role role) const;
  std::uint64_t byte_of(Role role) const noexcept;
  os::Fd& taken_by_this(Role role) noexcept { return taken_[static_cast<std::size_t>(role)]; }

  std::string name_;
  std::string directory_;
  std::string prefix_;  // of the addresses: the user's, the directory's and the name's
  os::Fd folder_;
  os::Fd lock_;                  // the directory, opened anew: shared locks are its
  std::array<os::Fd, 3> taken_;  // by role
};

}  // namespace forklift::rendezvous
