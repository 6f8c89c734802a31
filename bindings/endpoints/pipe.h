// The base type of Connection in forklift.multiprocessing.connection: send and receive, each one C call.
//
// An object of it without channels (a Connection made on any descriptor) does what the standard library's
// class does, whose data go through the descriptor.
#pragma once

#include <Python.h>

namespace forklift::py {

int add_pipe_type(PyObject* module);

}  // namespace forklift::py
