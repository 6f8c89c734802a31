// A file descriptor with one owner. The destructor closes it; it can be moved, but not copied.
//
// Thread safety: that of an int. Fork: a child inherits the descriptor, and its copy of the Fd owns it there.
#pragma once

#include <utility>

#include "forklift/status.h"

namespace forklift::inline abi_0_1::os {

class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { close(); }

  int get() const noexcept { return fd_; }
  bool valid() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void close() noexcept;

  // Another descriptor for the same open file description, close-on-exec.
  Result<Fd> duplicate() const;

  // A new open file description of the same inode (through /proc/self/fd), read-write and close-on-exec. OFD
  // locks belong to a description, so each holder needs a description of its own.
  Result<Fd> reopen() const;

  Status set_close_on_exec() const;

  // The inode behind the descriptor; 0 when the descriptor is not open (other code of the process closed it).
  std::uint64_t inode() const noexcept;

 private:
  int fd_ = -1;
};

}  // namespace forklift::inline abi_0_1::os
