#include "os/fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace forklift::inline abi_0_1::os {

void Fd::close() noexcept {
  // EINTR after close(2) leaves the descriptor closed on Linux: a retry could close a descriptor that another
  // thread has opened since.
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<Fd> Fd::duplicate() const {
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return Status::system("fcntl", errno, "duplicating descriptor " + std::to_string(fd_));
  return Fd(copy);
}

Result<Fd> Fd::reopen() const {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd_);
  const int fresh = ::open(path, O_RDWR | O_CLOEXEC);
  if (fresh < 0) {
    const int error = errno;
    if (error == ENOENT && ::fcntl(fd_, F_GETFD) >= 0)
      return Status(Code::kUnsupported, std::string("/proc is not mounted (there is no ") + path +
                                            "), and Forklift needs it: mount -t proc proc /proc");
    return Status::system("open", error, path);
  }
  return Fd(fresh);
}

Status Fd::set_close_on_exec() const {
  if (::fcntl(fd_, F_SETFD, FD_CLOEXEC) != 0) {
    return Status::system("fcntl(F_SETFD)", errno, "descriptor " + std::to_string(fd_));
  }
  return {};
}

std::uint64_t Fd::inode() const noexcept {
  struct stat info{};
  if (fd_ < 0 || ::fstat(fd_, &info) != 0) return 0;
  return static_cast<std::uint64_t>(info.st_ino);
}

}  // namespace forklift::inline abi_0_1::os
