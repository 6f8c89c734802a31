#include "os/mapping.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "os/huge_pages.h"

namespace forklift::inline abi_0_1::os {

namespace {
#ifdef MADV_POPULATE_READ
constexpr int kPopulateRead = MADV_POPULATE_READ;
constexpr int kPopulateWrite = MADV_POPULATE_WRITE;
#else
constexpr int kPopulateRead = 22;  // linux/mman.h since 5.14
constexpr int kPopulateWrite = 23;
#endif

struct PageRange {
  std::uintptr_t begin;
  std::size_t bytes;
};

PageRange pages_covering(const void* address, std::size_t bytes) noexcept {
  const std::uintptr_t mask = page_size() - 1;
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t begin = first & ~mask;
  const std::uintptr_t end = (first + bytes + mask) & ~mask;
  return {begin, end - begin};
}
}  // namespace

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    base_ = std::exchange(other.base_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Mapping::reset() noexcept {
  if (base_) ::munmap(std::exchange(base_, nullptr), std::exchange(bytes_, 0));
}

namespace {
// Maps without access. Where address and offset agree modulo the size of a huge page, a huge page of the file is mapped
// as one. Kernels see to that themselves only where their settings allow such pages, so a mapping that is amiss is made
// again in a larger range. Without the address space for that it stays amiss, and its pages are mapped one by one.
void* map_aligned(const Fd& file, std::uint64_t offset, std::size_t bytes) noexcept {
  constexpr std::uintptr_t kMask = kHugePage - 1;
  const auto map = [&](void* at, int fixed) {
    return ::mmap(at, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE | fixed, file.get(),
                  static_cast<off_t>(offset));
  };
  void* const base = map(nullptr, 0);
  if (base == MAP_FAILED || bytes < kHugePage ||
      ((reinterpret_cast<std::uintptr_t>(base) - offset) & kMask) == 0)
    return base;
  ::munmap(base, bytes);
  void* const range =
      ::mmap(nullptr, bytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return map(nullptr, 0);
  auto* const begin = static_cast<std::byte*>(range);
  const std::size_t before = (offset - reinterpret_cast<std::uintptr_t>(range)) & kMask;
  void* const again = map(begin + before, MAP_FIXED);
  if (again == MAP_FAILED) {
    ::munmap(range, bytes + kHugePage);
    return map(nullptr, 0);
  }
  const std::size_t end = before + ((bytes + page_size() - 1) & ~(page_size() - 1));
  if (before != 0) ::munmap(begin, before);
  if (bytes + kHugePage > end) ::munmap(begin + end, bytes + kHugePage - end);
  return again;
}
}  // namespace

Result<Mapping> Mapping::shared(const Fd& file, std::uint64_t offset, std::size_t bytes) {
  // After mlockall(MCL_FUTURE) the kernel would populate the whole mapping here, a terabyte of memory. So the
  // file is first mapped without access, then unlocked, then made accessible.
  void* const base = map_aligned(file, offset, bytes);
  if (base == MAP_FAILED) return Status::system("mmap", errno, std::to_string(bytes) + " bytes, shared");
  Mapping mapping(static_cast<std::byte*>(base), bytes);
  ::munlock(base, bytes);
  if (::mprotect(base, bytes, PROT_READ | PROT_WRITE) != 0)
    return Status::system("mprotect", errno, std::to_string(bytes) + " bytes, shared");
  ::madvise(base, bytes, MADV_DONTDUMP);
  return mapping;
}

Result<Mapping> Mapping::read_only(const Fd& file, std::size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (base == MAP_FAILED) return Status::system("mmap", errno, std::to_string(bytes) + " bytes, to be read");
  Mapping mapping(static_cast<std::byte*>(base), bytes);
  ::munlock(base, bytes);  // as above
  if (::mprotect(base, bytes, PROT_READ) != 0)
    return Status::system("mprotect", errno, std::to_string(bytes) + " bytes, to be read");
  ::madvise(base, bytes, MADV_DONTDUMP);
  return mapping;
}

Status Mapping::make_private(const Fd& file, std::uint64_t file_offset, std::size_t at, std::size_t bytes) {
  const auto map = [&] {
#if defined(__SANITIZE_THREAD__)
    // The thread sanitizer treats mmap as a write to the whole range. Here the new mapping shows the same
    // pages of the same file, so other threads may access them meanwhile; the system call bypasses the
    // sanitizer's interceptor.
    return reinterpret_cast<void*>(::syscall(SYS_mmap, base_ + at, bytes, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file.get(),
                                             static_cast<off_t>(file_offset)));
#endif
    return ::mmap(base_ + at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                  file.get(), static_cast<off_t>(file_offset));
  };
  void* base = map();
  if (base == MAP_FAILED && errno == ENOMEM) {
    // Replacing a mapping takes no address space, but the kernel refuses it to a process that exceeds an
    // address space limit that was lowered later. Where only the soft limit was lowered, it is raised for
    // this one call.
    rlimit limit{};
    if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
      const rlimit lifted{limit.rlim_max, limit.rlim_max};
      if (::setrlimit(RLIMIT_AS, &lifted) == 0) {
        base = map();
        const int error = errno;
        (void)::setrlimit(RLIMIT_AS, &limit);
        errno = error;
      }
    }
  }
  if (base == MAP_FAILED) return Status::system("mmap", errno, std::to_string(bytes) + " bytes, private");
  ::madvise(base, bytes, MADV_DONTDUMP);
  return {};
}

Overlay& Overlay::operator=(Overlay&& other) noexcept {
  if (this != &other) {
    (void)end();
    base_ = std::exchange(other.base_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Result<Overlay> Overlay::over(void* range, std::size_t bytes, const Fd& file, std::uint64_t file_offset) {
  void* base = ::mmap(range, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                      file.get(), static_cast<off_t>(file_offset));
  if (base == MAP_FAILED) return Status::system("mmap", errno, std::to_string(bytes) + " bytes, overlaid");
  ::madvise(base, bytes, MADV_DONTDUMP);
  return Overlay(base, bytes);
}

void Overlay::join(Overlay&& next) noexcept {
  bytes_ += std::exchange(next.bytes_, 0);
  next.base_ = nullptr;
}

Status Overlay::end() noexcept {
  if (!base_) return {};
  void* base = ::mmap(base_, bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return Status::system("mmap", errno, std::to_string(bytes_) + " bytes, anonymous");
  base_ = nullptr;
  bytes_ = 0;
  return {};
}

void populate_write(void* address, std::size_t bytes) noexcept {
  const PageRange range = pages_covering(address, bytes);
  // Failure (old kernel, memory pressure) only means that pages are faulted in one by one later.
  (void)::madvise(reinterpret_cast<void*>(range.begin), range.bytes, kPopulateWrite);
}

void populate_read(const void* address, std::size_t bytes) noexcept {
  const PageRange range = pages_covering(address, bytes);
  (void)::madvise(reinterpret_cast<void*>(range.begin), range.bytes, kPopulateRead);
}

void discard_private(void* address, std::size_t bytes) noexcept {
  const PageRange range = pages_covering(address, bytes);
  (void)::madvise(reinterpret_cast<void*>(range.begin), range.bytes, MADV_DONTNEED);
}

}  // namespace forklift::inline abi_0_1::os
