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

// New reference, or nullptr with an exception set.
PyObject* decode_object(MessageReader& reader);

}  // namespace forklift::py
