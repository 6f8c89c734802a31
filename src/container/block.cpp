#include "container/block.h"

#include <bit>
#include <string>

#include "container/map.h"
#include "container/vector.h"

namespace forklift::inline abi_0_1::container {

namespace {

Status none(const char* why) { return {Code::kCorrupt, std::string("no shared container: ") + why}; }

}  // namespace

Result<std::uint64_t> bytes_for(const Shape& shape) {
  std::uint64_t bytes = 0;
  const bool fits = shape.kind == Kind::kMap ? map_bytes(shape, bytes) : vector_bytes(shape, bytes);
  if (!fits || __builtin_add_overflow(bytes, sizeof(Header), &bytes) || bytes > INT64_MAX)
    return Status(Code::kInvalid, "a shared container of " + std::to_string(shape.capacity) +
                                      " elements of " + std::to_string(shape.key_bytes + shape.item_bytes) +
                                      " bytes");
  return bytes;
}

Result<BlockPtr> Block::make(std::span<std::byte> memory, std::shared_ptr<const void> keep,
                             const Shape& shape, domain::Domain& domain) {
  const Result<std::uint64_t> bytes = bytes_for(shape);
  if (!bytes) return bytes.status();
  if (memory.size() < *bytes) return Status(Code::kInvalid, "memory that is too small for its container");
  BlockPtr block(new Block(memory, std::move(keep), shape, domain));
  Header& header = block->header();
  header.type.store(shape.type, std::memory_order_relaxed);
  header.capacity.store(shape.capacity, std::memory_order_relaxed);
  header.key_bytes.store(shape.key_bytes, std::memory_order_relaxed);
  header.item_bytes.store(shape.item_bytes, std::memory_order_relaxed);
  header.kind.store(static_cast<std::uint64_t>(shape.kind), std::memory_order_release);
  return block;
}

Result<BlockPtr> Block::open(std::span<std::byte> memory, std::shared_ptr<const void> keep,
                             const Shape& expected, domain::Domain& domain) {
  if (memory.size() < sizeof(Header) || std::bit_cast<std::uintptr_t>(memory.data()) % alignof(Header) != 0)
    return none("too small for a header");
  const Header& header = *reinterpret_cast<const Header*>(memory.data());
  if (header.kind.load(std::memory_order_acquire) != static_cast<std::uint64_t>(expected.kind))
    return Status(Code::kInvalid,
                  expected.kind == Kind::kMap ? "this is no SharedMap" : "this is no SharedVector");
  Shape shape = expected;
  shape.capacity = header.capacity.load(std::memory_order_relaxed);
  const Result<std::uint64_t> bytes = bytes_for(shape);
  if (!bytes || *bytes > memory.size()) return none("its elements lie beyond its memory");
  if (header.type.load(std::memory_order_relaxed) != expected.type ||
      header.key_bytes.load(std::memory_order_relaxed) != expected.key_bytes ||
      header.item_bytes.load(std::memory_order_relaxed) != expected.item_bytes)
    return Status(Code::kInvalid, "a shared container of elements of " +
                                      std::to_string(header.key_bytes.load() + header.item_bytes.load()) +
                                      " bytes and of another type than the one of " +
                                      std::to_string(expected.key_bytes + expected.item_bytes) +
                                      " bytes that is expected");
  return BlockPtr(new Block(memory, std::move(keep), shape, domain));
}

Writer::Writer(Block& block) : block_(block) {
  bool took_over = false;
  status_ = header().lock.acquire(block.domain(), took_over);
  if (status_ && took_over) recover();
}

Writer::~Writer() {
  if (ok()) header().lock.release();
}

// Completes what was committed; idempotent, since the one that recovers may die, too.
void Writer::recover() noexcept {
  sync::Transaction::replay(header().redo, reinterpret_cast<std::byte*>(&header()));
  complete_replacement(*this);
  if ((header().version.load(std::memory_order_relaxed) & 1) != 0) end();
}

}  // namespace forklift::inline abi_0_1::container
