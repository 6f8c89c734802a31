#include "bindings/core/block.h"

#include <algorithm>
#include <new>
#include <utility>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/message/numpy.h"
#include "bindings/message/pickling.h"
#include "node/node.h"

namespace forklift::py {

namespace {

struct BlockObject {
  PyObject ob_base;
  arena::LeasePtr lease;
  std::byte* data;
  Py_ssize_t length;
  Py_ssize_t exports;
  bool writable;
  BlockMode mode;
};

PyTypeObject* block_type = nullptr;

BlockObject* as_block(PyObject* self) noexcept { return reinterpret_cast<BlockObject*>(self); }

void block_dealloc(PyObject* self) {
  BlockObject* block = as_block(self);
  PyTypeObject* type = Py_TYPE(self);
  arena::LeasePtr lease = std::move(block->lease);
  block->lease.~shared_ptr();
  type->tp_free(self);
  Py_DECREF(type);
  if (!lease) return;
  // Dropping the lease may wait for the arena's lock and call the kernel, so other threads run meanwhile. An
  // exception that is set stays in this thread's state and need not be saved.
  GilRelease released;
  lease.reset();
}

int block_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  BlockObject* block = as_block(self);
  if (!block->lease) {
    PyErr_SetString(PyExc_BufferError, "this memory was sent away");
    view->obj = nullptr;
    return -1;
  }
  const int done = PyBuffer_FillInfo(view, self, block->data, block->length, block->writable ? 0 : 1, flags);
  if (done == 0) ++block->exports;
  return done;
}

void block_releasebuffer(PyObject* self, Py_buffer*) { --as_block(self)->exports; }

Py_ssize_t block_length(PyObject* self) { return as_block(self)->length; }

// Of heap.BufferWrapper, whose place a Block takes beneath a shared value.
PyObject* block_memoryview(PyObject* self, PyObject*) { return PyMemoryView_FromObject(self); }

PyObject* block_get_mode(PyObject* self, void*) {
  return PyLong_FromLong(static_cast<long>(block_mode(self)));
}

// Inside a message, a shared or frozen block pickles as a handle. In all other cases a block pickles only
// among the arguments of a child that is being started.
PyObject* block_reduce(PyObject* self, PyObject*) {
  const BlockMode mode = block_mode(self);
  MessageWriter* writer = current_message();
  if (writer && mode != BlockMode::kPlain) {
    PyObject* rebuild = import_attribute("forklift.reducers", "take_block");
    if (!rebuild) return nullptr;
    return Py_BuildValue("N(II)", rebuild, static_cast<unsigned>(place_block(self, writer->message)),
                         static_cast<unsigned>(mode));
  }
  PyObject* offer = import_attribute("forklift.reducers", "offer_block");
  PyObject* reduced = offer ? PyObject_CallOneArg(offer, self) : nullptr;
  Py_XDECREF(offer);
  return reduced;
}

// _offer(slot, generation): enters the child as a holder and returns the arguments of its claim_block() call.
PyObject* block_offer(PyObject* self, PyObject* arguments) {
  domain::SlotRef child;
  if (!PyArg_ParseTuple(arguments, "II:_offer", &child.index, &child.generation)) return nullptr;
  const arena::LeasePtr lease = block_lease(self);
  if (!lease) {
    PyErr_SetString(PyExc_ValueError, "this memory was sent away");
    return nullptr;
  }
  GilRelease released;
  const Result<arena::Handle> handle = lease->arena().offer(lease, child);
  released.acquire();
  if (!handle) return raise(handle.status());
  return Py_BuildValue("(IIIKKII)", handle->block, handle->generation, handle->lease,
                       static_cast<unsigned long long>(handle->offset),
                       static_cast<unsigned long long>(handle->length),
                       static_cast<unsigned>(block_mode(self)), handle->segment);
}

PyObject* claim_block(PyObject*, PyObject* arguments) {
  arena::Handle handle;
  unsigned long long offset = 0;
  unsigned long long length = 0;
  unsigned mode = 0;
  if (!PyArg_ParseTuple(arguments, "IIIKKI|I:claim_block", &handle.block, &handle.generation, &handle.lease,
                        &offset, &length, &mode, &handle.segment)) {
    return nullptr;
  }
  handle.offset = offset;
  handle.length = length;
  if (mode > static_cast<unsigned>(BlockMode::kFrozen)) return corrupt_message("a block of unknown mode");
  GilRelease released;
  node::Node* node = node::Node::existing();
  Result<arena::LeasePtr> lease =
      node
          ? node->arena().claim(handle)
          : Result<arena::LeasePtr>(Code::kNotAttached, "this process was not started by the memory's owner");
  if (lease) {
    if (Status opened = node->arena().open_memory(**lease); !opened) lease = std::move(opened);
  }
  released.acquire();
  if (!lease) return raise(lease.status());
  const auto how = static_cast<BlockMode>(mode);
  return make_block(*std::move(lease), 0, length, how != BlockMode::kFrozen, how);
}

// allocate(bytes, mode, zeroed=True)
PyObject* allocate(PyObject*, PyObject* arguments) {
  Py_ssize_t bytes = 0;
  unsigned mode = 0;
  int zeroed = 1;
  if (!PyArg_ParseTuple(arguments, "nI|p:allocate", &bytes, &mode, &zeroed)) return nullptr;
  if (bytes < 0 || mode > static_cast<unsigned>(BlockMode::kFrozen)) {
    PyErr_SetString(PyExc_ValueError, "allocate() of a negative size or of an unknown mode");
    return nullptr;
  }
  return new_block(static_cast<std::size_t>(bytes), static_cast<BlockMode>(mode), arena::Kind::kShare,
                   zeroed != 0);
}

PyObject* take_block_of_message(PyObject*, PyObject* arguments) {
  unsigned lease = 0;
  unsigned char mode = 0;
  if (!PyArg_ParseTuple(arguments, "Ib:_take_block", &lease, &mode)) return nullptr;
  MessageReader* reader = current_reader();
  if (!reader) {
    PyErr_SetString(PyExc_TypeError, "the name of shared memory means nothing outside of its message");
    return nullptr;
  }
  return take_block(*reader, lease, mode);
}

PyObject* block_under_array(PyObject*, PyObject* array) {
  const NumPy* numpy = NumPy::loaded();
  PyObject* block = numpy && numpy->is_array(array) ? block_under(array) : nullptr;
  return Py_NewRef(block ? block : Py_None);
}

PyObject* block_address(PyObject*, PyObject* block) {
  if (!is_block(block)) {
    PyErr_SetString(PyExc_TypeError, "block_address() takes a Block");
    return nullptr;
  }
  return PyLong_FromVoidPtr(as_block(block)->data);
}

// Makes the block frozen. Only freeze() calls this, after it has filled the block that it allocated.
PyObject* block_seal(PyObject* self, PyObject*) {
  as_block(self)->writable = false;
  as_block(self)->mode = BlockMode::kFrozen;
  Py_RETURN_NONE;
}

}  // namespace

