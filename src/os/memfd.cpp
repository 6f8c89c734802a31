#include "os/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace forklift::inline abi_0_1::os {

namespace {
#ifdef MFD_NOEXEC_SEAL
constexpr unsigned kNoExecSeal = MFD_NOEXEC_SEAL;
#else
constexpr unsigned kNoExecSeal = 0x0008U;  // linux/memfd.h since 6.3; older kernels answer EINVAL
#endif
}  // namespace

Result<Fd> create_memfd(const char* name, std::uint64_t bytes) {
  int raw = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal);
  if (raw < 0 && errno == EINVAL) raw = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (raw < 0) return Status::system("memfd_create", errno, name);
  Fd fd(raw);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return Status::system("ftruncate", errno, std::string(name) + " to " + std::to_string(bytes) + " bytes");
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Status::system("fcntl(F_ADD_SEALS)", errno, name);
  }
  return fd;
}

Status punch_hole(const Fd& file, std::uint64_t offset, std::uint64_t bytes) {
  if (::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes)) != 0) {
    return Status::system("fallocate(PUNCH_HOLE)", errno, std::to_string(bytes) + " bytes");
  }
  return {};
}

Status allocate_range(const Fd& file, std::uint64_t offset, std::uint64_t bytes) {
  int rc;
  do {
    rc = ::fallocate(file.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) return Status::system("fallocate", errno, std::to_string(bytes) + " bytes");
  return {};
}

}  // namespace forklift::inline abi_0_1::os
