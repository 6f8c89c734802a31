// A mapping of a memory file into this process, unmapped by its owner.
//
// Every mapping here is left out of core dumps (MADV_DONTDUMP): a dump would populate the whole sparse file
// and keep the dying process's locks for seconds. The advice is lost whenever a range is mapped again, so all
// mapping is done by the functions below, and each of them gives the advice anew.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/fd.h"

namespace forklift::inline abi_0_1::os {

class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { reset(); }

  // MAP_SHARED | MAP_NORESERVE, read-write, and where it can be had at an address that suits huge pages.
  static Result<Mapping> shared(const Fd& file, std::uint64_t offset, std::size_t bytes);
  // The first `bytes` of a file that may be open for reading only: a store to them is fatal.
  static Result<Mapping> read_only(const Fd& file, std::size_t bytes);

  // Replaces [at, at + bytes) of this mapping by a private (copy-on-write) view of the same file range.
  // Atomic as seen by other threads: they find the old page or the new one. All numbers must be page-aligned.
  Status make_private(const Fd& file, std::uint64_t file_offset, std::size_t at, std::size_t bytes);

  std::byte* data() const noexcept { return base_; }
  std::size_t size() const noexcept { return bytes_; }
  bool valid() const noexcept { return base_ != nullptr; }
  void reset() noexcept;

 private:
  Mapping(std::byte* base, std::size_t bytes) noexcept : base_(base), bytes_(bytes) {}
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

// A range of this process's own memory that shows pages of a file instead, until the overlay ends. The range
// then has pages of zeros. Both changes are atomic as seen by other threads, and the addresses stay valid
// throughout. The pages that the range had before are given back to the kernel.
class Overlay {
 public:
  Overlay() noexcept = default;
  Overlay(Overlay&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Overlay& operator=(Overlay&& other) noexcept;
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;
  ~Overlay() { (void)end(); }

  // All numbers must be page-aligned. kSystem: the range is as it was.
  static Result<Overlay> over(void* range, std::size_t bytes, const Fd& file, std::uint64_t file_offset);

  // Takes over an overlay of the range directly behind this one's.
  void join(Overlay&& next) noexcept;

  bool valid() const noexcept { return base_ != nullptr; }
  std::size_t bytes() const noexcept { return bytes_; }
  // kSystem: the range still shows the file, and must not be used as anything else's memory.
  Status end() noexcept;

 private:
  Overlay(void* base, std::size_t bytes) noexcept : base_(base), bytes_(bytes) {}
  void* base_ = nullptr;
  std::size_t bytes_ = 0;
};

// Fills this process's page table for the range in bulk: for writing (which also creates missing pages) or
// for reading. A hint: where the kernel lacks the call (before 5.14), the pages are faulted in one by one
// later.
void populate_write(void* address, std::size_t bytes) noexcept;
void populate_read(const void* address, std::size_t bytes) noexcept;

// Drops this process's private copies of the pages of the range.
void discard_private(void* address, std::size_t bytes) noexcept;

std::size_t page_size() noexcept;

}  // namespace forklift::inline abi_0_1::os