PyObject* make_block(arena::LeasePtr lease, std::size_t offset, std::size_t length, bool writable,
                     BlockMode mode) {
  auto* block = reinterpret_cast<BlockObject*>(block_type->tp_alloc(block_type, 0));
  if (!block) return nullptr;
  block->data = lease->data() + offset;
  block->length = static_cast<Py_ssize_t>(length);
  block->exports = 0;
  block->writable = writable;
  block->mode = mode;
  new (&block->lease) arena::LeasePtr(std::move(lease));
  return reinterpret_cast<PyObject*>(block);
}

bool is_block(PyObject* object) noexcept { return Py_TYPE(object) == block_type; }
BlockMode block_mode(PyObject* block) noexcept { return as_block(block)->mode; }
const arena::LeasePtr& block_lease(PyObject* block) noexcept { return as_block(block)->lease; }
bool block_is_exported(PyObject* block) noexcept { return as_block(block)->exports != 0; }
arena::LeasePtr empty_block(PyObject* block) noexcept {
  as_block(block)->data = nullptr;
  as_block(block)->length = 0;
  return std::move(as_block(block)->lease);
}
void refill_block(PyObject* block, arena::LeasePtr lease) noexcept {
  as_block(block)->data = lease->data();
  as_block(block)->length = static_cast<Py_ssize_t>(lease->size());
  as_block(block)->lease = std::move(lease);
}

