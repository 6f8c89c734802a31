// Channels in shared memory: rows, chunks, records. docs/layout.md describes the same bytes in prose.
//
// A channel is a chain of chunks with a robust lock at each end. Its state is two words, tail and head, each
// {chunk, unit, sequence}: an operation is committed by one store of its end's word, after everything that
// the word makes visible was written. What is left to repair after a death is named in cells beside the word.
//
// Invariants
//  C1. Messages with head.seq <= seq < tail.seq (mod 2^30) are in the channel; nothing else is.
//  C2. A lease whose holder is message {channel, seq} belongs to that message iff C1 holds for seq. Only
//      seq == tail.seq (a put in progress) and seq == head.seq - 1 (a get in progress) can be strays, and
//      both are swept by the recovery of the respective end, before the sequence can be used again.
//  C3. Every chunk is in the pool's lists, in the chain from head.chunk to tail.chunk, or in a cell
//      (`spare` of the tail, `dying` of the head).
//  C4. The chain's links are read only between head.chunk and tail.chunk; what lies behind tail is not
//  trusted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/arena.h"
#include "sync/event_count.h"
#include "sync/label.h"
#include "sync/redo.h"
#include "sync/robust_mutex.h"

namespace forklift::inline abi_0_1::channel {

using sync::Word;

inline constexpr std::uint32_t kSequenceBits = 30;
inline constexpr std::uint32_t kSequenceMask = (1U << kSequenceBits) - 1;

// The word that commits: the place of an end, and the number of messages that have passed it. Packed, it
// stays in one register; its parts would be stored one by one and loaded as a whole.
class Position {
 public:
  // `chunk`: number in the pool, from 1; 0: no chunk yet. `unit`: of 64 bytes within the chunk. `sequence`:
  // 30 bits.
  Position(std::uint64_t chunk, std::uint64_t unit, std::uint32_t sequence) noexcept
      : word_(chunk << 40 | unit << 30 | (sequence & kSequenceMask)) {}
  static Position unpack(std::uint64_t word) noexcept { return Position(word); }

  std::uint32_t chunk() const noexcept { return static_cast<std::uint32_t>(word_ >> 40); }
  std::uint32_t unit() const noexcept { return static_cast<std::uint32_t>(word_ >> 30) & 0x3ff; }
  std::uint32_t sequence() const noexcept { return static_cast<std::uint32_t>(word_) & kSequenceMask; }
  std::uint64_t pack() const noexcept { return word_; }

  // Behind so many messages, and a record of so many units, which are known to lie in its chunk. 0 units: the next
  // message is in the same record.
  Position past(std::uint64_t units, std::uint64_t messages = 1) const noexcept {
    return Position(((word_ & ~std::uint64_t{kSequenceMask}) + (units << 30)) |
                    ((word_ + messages) & kSequenceMask));
  }

 private:
  explicit Position(std::uint64_t word) noexcept : word_(word) {}
  std::uint64_t word_;
};

inline constexpr std::uint32_t kUnitBytes = 64;
inline constexpr std::uint32_t kChunkBytes = 32 * 1024;
inline constexpr std::uint32_t kChunkUnits = kChunkBytes / kUnitBytes;  // unit 0 is the chunk's own
// A message's bytes and handles up to this lie in the chunk, more in a block.
inline constexpr std::uint32_t kInlineBytes = 8 * 1024;
inline constexpr std::uint64_t kNoEnd = 0xffff;

struct alignas(kUnitBytes) Chunk {
  Word next;  // chunk number; while free: the next free one
  Word end;   // unit behind the last record, once `next` is set
  std::byte unused[kUnitBytes - 16];
  std::byte units[kChunkBytes - kUnitBytes];
};
static_assert(sizeof(Chunk) == kChunkBytes);

// What precedes a message's bytes. Written before the tail commits, copied and checked by the receiver.
//
// A packed record holds several messages of one length, codec and tag, which have consecutive sequences, no handles, and
// lie one behind the other, each in whole words. The head stays at the record until the last of them is taken, so which
// one is next follows from its sequence.
struct RecordHeader {
  std::uint32_t units;     // of the whole record
  std::uint32_t sequence;  // must be head.seq; packed: of the first message
  std::uint32_t bytes;     // inline: payload bytes behind the handles
  std::uint16_t handles;   // inline; packed: how many messages
  std::uint8_t codec;      // how to read the payload; opaque here
  std::uint8_t spilled;    // 1: one handle, of a block that holds {SpillHeader, handles, payload}; kPacked
  std::uint64_t weight;    // bytes that count against the channel's byte bound; packed: of each message
  std::uint64_t tag;       // the codec's own
};
static_assert(sizeof(RecordHeader) == 32);
inline constexpr std::uint8_t kPacked = 2;

struct SpillHeader {
  std::uint64_t bytes;
  std::uint32_t handles;
  std::uint32_t unused;
};

enum ChannelFlags : std::uint64_t {
  kPortable = 1,
  kRedelivers = 2  // there are receipts (channel/receipts.h)
};

// Labels of the channels that a pool makes, by which those who look at a domain know them.
inline constexpr const char* kPoolTasks = "tasks of a pool";
inline constexpr const char* kPoolAnswers = "answers of a pool";

enum TailState : std::uint64_t {
  kTailBroken = 1,  // while what a dead putter left is not repaired (a lock that it needs is stuck)
  kTailClosed = 2,  // nothing more can be put
};

struct ChannelRow {
  // What does not change while the channel lives.
  alignas(64) Word meta;  // {generation:32, in use:1}
  Word count;             // lease rows naming this channel
  Word next;              // free list: row index + 1
  Word capacity;          // messages; 0: unbounded
  Word byte_capacity;     // 0: unbounded
  Word flags;
  Word drain_mark;  // 0: getters notify with each message; else only if fewer than this are left
  Word first;       // the sequence at creation

