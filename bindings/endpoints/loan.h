// queue.loan(shape, dtype): an array that lies in the arena while it is filled and is then sent as it lies.
//
// The receiver gets it as its own private array, so nothing here may see that memory afterwards. NumPy cannot
// be asked who looks at an array's memory, but everybody who does keeps the array, or the one under it:
//
//   names and holders of any kind ---> array ---> inner ---> Block ---> lease
//   views (slices, reshapes, ...)  --------------^
//
// When the block ends, the array may have references only from the loan and from names of a frame that is
// being executed, `inner` only from the array and the loan, and the Block only from `inner`; then the array
// is emptied in place and the lease goes along with the message. In any other case (a view, a memoryview, a
// tensor over it, another process after a fork) a copy is sent, and what looks at the memory keeps it.
#pragma once

#include <Python.h>

namespace forklift::py {

// `queue` is an open one. New reference, or nullptr with an exception set.
PyObject* new_loan(PyObject* queue, PyObject* shape, PyObject* dtype, PyObject* block, PyObject* timeout);

int add_loan_type(PyObject* module);

}  // namespace forklift::py
