// A hash map of keys and values of fixed sizes in a Block: chains of nodes.
//
//   Status status = assign(writer, &key, &value, If::kAny, was_there);   // kNoSpace: it is full
//   status = find(block, &key, &value, found);
//
// A change fills a node that nobody can reach, then puts the words that make it reachable into one redo transaction.
// Keys are compared and hashed as bytes, so a key's type has no padding and one representation for each value.
//
// Thread and process safety: as Block.
#pragma once

#include "container/block.h"

namespace forklift::inline abi_0_1::container {

bool map_bytes(const Shape& shape, std::uint64_t& bytes) noexcept;

enum class If : std::uint8_t {
  kAny,
  kAbsent,
  kPresent
};
// `was_there`: whether the map had the key. kNoSpace, kCorrupt.
Status assign(Writer& writer, const void* key, const void* value, If when, bool& was_there);
// kCorrupt.
Status erase(Writer& writer, const void* key, bool& was_there);
// In several changes: a death in between leaves some elements.
Status clear_map(Writer& writer);
// Within a Writer's scope.
Status find_locked(Writer& writer, const void* key, void* value, bool& found);

// `value` may be null. kStalled, kNotAttached, kCorrupt.
Status find(Block& block, const void* key, void* value, bool& found);
// All keys, each followed by its value, until they are consistent. Errors as of find().
Status copy_elements(Block& block, MakeRoom make_room, void* context);

}  // namespace forklift::inline abi_0_1::container
