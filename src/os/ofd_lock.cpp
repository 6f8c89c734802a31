#include "os/ofd_lock.h"

#include <fcntl.h>

#include <cerrno>

namespace forklift::os {

namespace {
struct flock byte_range(std::uint64_t byte) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(byte);
  range.l_len = 1;
  return range;
}
}  // namespace

Result<bool> try_lock_byte(const Fd& description, std::uint64_t byte) {
  struct flock range = byte_range(byte);
  if (::fcntl(description.get(), F_OFD_SETLK, &range) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  return Status::system("fcntl(F_OFD_SETLK)", errno, "slot byte " + std::to_string(byte));
}

Result<bool> byte_is_locked(const Fd& description, std::uint64_t byte) {
  struct flock range = byte_range(byte);
  if (::fcntl(description.get(), F_OFD_GETLK, &range) != 0) {
    return Status::system("fcntl(F_OFD_GETLK)", errno, "slot byte " + std::to_string(byte));
  }
  return range.l_type != F_UNLCK;
}

}  // namespace forklift::os
