// A served name, and which processes have which role for it. Nothing of it lies in the file system, so
// nothing is left behind when a process is killed:
//
//   the socket    an abstract socket, to which joiners connect
//   three roles   each taken by one process (an abstract socket that carries no data), or shared by several
//                 (a shared lock on a byte of the runtime directory itself)
//
// The runtime directory is $XDG_RUNTIME_DIR/forklift, or forklift-<uid> in the directory for temporary files.
// It is made with mode 0700, and used only if it is a directory of this user that no other user may enter.
// Its inode is part of the sockets' addresses, so each directory has names of its own. An abstract address
// has no owner: another user could take it first, so each end checks the other's user (SO_PEERCRED). It also
// belongs to a network namespace: programs of different ones cannot meet.
//
// What the roles mean (the kernel frees a role however its process ends):
//   kServer   taken: by the process that answers at the socket
//   kMember   shared: by the members of the served domain that stand by; taken: by a process that begins a
//             new domain
//   kJoiner   shared: by the processes that are joining; taken: as above
// So a name goes to a new domain only when no process of the old one is left, and a member that finds the
// server gone takes over before any other domain can. A process that takes a role has the socket before it
// checks the shared locks; a process that shares it has the lock before it checks the socket. Of two at the
// same time, at most one succeeds.
//
// Thread safety: one thread at a time per object. Fork: the child has copies of the parent's locks and must
// call abandon().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "os/fd.h"

namespace forklift::inline abi_0_1::rendezvous {

enum class Role : std::uint8_t {
  kServer = 0,
  kMember = 1,
  kJoiner = 2
};

class NameLock {
 public:
  NameLock() = default;
  // The directory is made if it is missing. kInvalid: the name is not allowed. kRefused: the directory is not
  // safe. kSystem.
  static Result<NameLock> find(std::string_view name);

  const std::string& name() const noexcept { return name_; }
  // For messages.
  const std::string& directory() const noexcept { return directory_; }

  // Call before taking or sharing a role. kNotFound: no process has any role (not checked if this process is
  // to `begin`). Call again after forget_lock().
  Status open_lock(bool begin);
  // Leaves every role.
  void forget_lock() noexcept;

  // False: another process has the role in a way that excludes this.
  Result<bool> take(Role role);
  Result<bool> share(Role role);
  Status leave(Role role);
  // Does another process have the role?
  Result<bool> taken(Role role) const;

  // Takes all roles, for a domain that has not had the name. False: another process has one; call
  // forget_lock() to leave the roles that were taken.
  Result<bool> begin();
  // Call after begin(), once the socket is open: keeps kServer, shares kMember and leaves kJoiner.
  Status settle();

  // The process that serves, according to the kernel; 0: unknown. For messages.
  pid_t server() const;
  // The address of the socket.
  std::string address() const { return socket_name("served"); }

  // Precondition: this process has taken kServer.
  Result<os::Fd> open_socket();
  Result<os::Fd> knock() const;
  // Leaves every role.
  void clear() noexcept { forget_lock(); }
  // In a forked child: closes the descriptors and changes no lock.
  void abandon() noexcept;

 private:
  std::string socket_name(std::string_view what) const;
  std::string socket_name(Role role) const;
  std::uint64_t byte_of(Role role) const noexcept;
  os::Fd& taken_by_this(Role role) noexcept { return taken_[static_cast<std::size_t>(role)]; }

  std::string name_;
  std::string directory_;
  std::string prefix_;  // of the addresses; made from the directory and the name
  os::Fd folder_;
  os::Fd lock_;                  // the directory, opened anew; the shared locks belong to this description
  std::array<os::Fd, 3> taken_;  // by role
};

}  // namespace forklift::inline abi_0_1::rendezvous
