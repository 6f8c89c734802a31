#include "bindings/message/reducer_table.h"

#include <array>

namespace forklift::py {

namespace {

constexpr std::size_t kDicts = 3;

struct TableObject {
  PyObject ob_base;
  std::array<PyObject*, kDicts> dicts;
  PyObject* preferred;
  PyObject* find;
};

TableObject* table_of(PyObject* self) noexcept { return reinterpret_cast<TableObject*>(self); }

int table_traverse(PyObject* self, visitproc visit, void* arg) {
  TableObject* table = table_of(self);
  Py_VISIT(Py_TYPE(self));
  for (PyObject* dict : table->dicts) Py_VISIT(dict);
  Py_VISIT(table->preferred);
  Py_VISIT(table->find);
  return 0;
}

int table_clear(PyObject* self) {
  TableObject* table = table_of(self);
  for (PyObject*& dict : table->dicts) Py_CLEAR(dict);
  Py_CLEAR(table->preferred);
  Py_CLEAR(table->find);
  return 0;
}

void table_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  table_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* table_new(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  std::array<PyObject*, kDicts> dicts{};
  PyObject* preferred = nullptr;
  PyObject* find = nullptr;
  if (named && PyDict_GET_SIZE(named) != 0) {
    PyErr_SetString(PyExc_TypeError, "_ReducerTable takes no named arguments");
    return nullptr;
  }
  if (!PyArg_ParseTuple(arguments, "O!O!O!O!O:_ReducerTable", &PyDict_Type, dicts.data(), &PyDict_Type,
                        &dicts[1], &PyDict_Type, &dicts[2], &PyDict_Type, &preferred, &find))
    return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  TableObject* table = table_of(self);
  for (std::size_t i = 0; i < kDicts; ++i) table->dicts[i] = Py_NewRef(dicts[i]);
  table->preferred = Py_NewRef(preferred);
  table->find = Py_NewRef(find);
  return self;
}

// Does the class have __dlpack__? One whose attribute lookup fails has not.
bool lends(PyObject* kind) noexcept {
  static PyObject* const name = PyUnicode_InternFromString("__dlpack__");
  PyObject* found = PyObject_GetAttr(kind, name);
  if (!found) {
    PyErr_Clear();
    return false;
  }
  Py_DECREF(found);
  return true;
}

// New reference. nullptr: there is none (no exception), or the lookup failed.
PyObject* look_up(const TableObject& table, PyObject* kind) {
  PyObject* reducer = nullptr;  // borrowed
  for (PyObject* dict : table.dicts) {
    reducer = PyDict_GetItemWithError(dict, kind);
    if (reducer == Py_None) reducer = nullptr;
    if (reducer) break;
    if (PyErr_Occurred()) return nullptr;
  }
  if (PyDict_GET_SIZE(table.preferred) != 0) {
    PyObject* both = PyDict_GetItemWithError(table.preferred, kind);
    if (!both && PyErr_Occurred()) return nullptr;
    PyObject* instead_of = reducer ? reducer : Py_None;
    if (both && PyTuple_Check(both) && PyTuple_GET_SIZE(both) == 2 && PyTuple_GET_ITEM(both, 0) == instead_of)
      return Py_NewRef(PyTuple_GET_ITEM(both, 1));
  }
  if (reducer) return Py_NewRef(reducer);
  if (!lends(kind)) return nullptr;
  PyObject* found = PyObject_CallOneArg(table.find, kind);
  if (found == Py_None) {
    Py_DECREF(found);
    return nullptr;
  }
  return found;
}

PyObject* table_subscript(PyObject* self, PyObject* kind) {
  PyObject* reducer = look_up(*table_of(self), kind);
  if (!reducer && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, kind);
  return reducer;
}

}  // namespace

int add_reducer_table(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(table_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(table_dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(table_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(table_clear)},
      {Py_mp_subscript, reinterpret_cast<void*>(table_subscript)},
      {0, nullptr},
  };
  static PyType_Spec spec = {"forklift._core._ReducerTable", sizeof(TableObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) return -1;
  const int added = PyModule_AddObjectRef(module, "_ReducerTable", type);
  Py_DECREF(type);
  return added;
}

}  // namespace forklift::py