PyObject* block_under(PyObject* array) noexcept {
  PyTypeObject* const array_type = Py_TYPE(array);
  PyObject* base = head_of(array).base;
  // NumPy collapses chains of views, so few steps reach the array that refers to the block.
  for (int i = 0; i < 8 && base && Py_TYPE(base) == array_type; ++i) base = head_of(base).base;
  if (!base || !is_block(base) || block_mode(base) == BlockMode::kPlain || !block_lease(base)) return nullptr;
  return base;
}

std::uint32_t place_block(PyObject* block, message::MessageBuilder& message) {
  return message.note_share(block_lease(block));
}

PyObject* take_block(MessageReader& reader, std::uint32_t lease, std::uint8_t mode) {
  auto& leases = reader.message.leases();
  if (mode != static_cast<std::uint8_t>(BlockMode::kShared) &&
      mode != static_cast<std::uint8_t>(BlockMode::kFrozen)) {
    return corrupt_message("shared memory of an unknown mode");
  }
  if (lease >= leases.size() || !leases[lease] || leases[lease]->kind() != arena::Kind::kShare ||
      leases[lease]->data() == nullptr) {
    return corrupt_message("it refers to shared memory that it does not have");
  }
  const std::size_t length = leases[lease]->size();
  const auto how = static_cast<BlockMode>(mode);
  return make_block(std::move(leases[lease]), 0, length, how != BlockMode::kFrozen, how);
}

PyObject* new_block(std::size_t bytes, BlockMode mode, arena::Kind kind, bool zeroed) {
  const std::size_t length = std::max<std::size_t>(bytes, 1);
  GilRelease released;
  const Result<node::Node*> node = node::Node::current();
  Result<arena::LeasePtr> lease =
      node ? (*node)->arena().allocate(kind, length, zeroed) : Result<arena::LeasePtr>(node.status());
  released.acquire();
  if (!lease) return raise(lease.status());
  return make_block(*std::move(lease), 0, bytes, mode != BlockMode::kFrozen, mode);
}

int add_block_type(PyObject* module) {
  static PyMethodDef methods[] = {
      {"__reduce__", block_reduce, METH_NOARGS, nullptr},
      {"_offer", block_offer, METH_VARARGS, nullptr},
      {"_seal", block_seal, METH_NOARGS, nullptr},
      {"create_memoryview", block_memoryview, METH_NOARGS,
       "A view of the whole memory, which keeps it alive."},
      {nullptr, nullptr, 0, nullptr},
  };
  static PyGetSetDef attributes[] = {
      {"mode", block_get_mode, nullptr, "0 plain, 1 shared, 2 frozen.", nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(block_dealloc)},
      {Py_bf_getbuffer, reinterpret_cast<void*>(block_getbuffer)},
      {Py_bf_releasebuffer, reinterpret_cast<void*>(block_releasebuffer)},
      {Py_sq_length, reinterpret_cast<void*>(block_length)},
      {Py_tp_methods, methods},
      {Py_tp_getset, attributes},
      {Py_tp_doc, const_cast<char*>("Memory that processes share. Supports the buffer protocol.")},
      {0, nullptr},
  };
  static PyType_Spec spec = {"forklift._core.Block", sizeof(BlockObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  static PyMethodDef functions[] = {
      {"allocate", allocate, METH_VARARGS, nullptr},
      {"claim_block", claim_block, METH_VARARGS, nullptr},
      {"_take_block", take_block_of_message, METH_VARARGS, nullptr},
      {"block_under", block_under_array, METH_O, nullptr},
      {"block_address", block_address, METH_O, nullptr},
      {nullptr, nullptr, 0, nullptr},
  };
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) return -1;
  block_type = reinterpret_cast<PyTypeObject*>(type);
  if (PyModule_AddFunctions(module, functions) != 0) return -1;
  return PyModule_AddObjectRef(module, "Block", type);
}

}  // namespace forklift::py
