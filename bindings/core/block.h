// forklift._core.Block: memory of the arena as a Python object with the buffer protocol, 64-byte aligned.
//
// Received arrays, shared values, and shared and frozen objects lie in blocks. A Block owns a lease, and
// drops it when the last reference to the Block is gone. The lease may be one on a named segment (segment.h),
// which is used as a block is.
//
// All functions must be called with the interpreter lock held.
#pragma once

#include <Python.h>

#include "arena/arena.h"
#include "bindings/message/reader.h"
#include "message/message_builder.h"

namespace forklift::py {

// How an array over the block is sent.
enum class BlockMode : std::uint8_t {
  kPlain = 0,   // copied, like any array; the block itself can only be an argument of a child
  kShared = 1,  // as a handle: the receiver sees the same memory
  kFrozen = 2   // as a handle to memory that no process may write
};

// A Block over the bytes [offset, offset + length) of the lease's memory. New reference, or nullptr with an
// exception set.
PyObject* make_block(arena::LeasePtr lease, std::size_t offset, std::size_t length, bool writable,
                     BlockMode mode = BlockMode::kPlain);

bool is_block(PyObject* object) noexcept;
BlockMode block_mode(PyObject* block) noexcept;
const arena::LeasePtr& block_lease(PyObject* block) noexcept;
bool block_is_exported(PyObject* block) noexcept;
// Takes the lease out of the block. From then on a request for the block's buffer raises BufferError.
arena::LeasePtr empty_block(PyObject* block) noexcept;
// Gives an emptied block a lease again.
void refill_block(PyObject* block, arena::LeasePtr lease) noexcept;

// The shared or frozen block in which an ndarray, or the array of which it is a view, lies. Borrowed
// reference; nullptr without an exception if there is none.
PyObject* block_under(PyObject* array) noexcept;

// Adds a handle on the block to the message. Returns its index among the message's leases.
std::uint32_t place_block(PyObject* block, message::MessageBuilder& message);
// Makes a block over a lease of the message, which must be of Kind::kShare. New reference, or nullptr with
// CorruptError set.
PyObject* take_block(MessageReader& reader, std::uint32_t lease, std::uint8_t mode);

// Allocates a block, for 0 bytes one of 1 byte. Releases the interpreter lock meanwhile. New reference, or
// nullptr with an exception set.
PyObject* new_block(std::size_t bytes, BlockMode mode, arena::Kind kind, bool zeroed);

// Adds the type and its functions when the module is imported. 0 on success, -1 with an exception set.
int add_block_type(PyObject* module);

}  // namespace forklift::py
