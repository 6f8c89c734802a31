// The shared block of a group: one block of kind share in the arena. A header, then a cell for each rank.
//
//   Header  what it is, how many ranks there are, whether the group is broken, what sleepers sleep on
//   Cell    a rank's process, its two newest calls, how far it has come in the call at hand
//
// Only its own rank writes to a cell once it has joined, so no lock is needed: a rank publishes a call by one store of
// Post::sequence, after everything else in the post. There are two posts, used in turn. A rank posts call n + 2 only
// after all ranks have posted call n + 1, and these have read all posts of call n by then: no post changes while a rank
// may read it (decisions/0220).
//
// A rank's death leaves words that are old or new. Nothing has to be recovered: the group is broken then.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sync/event_count.h"
#include "sync/word.h"

namespace forklift::inline abi_0_1::collective {

using sync::Word;

inline constexpr std::uint64_t kMagic = 0x3170756f72674c46;  // "FLgroup1"
inline constexpr int kMostRanks = 1024;
// Payloads up to this many bytes travel in the post itself.
inline constexpr std::size_t kInlineBytes = 4096;
inline constexpr std::size_t kShownDims = 8;
// Post::offset of a call whose payload is in the post, and of a call without memory.
inline constexpr std::uint64_t kInPost = ~std::uint64_t{0};

struct alignas(64) Header {
  Word magic;
  Word size;
  alignas(64) Word broken;  // 0, or why: reason, rank + 1, pid
  alignas(64) sync::EventCount event;
};

struct alignas(64) Post {
  Word sequence;  // which call this is; stored last
  Word call;      // Call::word()
  Word count;     // of elements
  Word layout;    // hash of the shape
  Word offset;    // of the posted memory in the data segment
  Word bytes;     // of it
  Word ring;      // 0, or the memory is a ring of that many bytes: byte i of `bytes` lies at i % ring
  // For messages alone.
  alignas(64) Word dims[kShownDims];
  alignas(64) std::byte payload[kInlineBytes];
};

struct alignas(64) Cell {
  Word member;                // {generation:32, slot + 1:32} of the rank's process; 0: none is known
  Word pid;                   // of the process that has joined; 0: none has
  Word left;                  // 1: the process has given its group object up
  alignas(64) Word progress;  // steps of this call that the rank has done
  Word done;                  // the last call in which this rank has read everything that it reads
  Post posts[2];
};

// docs/layout.md has these numbers.
static_assert(sizeof(Header) == 192 && sizeof(Post) == 4224 && sizeof(Cell) == 8576);

constexpr std::size_t block_bytes(int size) noexcept {
  return sizeof(Header) + static_cast<std::size_t>(size) * sizeof(Cell);
}

}  // namespace forklift::inline abi_0_1::collective
