// Pickle (channel codec 4): protocol 5 with out-of-band buffers, for whatever the native codec leaves.
//
//   offset  size
//   0       4      number of buffers
//   4       4      index of the lease that holds the pickle stream, or kInline
//   8       8      length of the stream
//   16      16*n   for each buffer: {u64 length, u32 lease or kInline, u32 flags (bit 0: read-only)}
//   ...            inline buffers one after another, then the stream where it is inline
//
// Picklers are reused: making one costs several times what a small object costs to pickle. They are the
// standard library's ForkingPickler, over live tables, so that every reducer that a program registers at any
// time is honoured.
#pragma once

#include <Python.h>

#include "bindings/message/reader.h"
#include "bindings/message/writer.h"

namespace forklift::py {

// Appends the object to the writer's bytes. Runs the program's code (reducers). False with an exception set.
bool encode_pickle(PyObject* object, MessageWriter& writer);
PyObject* decode_pickle(MessageReader& reader);

// The message that this thread is pickling or unpickling now, for reducers that send leases; nullptr if it
// does neither.
MessageWriter* current_message() noexcept;
MessageReader* current_reader() noexcept;

int add_pickling_types(PyObject* module);

}  // namespace forklift::py