  alignas(64) sync::RobustMutex tail_mutex;
  // For the next putter: getters look at the line of `tail`, and it would have to be fetched from them. 0, or the same as
  // `tail`, and then tail_state is 0. Stored behind the commit, with the lock; the repair of a tail makes it 0.
  alignas(16) Word put_tail;
  Word seen_head;  // a sequence that head has reached: spares putters the other end's cache line
  alignas(64) Word tail;
  Word spare;          // a chunk from the pool that is not yet in the chain
  Word tail_bytes[2];  // bytes ever sent; [seq & 1] belongs to tail.seq: one commit
  Word put_cpu;        // processor of the last putter, + 1
  Word space_spinner;  // until when (CLOCK_MONOTONIC, ns) one waiting putter spins; it may have died
  Word tail_state;     // TailState, changed under the tail's lock

  alignas(64) sync::RobustMutex head_mutex;
  alignas(64) Word head;
  Word dying;  // a chunk that has left the chain and is not yet in the pool
  Word head_bytes[2];
  Word get_cpu;
  Word seen_tail;     // a position that tail has reached
  Word item_spinner;  // as space_spinner, for getters
  Word head_broken;   // 1 while what a dead getter left is not repaired (a lock that it needs is stuck)

  alignas(64) sync::EventCount items;  // a message has come
  sync::EventCount space;              // a message has gone
  // Pipes only (channel/pipe.h). The first is changed under the tail's lock, the second under the head's.
  Word tokens_sent;
  Word tokens_read;
  Word selectable;  // who asked for a descriptor: 1 the reader, 2 the writer
  Word deaths;      // a pool's tasks: workers that died

  alignas(64) Word done;  // task_done calls + the sequence at creation, mod 2^30
  sync::EventCount all_done;
  // Where the receipts are, of a channel that delivers at least once. They do not change while the channel lives.
  Word receipts;         // how many; 0: it delivers at most once
  Word receipts_offset;  // of their block, in the data segment
  Word receipts_block;   // {generation:32, row:32}
  Word receipts_lease;
  Word sent_again;  // a pool's tasks: how often one was put again after its worker's death

  alignas(64) sync::Label label;  // cleared with the making of a channel
};
static_assert(sizeof(ChannelRow) == 512);

struct ChannelTable {
  Word rows_used;
  Word rows_free;  // row index + 1
  Word unused[62];
};
static_assert(sizeof(ChannelTable) == 512);

struct ChunkPoolState {
  sync::RobustMutex mutex;
  alignas(64) sync::RedoRecord redo;
  alignas(64) Word used;  // chunks ever used
  Word warm;              // free lists: chunk number
  Word cold;              // their pages were given back
  Word warm_count;
};
static_assert(sizeof(ChunkPoolState) <= kChunkBytes);

}  // namespace forklift::inline abi_0_1::channel
