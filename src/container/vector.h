// A vector of items of one size in a Block: its items lie one behind the other, then one spare.
//
//   Status status = push_back(writer, &item);        // kNoSpace: it is full
//   status = get(block, 3, &item, found);
//
// push_back() and pop_back() are committed by one store of the size. replace() writes the spare item, commits by one
// store of `pending`, then copies.
//
// Thread and process safety: as Block.
#pragma once

#include "container/block.h"

namespace forklift::inline abi_0_1::container {

bool vector_bytes(const Shape& shape, std::uint64_t& bytes) noexcept;

// kNoSpace.
Status push_back(Writer& writer, const void* item);
// False: there is none.
bool pop_back(Writer& writer, void* item);
// False: there is no such item.
bool replace(Writer& writer, std::uint64_t index, const void* item);
void clear_vector(Writer& writer) noexcept;
// Within a Writer's scope.
bool item_at(Writer& writer, std::uint64_t index, void* item) noexcept;

// `found` false: there is no such item. kStalled, kNotAttached.
Status get(Block& block, std::uint64_t index, void* item, bool& found);
// All items, until they are consistent. Errors as of get().
Status copy_all(Block& block, MakeRoom make_room, void* context);

// For Writer: the end of a replace() that was committed.
void complete_replacement(Writer& writer) noexcept;

}  // namespace forklift::inline abi_0_1::container
