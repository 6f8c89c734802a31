#include "block.h"

#include <new>
#include <utility>

#include "gil.h"

namespace forklift::py {

namespace {

struct BlockObject {
  PyObject ob_base;
  arena::LeasePtr lease;
  std::byte* data;
  Py_ssize_t length;
  bool writable;
};

PyTypeObject* block_type = nullptr;

void block_dealloc(PyObject* self) {
  auto* block = reinterpret_cast<BlockObject*>(self);
  PyTypeObject* type = Py_TYPE(self);
  arena::LeasePtr lease = std::move(block->lease);
  block->lease.~shared_ptr();
  type->tp_free(self);
  Py_DECREF(type);
  // Waits for the arena's lock, perhaps for the kernel: others run meanwhile. An exception that is being
  // handled stays where it is, in the thread's state.
  GilRelease released;
  lease.reset();
}

int block_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  auto* block = reinterpret_cast<BlockObject*>(self);
  return PyBuffer_FillInfo(view, self, block->data, block->length, block->writable ? 0 : 1, flags);
}

Py_ssize_t block_length(PyObject* self) { return reinterpret_cast<BlockObject*>(self)->length; }

}  // namespace

PyObject* make_block(arena::LeasePtr lease, std::size_t offset, std::size_t length, bool writable) {
  auto* block = reinterpret_cast<BlockObject*>(block_type->tp_alloc(block_type, 0));
  if (!block) return nullptr;
  block->data = lease->data() + offset;
  block->length = static_cast<Py_ssize_t>(length);
  block->writable = writable;
  new (&block->lease) arena::LeasePtr(std::move(lease));
  return reinterpret_cast<PyObject*>(block);
}

int add_block_type(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(block_dealloc)},
      {Py_bf_getbuffer, reinterpret_cast<void*>(block_getbuffer)},
      {Py_sq_length, reinterpret_cast<void*>(block_length)},
      {Py_tp_doc, const_cast<char*>("Shared memory behind a received array. Supports the buffer protocol.")},
      {0, nullptr},
  };
  static PyType_Spec spec = {"forklift._core.Block", sizeof(BlockObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) return -1;
  block_type = reinterpret_cast<PyTypeObject*>(type);
  return PyModule_AddObjectRef(module, "Block", type);
}

}  // namespace forklift::py
