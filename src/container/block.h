// Block: the memory of one shared container, as one process sees it.
//
//   Result<BlockPtr> block = Block::make(memory, keep, shape, domain);     // of zeros, at least bytes_for(shape)
//   Status status = (*block)->read([&] { ... copies words out ... });      // consistent, or again
//   Writer writer(**block);                                                // one at a time
//   if (writer.ok()) { writer.begin(); ... ; writer.end(); }
//
// Readers take no lock: the header's version is odd while a writer changes what is there, and a reader that saw a
// change begins again; after kTries it reads under the writers' lock. A writer that is killed is taken over from by
// the next writer, or by a reader that finds an odd version: what the dead writer had committed is completed, what it
// had not is as if it had never begun. (Its journal: RedoRecord for words, `pending` for an item.)
//
// What is read from the memory is checked before it is used as an index; a process that wrote nonsense causes kCorrupt.
//
// Source: sequence locks, as in Linux (C. Lameter, Effective synchronization on Linux/NUMA systems, 2005); the fences
// of H.-J. Boehm, Can seqlocks get along with programming language memory models?, MSPC 2012.
//
// Thread and process safety: all functions. A forked child uses the block as its parent does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "container/words.h"
#include "container/writer_lock.h"
#include "forklift/status.h"
#include "sync/redo.h"

namespace forklift::inline abi_0_1::container {

enum class Kind : std::uint64_t {
  kVector = 0x3143455631544c46,  // "FLT1VEC1"
  kMap = 0x3150414d31544c46      // "FLT1MAP1"
};

struct Shape {
  Kind kind = Kind::kVector;
  std::uint64_t type = 0;  // which C++ types the elements have
  std::uint64_t capacity = 0;
  std::uint32_t key_bytes = 0;  // of a map's
  std::uint32_t item_bytes = 0;
};

// In shared memory. All-zero but for its first five words is an empty container.
struct Header {
  Word kind;
  Word type;
  Word capacity;
  Word key_bytes;
  Word item_bytes;
  Word unused0[3];
  alignas(64) WriterLock lock;
  Word unused1[4];
  alignas(64) Word version;  // odd while a writer changes what readers may see
  Word size;
  Word pending;     // vector: index + 1 of the item that the spare one replaces
  Word used;        // map: no node at or above it was ever in use
  Word free_nodes;  // map: list of nodes: index + 1
  Word unused2[3];
  sync::RedoRecord redo;
};
static_assert(sizeof(Header) == 192 + sizeof(sync::RedoRecord));

// kInvalid: more than an address space holds.
Result<std::uint64_t> bytes_for(const Shape& shape);

class Block {
 public:
  static constexpr int kTries = 1000;

  // `keep` keeps the memory.
  static Result<std::shared_ptr<Block>> make(std::span<std::byte> memory, std::shared_ptr<const void> keep,
                                             const Shape& shape, domain::Domain& domain);
  // A container that is there already. kInvalid: it is of another kind or type. kCorrupt: it is none, or does not lie
  // within its memory.
  static Result<std::shared_ptr<Block>> open(std::span<std::byte> memory, std::shared_ptr<const void> keep,
                                             const Shape& expected, domain::Domain& domain);

  const Shape& shape() const noexcept { return shape_; }
  domain::Domain& domain() const noexcept { return domain_; }
  Header& header() const noexcept { return *reinterpret_cast<Header*>(memory_.data()); }
  // Everything behind the header.
  std::byte* items() const noexcept { return memory_.data() + sizeof(Header); }
  // A moment's truth.
  std::uint64_t size() const noexcept {
    const std::uint64_t size = header().size.load(std::memory_order_acquire);
    return size < shape_.capacity ? size : shape_.capacity;
  }

  // Runs `copy`, which copies words out, until nothing changed meanwhile. What it copied then is consistent. kStalled,
  // kNotAttached where a writer is in the way.
  template <class Copy>
  Status read(Copy&& copy) {
    for (int tries = 0; tries < kTries; ++tries) {
      const std::uint64_t before = header().version.load(std::memory_order_acquire);
      if ((before & 1) == 0) {
        copy();
        sync::load_fence();
        if (header().version.load(std::memory_order_relaxed) == before) return {};
      }
      sync::cpu_relax();
    }
    return read_locked(std::forward<Copy>(copy));
  }

 private:
  Block(std::span<std::byte> memory, std::shared_ptr<const void> keep, const Shape& shape,
        domain::Domain& domain)
      : memory_(memory), keep_(std::move(keep)), shape_(shape), domain_(domain) {}
  template <class Copy>
  Status read_locked(Copy&& copy);

  std::span<std::byte> memory_;
  std::shared_ptr<const void> keep_;
  Shape shape_;
  domain::Domain& domain_;
};
using BlockPtr = std::shared_ptr<Block>;

// Returns where so many elements of key_bytes + item_bytes shall go. Called again with their number once that is known.
using MakeRoom = void* (*)(void* context, std::uint64_t size);

// Holds the writers' lock for a scope. The destructor leaves the container consistent.
class Writer {
 public:
  explicit Writer(Block& block);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer();

  bool ok() const noexcept { return status_.ok(); }
  const Status& status() const noexcept { return status_; }
  Block& block() const noexcept { return block_; }
  Header& header() const noexcept { return block_.header(); }

  // Around each change that readers could see half done.
  void begin() noexcept {
    Word& version = header().version;
    version.store(version.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    sync::store_fence();
    sync::crash_fence();
  }
  void end() noexcept {
    sync::crash_fence();
    Word& version = header().version;
    version.store(version.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

 private:
  void recover() noexcept;
  Block& block_;
  Status status_;
};

template <class Copy>
Status Block::read_locked(Copy&& copy) {
  const Writer writer(*this);
  if (!writer.ok()) return writer.status();
  copy();
  return {};
}

}  // namespace forklift::inline abi_0_1::container
