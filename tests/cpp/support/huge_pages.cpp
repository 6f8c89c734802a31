#include "support/huge_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace forklift::test {

bool huge_pages_can_be_had() {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, linux/mman.h since 6.1
  const int file = ::memfd_create("probe", MFD_CLOEXEC);
  void* const space = ::mmap(nullptr, 2 * kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool had = false;
  if (file >= 0 && space != MAP_FAILED && ::ftruncate(file, static_cast<off_t>(kHuge)) == 0) {
    const std::uintptr_t aligned = (reinterpret_cast<std::uintptr_t>(space) + kHuge - 1) & ~(kHuge - 1);
    void* const page = ::mmap(reinterpret_cast<void*>(aligned), kHuge, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_FIXED, file, 0);
    if (page != MAP_FAILED) {
      *static_cast<volatile char*>(page) = 1;  // the kernel collapses only where a page exists
      had = ::madvise(page, kHuge, kCollapse) == 0;
    }
  }
  if (space != MAP_FAILED) ::munmap(space, 2 * kHuge);
  if (file >= 0) ::close(file);
  return had;
}

}  // namespace forklift::test
