// Python objects as portable values (channel codec 2), for queues that have a C++ end.
//
//   None bool int float str bytes list dict      as they are; a tuple becomes a list
//   NumPy arrays and scalars, forklift.Tensor     tensors (arrays are copied into shared memory)
//
// All need the interpreter lock.
#pragma once

#include <Python.h>

#include "bindings/message/reader.h"
#include "forklift/value.h"

namespace forklift::py {

// False with TypeError, OverflowError or ValueError set.
bool to_value(PyObject* object, Value& value);
// Destroys the value without the interpreter lock: its tensors may be the last users of their memory.
void drop_value(Value value);
// New reference, or nullptr with an exception set.
PyObject* from_value(const Value& value, bool arrays);
// The same for a received message of portable values.
PyObject* from_message(MessageReader& reader, bool arrays);

}  // namespace forklift::py
