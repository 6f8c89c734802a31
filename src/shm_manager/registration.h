// The other end of the manager's socket: a program outside of a domain opens one of its named segments.
//
//   Result<Registered> segment = open_registered("/forklift-2f...-1000000", 1 << 20);
//   use(segment->data(), segment->size());          // until it is destroyed
//
// Thread safety: any thread may open; an object is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "os/fd.h"
#include "os/mapping.h"

namespace forklift::inline abi_0_1::shm_manager {

// A segment's memory, and the connection that keeps its name.
class Registered {
 public:
  Registered(os::Fd connection, os::Mapping mapping, std::uint64_t head) noexcept
      : connection_(std::move(connection)), mapping_(std::move(mapping)), head_(head) {}

  std::byte* data() const noexcept { return mapping_.data() + head_; }
  std::size_t size() const noexcept { return mapping_.size() - head_; }
  // Does a manager keep the name for this program? Without one, or after its end, the memory stays usable and
  // the name goes with the domain's own users.
  bool is_kept() const noexcept;

 private:
  os::Fd connection_;
  os::Mapping mapping_;
  std::uint64_t head_;
};

// `head`: bytes of the file before the memory. kInvalid: no name of a named segment; kNotFound; kCorrupt:
// another size; kRefused: another user's.
Result<Registered> open_registered(const std::string& name, std::uint64_t bytes, std::uint64_t head = 0);

}  // namespace forklift::inline abi_0_1::shm_manager
