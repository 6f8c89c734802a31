// The collectives over a Transport, on memory without gaps: what each rank reads of which other rank, and when.
//
//   Exchange exchange{transport, limits, DType::kFloat32, count};
//   if (Status met = transport.meet(call, memory, small, limits); !met) return met;
//   if (Status done = all_reduce(exchange, Op::kSum, memory, out); !done) return done;
//
// Every function is called after meet() and ends with finish(). A rank reads the others' memory and writes its own, so
// the death of a rank leaves the others' memory as they have written it themselves.
//
// Errors, thread safety: as Transport.
#pragma once

#include <cstddef>

#include "collective/rank_transport.h"

namespace forklift::inline abi_0_1::collective {

// What is reduced or copied before others are told of it: small enough to stay in a cache until they read it.
inline constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
// All ranks' pieces of one step of an all_reduce (a larger group has smaller pieces, down to kLeastPieceBytes).
inline constexpr std::size_t kWindowBytes = std::size_t{512} << 10;
inline constexpr std::size_t kLeastPieceBytes = std::size_t{32} << 10;
// How many windows a ring holds (Posted::ring): as many as a rank may be ahead of what others still read of it.
inline constexpr std::size_t kRingWindows = 4;

// `count`: elements that one rank contributes for one rank, i.e. of a broadcast's or reduction's tensor, or of a part
// of a gathered or scattered one. `piece`: of an all_reduce; the same at all ranks.
struct Exchange {
  Transport& transport;
  WaitLimits limits;
  DType dtype;
  std::size_t count;
  std::size_t piece = kPieceBytes;

  std::size_t bytes() const noexcept { return count * item_size(dtype); }
};

// `root`'s memory into `out`; at the root nothing.
Status broadcast(const Exchange& exchange, int root, std::byte* out);
// The reduction of all into `out`, at the root alone. `out` may be what the root has posted.
Status reduce(const Exchange& exchange, Op op, int root, std::byte* out);
// What this rank has posted is overwritten with the result, since others read it there; with a ring, its elements are
// in `out`, and pass through the ring window by window. `out`: the result, too, if it is not what was posted. With
// `small`, or of a single rank, what was posted is left alone.
Status all_reduce(const Exchange& exchange, Op op, bool small, const Posted& posted, std::byte* out);
// Posted::ring for an all_reduce of that many bytes by a rank whose memory the others cannot read.
std::size_t ring_bytes(std::size_t bytes, std::size_t piece, int size);

// Of every reduction: elements [begin, begin + count) of each rank's memory, from `begin` on, piece by piece.
Status reduce_range(const Exchange& exchange, Op op, std::size_t begin, std::size_t count, std::byte* out);
// All ranks' memory one after the other.
Status gather(const Exchange& exchange, int root, std::byte* out);
Status all_gather(const Exchange& exchange, std::byte* out);
// Each rank's part of the root's memory.
Status scatter(const Exchange& exchange, int root, std::byte* out);
// The reduction of all ranks' parts with this rank's number.
Status reduce_scatter(const Exchange& exchange, Op op, std::byte* out);
// Those parts themselves, one after the other.
Status all_to_all(const Exchange& exchange, std::byte* out);

}  // namespace forklift::inline abi_0_1::collective
