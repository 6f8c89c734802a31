// The seam below the collectives: how ranks meet, and how one reads another's memory. The algorithms (algorithms.h)
// know nothing else of the other ranks, so a transport between machines implements this class and nothing more.
//
//   std::byte* mine = ...;                                            // stage(bytes), or memory that is reachable()
//   if (Status met = transport.meet(call, {mine, bytes}, limits); !met) return met;
//   Result<const std::byte*> theirs = transport.peek(1, 0, bytes);    // rank 1's memory
//   ...
//   return transport.finish(Transport::kEveryRank, limits);         // no rank reads `mine` any more
//
// A call goes: meet(); peek(), publish() and await() in any order; finish(). A rank writes only its own memory. A
// rank's death ends the others' calls with kPeerDied, in whatever step they are; what they have read of it is thrown
// away then.
//
// Errors of all waits: kPeerDied, kBroken, kTimeout, kInterrupted: the group is broken for all ranks afterwards.
// kMismatch of meet(): the ranks called different things, every rank is told, and the group is as before.
//
// Thread safety: one call at a time (Communicator sees to the order).
#pragma once

#include <cstddef>
#include <cstdint>

#include "collective/call.h"
#include "domain/waiting.h"
#include "forklift/status.h"
#include "os/clock.h"

namespace forklift::inline abi_0_1::collective {

// How long a call waits for other ranks, and what it polls meanwhile.
struct WaitLimits {
  os::Deadline deadline = os::Deadline::never();
  domain::WaitHooks* hooks = nullptr;
};

// What a rank posts. With `ring` it has no more than that much memory at a time: byte i lies at i % ring, once the rank
// has published that it is there, and until the others have published that they need it no more.
struct Posted {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  std::size_t ring = 0;

  std::byte* at(std::size_t begin) const noexcept { return memory + (ring != 0 ? begin % ring : begin); }
};

class Transport {
 public:
  // Which ranks read this rank's memory, for finish(): one of these, or a rank.
  static constexpr int kEveryRank = -1, kNoRank = -2;

  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  // May this process use it? kBrokenByFork, kNotAttached; kPeerDied, kBroken once the group is broken.
  virtual Status check() const = 0;

  // Can other ranks read this memory where it lies?
  virtual bool reachable(const std::byte* memory, std::size_t bytes) const noexcept = 0;
  // Memory of the transport's own that they can read, until the next stage(). kOverBudget, kNoSpace.
  virtual Result<std::byte*> stage(std::size_t bytes) = 0;
  // Payloads of at most this many bytes can be copied by meet(): any memory will do, and finish() returns at once.
  virtual std::size_t small_bytes() const noexcept = 0;

  // After a check(): posts the call and its memory, waits until all ranks have posted, and compares the calls. `small`: no rank posts
  // more than small_bytes(); in one call it is the same at all ranks.
  virtual Status meet(const Call& call, const Posted& memory, bool small, const WaitLimits& limits) = 0;
  // Part of a rank's posted memory: [begin, begin + bytes). kCorrupt: it has not posted as much, or the part goes
  // beyond the end of its ring.
  virtual Result<const std::byte*> peek(int rank, std::size_t begin, std::size_t bytes) = 0;
  // This rank has done that many steps of the call, as its algorithm numbers them; what it wrote before is seen by
  // those who have awaited it.
  virtual void publish(std::uint64_t steps) = 0;
  // Waits until the rank has published that many.
  virtual Status await(int rank, std::uint64_t steps, const WaitLimits& limits) = 0;
  // This rank reads nothing more; waits until `readers` read nothing of it any more.
  virtual Status finish(int readers, const WaitLimits& limits) = 0;

  // Makes the calls of this rank that wait poll their hooks.
  virtual void wake() noexcept = 0;
  // This rank gives up: every later wait of every rank ends with kBroken.
  virtual void give_up() noexcept = 0;
};

}  // namespace forklift::inline abi_0_1::collective
