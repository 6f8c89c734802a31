// forklift._core.Block: memory of the arena as a Python object with the buffer protocol, 64-byte aligned. It
// is what received arrays, shared values, and shared and frozen objects rest on; the last reference gives the
// lease back.
//
// All functions need the interpreter lock.
#pragma once

#include <Python.h>

#include "arena/arena.h"
#include "bindings/message/reader.h"
#include "message/message_builder.h"

namespace forklift::py {

// What becomes of an array over the block when it is sent.
enum class BlockMode : std::uint8_t {
  kPlain = 0,   // it is copied, like any array; the block itself goes to children as an argument
  kShared = 1,  // a handle: the receiver sees the same memory
  kFrozen = 2   // likewise, and nobody may write
};

// Bytes [offset, offset + length) of the lease. New reference, or nullptr with an exception set.
PyObject* make_block(arena::LeasePtr lease, std::size_t offset, std::size_t length, bool writable,
                     BlockMode mode = BlockMode::kPlain);

bool is_block(PyObject* object) noexcept;
BlockMode block_mode(PyObject* block) noexcept;
const arena::LeasePtr& block_lease(PyObject* block) noexcept;
bool block_is_exported(PyObject* block) noexcept;
// The lease, which the block then no longer has: its buffer can no longer be had.
arena::LeasePtr empty_block(PyObject* block) noexcept;
void refill_block(PyObject* block, arena::LeasePtr lease) noexcept;

// The shared or frozen block under an ndarray and its views; nullptr (no exception) where there is none.
// Borrowed.
PyObject* block_under(PyObject* array) noexcept;

// Enters a handle on a block into a message; its index among the message's leases.
std::uint32_t place_block(PyObject* block, message::MessageBuilder& message);
// The block behind a lease of a message, which must be of the share kind. New reference, or nullptr with
// CorruptError set.
PyObject* take_block(MessageReader& reader, std::uint32_t lease, std::uint8_t mode);

// A new block; 0 bytes become 1. Releases the interpreter lock. New reference, or nullptr with an exception.
PyObject* new_block(std::size_t bytes, BlockMode mode, arena::Kind kind, bool zeroed);

// The type and its functions; at import. 0 on success.
int add_block_type(PyObject* module);

}  // namespace forklift::py
