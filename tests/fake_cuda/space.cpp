#include "space.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "contexts.h"
#include "host_memory.h"
#include "ipc_memory.h"

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

// Addresses without access that begin at a multiple of the alignment; null: there are none.
char* reserve_addresses(std::size_t bytes, std::size_t alignment, void* wish) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const std::size_t more = alignment > kPage ? alignment : 0;
  void* const got = ::mmap(wish, bytes + more, PROT_NONE, kFlags, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<char*>(got);
  if (more == 0) return begin;
  const std::size_t skip = (alignment - reinterpret_cast<std::uintptr_t>(begin) % alignment) % alignment;
  if (skip > 0) ::munmap(begin, skip);
  ::munmap(begin + skip + bytes, more - skip);
  return begin + skip;
}

void* address_of(Pointer address) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)); }

bool is_accessible(const Range& range, const Piece& piece, DeviceNumber device, Use use, By by) {
  switch (range.kind) {
    case Range::Kind::kPlain: return by == By::kCopy || contexts().may_access(device, range.device);
    case Range::Kind::kIpc: return true;  // opening it made the devices peers
    case Range::Kind::kReservation: break;
  }
  const auto found = piece.access.find(device);
  const int needed = use == Use::kWrite ? kReadWrite : kReadOnly;
  return found != piece.access.end() && (found->second & needed) == needed;
}

}  // namespace

Space& space() {
  static auto* const made = new Space;
  return *made;
}

CudaError Space::reserve(std::size_t bytes, std::size_t alignment, Pointer wish, Range::Kind kind,
                         Range** made) {
  const std::size_t reserved = (bytes + kPage - 1) / kPage * kPage;
  char* const there = reserve_addresses(reserved, alignment, address_of(wish));
  if (there == nullptr) return CudaError::kOutOfMemory;
  char* const alias = reserve_addresses(reserved, alignment, nullptr);
  if (alias == nullptr) {
    ::munmap(there, reserved);
    return CudaError::kOutOfMemory;
  }
  Range range;
  range.kind = kind;
  range.base = reinterpret_cast<std::uintptr_t>(there);
  range.alias = alias;
  range.bytes = bytes;
  range.reserved = reserved;
  *made = &ranges_.emplace(range.base, std::move(range)).first->second;
  return CudaError::kSuccess;
}

void Space::release(const Range& range) {
  ::munmap(address_of(range.base), range.reserved);
  ::munmap(range.alias, range.reserved);
  ranges_.erase(range.base);
}

CudaError Space::map(Range& range, std::size_t offset, std::size_t bytes, std::shared_ptr<Physical> memory,
                     Allocation handle) {
  const std::size_t pages = (bytes + kPage - 1) / kPage * kPage;
  void* const got =
      ::mmap(range.alias + offset, pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->fd(), 0);
  if (got == MAP_FAILED) return CudaError::kMapFailed;
  range.pieces.emplace(offset, Piece{bytes, std::move(memory), handle, {}});
  return CudaError::kSuccess;
}

void Space::unmap(Range& range, std::size_t offset) {
  const auto found = range.pieces.find(offset);
  if (found == range.pieces.end()) return;
  const std::size_t pages = (found->second.bytes + kPage - 1) / kPage * kPage;
  (void)::mmap(range.alias + offset, pages, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  range.pieces.erase(found);
}

Range* Space::find(Pointer address) {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return nullptr;
  Range& range = std::prev(after)->second;
  return address - range.base < range.bytes ? &range : nullptr;
}

Piece* Space::find_piece(Pointer address) {
  Range* const range = find(address);
  if (range == nullptr) return nullptr;
  const std::size_t offset = address - range->base;
  auto after = range->pieces.upper_bound(offset);
  if (after == range->pieces.begin()) return nullptr;
  --after;
  return offset - after->first < after->second.bytes ? &after->second : nullptr;
}

bool Space::contains(Pointer address, std::size_t bytes) {
  const Range* const range = find(address);
  if (range == nullptr) return host_memory().access(address, bytes) != nullptr;
  return bytes <= range->bytes - (address - range->base);
}

// Goes through the pieces under [address, address + bytes).
template <class Allows>
bool Space::all_allow(Pointer address, std::size_t bytes, Allows allows) {
  Range* const range = find(address);
  if (range == nullptr || !contains(address, bytes)) return false;
  const std::size_t begin = address - range->base;
  for (std::size_t at = begin; at < begin + bytes;) {
    const Piece* const piece = find_piece(range->base + at);
    if (piece == nullptr || !allows(*range, *piece)) return false;
    at = std::prev(range->pieces.upper_bound(at))->first + piece->bytes;
  }
  return true;
}

template <class Allows>
char* Space::resolve(Pointer address, std::size_t bytes, Allows allows) {
  if (!all_allow(address, bytes, allows)) return nullptr;
  Range& range = *find(address);
  if (range.origin != nullptr) range.origin->look(range);
  return range.alias + (address - range.base);
}

bool Space::may_access(Pointer address, std::size_t bytes, DeviceNumber device, Use use, By by) {
  if (host_memory().access(address, bytes) != nullptr) return true;
  return all_allow(address, bytes, [&](const Range& range, const Piece& piece) {
    return is_accessible(range, piece, device, use, by);
  });
}

char* Space::access(Pointer address, std::size_t bytes, DeviceNumber device, Use use, By by) {
  if (char* const host = host_memory().access(address, bytes)) return host;
  return resolve(address, bytes, [&](const Range& range, const Piece& piece) {
    return is_accessible(range, piece, device, use, by);
  });
}

char* Space::peek(Pointer address, std::size_t bytes) {
  return resolve(address, bytes, [](const Range&, const Piece&) { return true; });
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake
