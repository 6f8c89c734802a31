// The dispatch table of Forklift's pickler: where it looks for the reducer of a type that it does not pickle by
// itself. It asks for each object of such a type, in most cases to learn that there is none.
//
//   table = _core._ReducerTable(registered, copyreg.dispatch_table, own, preferred, find)
//   pickler.dispatch_table = table
//
// The first of the first three dicts that has the type decides. `preferred` maps types to {their framework's reducer,
// the one to use instead}. Where no dict has a type whose class has `__dlpack__`, find(type) is asked, and answers
// None where there is no reducer. The dicts are looked at for each access, so later registrations count.
//
// Thread safety: the interpreter lock.
#pragma once

#include <Python.h>

namespace forklift::py {

int add_reducer_table(PyObject* module);

}  // namespace forklift::py
