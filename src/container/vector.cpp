#include "container/vector.h"

#include <string>

namespace forklift::inline abi_0_1::container {

namespace {

std::byte* slot(const Block& block, std::uint64_t index) noexcept {
  return block.items() + index * padded(block.shape().item_bytes);
}
std::byte* spare(const Block& block) noexcept { return slot(block, block.shape().capacity); }

}  // namespace

bool vector_bytes(const Shape& shape, std::uint64_t& bytes) noexcept {
  std::uint64_t slots = 0;
  return !__builtin_add_overflow(shape.capacity, std::uint64_t{1}, &slots) &&
         !__builtin_mul_overflow(slots, padded(shape.item_bytes), &bytes);
}

Status push_back(Writer& writer, const void* item) {
  const Block& block = writer.block();
  const std::uint64_t size = block.size();
  if (size >= block.shape().capacity)
    return {Code::kNoSpace, "a SharedVector of " + std::to_string(block.shape().capacity) + " items is full"};
  copy_in(slot(block, size), item, block.shape().item_bytes);
  sync::crash_fence();
  writer.header().size.store(size + 1, std::memory_order_release);
  return {};
}

bool pop_back(Writer& writer, void* item) {
  const Block& block = writer.block();
  const std::uint64_t size = block.size();
  if (size == 0) return false;
  copy_out(item, slot(block, size - 1), block.shape().item_bytes);
  // A reader may be at this item, and the next push_back() overwrites it.
  writer.begin();
  writer.header().size.store(size - 1, std::memory_order_release);
  writer.end();
  return true;
}

bool replace(Writer& writer, std::uint64_t index, const void* item) {
  const Block& block = writer.block();
  if (index >= block.size()) return false;
  copy_in(spare(block), item, block.shape().item_bytes);
  writer.begin();
  writer.header().pending.store(index + 1, std::memory_order_release);
  sync::crash_fence();
  complete_replacement(writer);
  writer.end();
  return true;
}

void complete_replacement(Writer& writer) noexcept {
  Header& header = writer.header();
  const std::uint64_t pending = header.pending.load(std::memory_order_acquire);
  if (pending == 0) return;
  const Block& block = writer.block();
  if (pending <= block.shape().capacity)
    copy_within(slot(block, pending - 1), spare(block), block.shape().item_bytes);
  sync::crash_fence();
  header.pending.store(0, std::memory_order_release);
}

void clear_vector(Writer& writer) noexcept {
  writer.begin();
  writer.header().size.store(0, std::memory_order_release);
  writer.end();
}

bool item_at(Writer& writer, std::uint64_t index, void* item) noexcept {
  const Block& block = writer.block();
  if (index >= block.size()) return false;
  copy_out(item, slot(block, index), block.shape().item_bytes);
  return true;
}

Status get(Block& block, std::uint64_t index, void* item, bool& found) {
  return block.read([&] {
    found = index < block.size();
    if (found) copy_out(item, slot(block, index), block.shape().item_bytes);
  });
}

Status copy_all(Block& block, MakeRoom make_room, void* context) {
  // Room is made outside of the attempts, so that they are short; others may add items meanwhile.
  for (;;) {
    const std::uint64_t room = block.size();
    auto* const to = static_cast<std::byte*>(make_room(context, room));
    const std::uint64_t bytes = block.shape().item_bytes;
    std::uint64_t size = 0;
    Status status = block.read([&] {
      size = block.size();
      for (std::uint64_t i = 0; i < size && i < room; ++i) copy_out(to + i * bytes, slot(block, i), bytes);
    });
    if (!status) return status;
    if (size <= room) {
      (void)make_room(context, size);
      return {};
    }
  }
}

}  // namespace forklift::inline abi_0_1::container
