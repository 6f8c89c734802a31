// The trace's region of the control segment: a table, names, a row for each ring, and the rings.
//
// Invariants
//  T1. A ring has one writer, the thread that its row names. It stores an event's words first, then `written`.
//  T2. A reader in another process copies events and looks at `written` again: those that may have been overwritten
//      meanwhile do not count.
//  T3. A ring that gets another owner is written on where it is. The new owner's first event (kThread) says who it is.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sync/word.h"
#include "trace/event.h"

namespace forklift::inline abi_0_1::trace {

using sync::Word;

// An event in a ring: time; {kind:8, unused:8, duration:48}; object; value.
struct Cell {
  Word words[4];
};
static_assert(sizeof(Cell) == 32);

struct alignas(64) RingRow {
  Word owner;    // as sync/thread_rows.h says
  Word written;  // events since the domain was made; the last of them are in the ring
  Word unused[6];
};
static_assert(sizeof(RingRow) == 64);

// A name of a task, a range or a counter. It stays as long as the domain does.
struct alignas(64) NameRow {
  static constexpr std::size_t kBytes = 56;
  static constexpr std::uint64_t kComplete = std::uint64_t{1} << 63;
  Word state;                                 // {1: complete, hash:63}; 0: free
  Word text[kBytes / sizeof(std::uint64_t)];  // padded with zeros
};
static_assert(sizeof(NameRow) == 64);

struct alignas(64) Table {
  Word rings_used;  // no row at or above it was ever used
  Word dropped;     // threads that found no ring
};

// What lies where in a region of so many bytes.
struct Geometry {
  static constexpr std::uint64_t kMostRings = 1000;
  static constexpr std::uint64_t kMostNames = 4096;
  static constexpr std::uint64_t kMostCells = std::uint64_t{1} << 15;

  std::uint64_t names = 0;
  std::uint64_t rings = 0;
  std::uint64_t cells = 0;  // in each ring; a power of two

  static constexpr Geometry of(std::uint64_t region_bytes) noexcept {
    Geometry plan;
    if (region_bytes < 4096) return plan;
    const std::uint64_t left = region_bytes - sizeof(Table);
    plan.names = std::min(kMostNames, left / 8 / sizeof(NameRow));
    const std::uint64_t for_rings = left - plan.names * sizeof(NameRow);
    plan.cells = std::clamp(std::bit_floor(for_rings / 8 / sizeof(Cell)), std::uint64_t{32}, kMostCells);
    plan.rings = std::min(kMostRings, for_rings / (plan.cells * sizeof(Cell) + sizeof(RingRow)));
    return plan;
  }
};

// The parts of a region, which may be mapped to be read only: then nothing may be stored.
class Region {
 public:
  Region() = default;
  explicit Region(std::span<std::byte> all) noexcept : base_(all.data()), plan_(Geometry::of(all.size())) {}

  const Geometry& plan() const noexcept { return plan_; }
  Table& table() const noexcept { return *reinterpret_cast<Table*>(base_); }
  std::span<NameRow> names() const noexcept {
    return {reinterpret_cast<NameRow*>(base_ + sizeof(Table)), plan_.names};
  }
  std::span<RingRow> rings() const noexcept {
    return {reinterpret_cast<RingRow*>(base_ + sizeof(Table) + plan_.names * sizeof(NameRow)), plan_.rings};
  }
  std::span<Cell> cells(std::uint64_t ring) const noexcept {
    std::byte* const first =
        base_ + sizeof(Table) + plan_.names * sizeof(NameRow) + plan_.rings * sizeof(RingRow);
    return {reinterpret_cast<Cell*>(first) + ring * plan_.cells, plan_.cells};
  }

 private:
  std::byte* base_ = nullptr;
  Geometry plan_;
};

}  // namespace forklift::inline abi_0_1::trace
