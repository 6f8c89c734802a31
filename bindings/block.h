// forklift._core.Block: memory of the arena as a Python object with the buffer protocol, 64-byte aligned. It
// is what received arrays and out-of-band buffers rest on; the last reference gives the lease back.
#pragma once

#include <Python.h>

#include "arena/arena.h"

namespace forklift::py {

// Bytes [offset, offset + length) of the lease. New reference, or nullptr with an exception set.
PyObject* make_block(arena::LeasePtr lease, std::size_t offset, std::size_t length, bool writable);

// The type; made at import. 0 on success.
int add_block_type(PyObject* module);

}  // namespace forklift::py
