#include "os/ofd_lock.h"

#include <fcntl.h>

#include <cerrno>

namespace forklift::inline abi_0_1::os {

namespace {
struct flock byte_range(std::uint64_t byte, short type = F_WRLCK) {
  struct flock range{};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(byte);
  range.l_len = 1;
  return range;
}

Result<bool> try_set(const Fd& description, std::uint64_t byte, short type) {
  struct flock range = byte_range(byte, type);
  if (::fcntl(description.get(), F_OFD_SETLK, &range) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  return Status::system("fcntl(F_OFD_SETLK)", errno, "byte " + std::to_string(byte));
}
}  // namespace

Result<bool> try_lock_byte(const Fd& description, std::uint64_t byte) {
  return try_set(description, byte, F_WRLCK);
}

Result<bool> try_share_byte(const Fd& description, std::uint64_t byte) {
  return try_set(description, byte, F_RDLCK);
}

Status lock_byte(const Fd& description, std::uint64_t byte) {
  struct flock range = byte_range(byte);
  if (::fcntl(description.get(), F_OFD_SETLKW, &range) == 0) return {};
  if (errno == EINTR) return {Code::kInterrupted, "waiting for a lock"};
  return Status::system("fcntl(F_OFD_SETLKW)", errno, "byte " + std::to_string(byte));
}

Status unlock_byte(const Fd& description, std::uint64_t byte) {
  return try_set(description, byte, F_UNLCK).status();
}

Result<bool> byte_is_locked(const Fd& description, std::uint64_t byte) {
  struct flock range = byte_range(byte);
  if (::fcntl(description.get(), F_OFD_GETLK, &range) != 0) {
    return Status::system("fcntl(F_OFD_GETLK)", errno, "byte " + std::to_string(byte));
  }
  return range.l_type != F_UNLCK;
}

}  // namespace forklift::inline abi_0_1::os
