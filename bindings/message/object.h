// Any Python object as a message, by whichever codec takes it: the native one (native.h), else pickle
// (pickling.h).
//
// All functions need the interpreter lock.
#pragma once

#include <Python.h>

#include "bindings/message/reader.h"
#include "bindings/message/writer.h"

namespace forklift::py {

// Precondition: the writer is empty. False with an exception set; the writer is empty then, too.
bool encode_object(PyObject* object, MessageWriter& writer);

// As encode_object(), for an object that nothing but the caller's one reference refers to and that the caller drops
// when the message was sent. A received array then goes along with its memory instead of a copy of it; while the writer
// has the message, the array can still be read.
bool encode_last_use(PyObject* object, MessageWriter& writer);

// New reference, or nullptr with an exception set.
PyObject* decode_object(MessageReader& reader);

}  // namespace forklift::py
