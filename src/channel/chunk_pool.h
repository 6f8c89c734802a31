// Where channels get their chunks. A chunk moves between the pool and a named cell of a channel in one
// transaction, so a death leaves it in one of the two.
#pragma once

#include "channel/tables.h"

namespace forklift::inline abi_0_1::channel {

class ChunkPool {
 public:
  static Status lay_out(domain::Domain& domain);
  explicit ChunkPool(arena::Arena& arena);

  // Puts a fresh chunk's number into the cell, which must be 0 and belong to the caller (its end's lock is
  // held).
  Status take_into(Word& cell);
  // Gives the cell's chunk back and clears the cell. No effect on an empty cell.
  void give_from(Word& cell);
  // Gives the pages of free chunks back, at least `bytes` if there are so many. How many bytes.
  std::uint64_t trim(std::uint64_t bytes);
  // Completes the change of a process that died inside the pool's lock. Call it before the repair of a
  // channel's end: a later replay would change the end's cell again.
  bool settle() {
    const sync::LockGuard guard = lock();
    return guard.ok();
  }

  // The chunk of a number that another process wrote; nullptr if there is none such.
  Chunk* chunk(std::uint64_t number) const noexcept;
  ChunkPoolState& state() const noexcept { return *state_; }
  sync::LockGuard lock();

 private:
  arena::Arena& arena_;
  ChunkPoolState* state_;
  Chunk* chunks_;  // chunk number n lies at chunks_[n]; number 0 is where the state lies
  std::uint64_t capacity_;
};

}  // namespace forklift::inline abi_0_1::channel
