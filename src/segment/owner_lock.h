// The lock file of a domain's named segments. The kernel answers with it whether the segments have a living
// owner, whatever boot, pid namespace or program they are of.
//
//   Result<OwnerLock> lock = OwnerLock::join(folder, token);          // a user: shared, until it is destroyed
//   Result<std::optional<OwnerLock>> dead = OwnerLock::take(...);     // a sweeper: nullopt while there are users
//
// A user locks byte 0 of the file shared, the manager byte 1 exclusively as well. The locks are of the open
// file description: forked children hold them along with their parent, and the kernel frees them with the
// last holder. Whoever gets byte 0 exclusively may remove the files, the lock file last. Who locks a file
// that was removed meanwhile sees that it has no name any more, and begins again.
//
// Thread safety: none; each object its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "os/fd.h"

namespace forklift::inline abi_0_1::segment {

class OwnerLock {
 public:
  OwnerLock() = default;

  // Makes the file if there is none. kSystem: the folder is not there, full or not writable; kStalled: a
  // sweeper holds the lock and does not end.
  static Result<OwnerLock> join(const std::string& folder, std::uint64_t token);
  // For the one who stands by: holds nothing yet. kSystem with ENOENT: there is no file.
  static Result<OwnerLock> watch(const std::string& folder, std::uint64_t token);
  // nullopt: somebody lives who uses the segments. Makes the file if there is none.
  static Result<std::optional<OwnerLock>> take(const std::string& folder, std::uint64_t token);

  bool valid() const noexcept { return file_.valid(); }
  // False when the file was removed, or when other code of this process closed the descriptor.
  bool has_name() const noexcept;
  // Does a manager live?
  bool is_managed() const noexcept;
  // Makes this holder the manager. False: there is one. `wait`: until there is none.
  Result<bool> manage(bool wait = false);
  // Are there other users?
  bool has_others() const noexcept;
  // From a user to the only one. False: there are others.
  Result<bool> own();
  // Removes the file; the caller owns it.
  void remove() noexcept;
  // Forgets a descriptor that other code of this process closed; its number may belong to another file.
  void disown_foreign() noexcept;

 private:
  static Result<OwnerLock> open(const std::string& path, int flags);
  // Does the descriptor still name our file?
  bool is_ours() const noexcept;

  os::Fd file_;
  ino_t inode_ = 0;
  dev_t device_ = 0;
  std::string path_;
};

}  // namespace forklift::inline abi_0_1::segment
