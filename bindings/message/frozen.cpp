// Reading frozen containers.
#include "bindings/message/frozen.h"

#include <bit>
#include <string>
#include <vector>

#include "bindings/core/block.h"
#include "bindings/core/errors.h"
#include "bindings/message/numpy.h"
#include "bindings/message/pickling.h"
#include "bindings/tensor/tensor.h"
#include "tensor/arena_storage.h"
#include "tensor/copy.h"

namespace forklift::py {

using frozen::Image;
using frozen::Slot;
using frozen::Tag;

namespace {

PyTypeObject* node_type = nullptr;
PyObject* node_classes[3] = {};  // of lists, tuples, dictionaries

PyObject* unreadable() { return raise({Code::kCorrupt, "a frozen structure does not read"}); }

std::size_t class_of(Tag tag) noexcept {
  return static_cast<std::size_t>(tag) - static_cast<std::size_t>(Tag::kList);
}
bool is_container(Tag tag) noexcept { return tag == Tag::kList || tag == Tag::kTuple || tag == Tag::kMap; }

PyObject* new_node(PyObject* block, std::uint64_t offset, const Slot& slot) {
  auto* type = reinterpret_cast<PyTypeObject*>(node_classes[class_of(slot.tag())]);
  if (!type) {
    PyObject* module = PyImport_ImportModule("forklift.objects.frozen");  // registers them
    Py_XDECREF(module);
    type = reinterpret_cast<PyTypeObject*>(node_classes[class_of(slot.tag())]);
    if (!module || !type) return nullptr;
  }
  PyObject* node = type->tp_alloc(type, 0);
  if (!node) return nullptr;
  as_frozen(node)->block = Py_NewRef(block);
  as_frozen(node)->offset = offset;
  as_frozen(node)->slot = slot;
  return node;
}

PyObject* thaw_array(PyObject* block, const Image& image, const Slot& slot) {
  const NumPy* numpy = NumPy::require();
  if (!numpy) return nullptr;
  const Result<wire::TensorMeta> meta = image.array(slot);
  if (!meta) return raise(meta.status());
  const Dims strides = tensor::byte_strides(meta->strides, item_size(meta->dtype));
  // NumPy takes the memory as writable and is then told that it is not.
  auto* memory = const_cast<std::byte*>(image.data()) + meta->byte_offset;
  PyObject* array = numpy->over_strided(memory, meta->dtype, meta->shape, strides, false, Py_NewRef(block));
  if (!array || slot.tag() != Tag::kScalar) return array;
  PyObject* nothing = PyTuple_New(0);
  PyObject* scalar = nothing ? PyObject_GetItem(array, nothing) : nullptr;
  Py_XDECREF(nothing);
  Py_DECREF(array);
  return scalar;
}

PyObject* thaw_foreign(PyObject* block, const Image& image, const Slot& slot) {
  const Result<frozen::Foreign> found = image.foreign(slot);
  if (!found) return raise(found.status());
  PyObject* shape = PyTuple_New(static_cast<Py_ssize_t>(found->shape.size()));
  for (std::size_t i = 0; shape && i < found->shape.size(); ++i) {
    PyTuple_SET_ITEM(shape, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(found->shape[i]));
  }
  PyObject* rebuild = shape ? import_attribute("forklift.reducers", "rebuild_foreign") : nullptr;
  PyObject* array = nullptr;
  if (rebuild) {
    array = PyObject_CallFunction(rebuild, "OOy#K", block, shape, found->descr.data(),
                                  static_cast<Py_ssize_t>(found->descr.size()),
                                  static_cast<unsigned long long>(found->offset));
  }
  Py_XDECREF(rebuild);
  Py_XDECREF(shape);
  return array;
}

PyObject* thaw_text(const Image& image, std::uint64_t offset, const Slot& slot) {
  std::span<const std::byte> bytes;
  if (!image.text(offset, slot, bytes)) return unreadable();
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const auto count = static_cast<Py_ssize_t>(bytes.size());
  if (slot.tag() == Tag::kString) return PyUnicode_DecodeUTF8(text, count, "surrogatepass");
  if (slot.tag() == Tag::kBytes) return PyBytes_FromStringAndSize(text, count);
  return PyLong_FromString(std::string(text, bytes.size()).c_str(), nullptr, 16);
}

// Where the i-th item's slot lies; i may count from the end. False with IndexError or CorruptError set.
bool find_item(FrozenObject& node, Py_ssize_t i, unsigned part, std::uint64_t& offset) {
  const auto length = static_cast<Py_ssize_t>(node.slot.length());
  if (i < 0) i += length;
  if (i < 0 || i >= length) {
    PyErr_SetString(PyExc_IndexError, "index out of range");
    return false;
  }
  const Image image = image_of(node.block);
  const auto index = static_cast<std::uint64_t>(i);
  const bool found = node.slot.tag() == Tag::kMap ? image.entry(node.slot, index, part, offset)
                                                  : image.item(node.slot, index, offset);
  if (!found) unreadable();
  return found;
}

PyObject* get_item(PyObject* self, Py_ssize_t i, unsigned part) {
  std::uint64_t offset = 0;
  if (!find_item(*as_frozen(self), i, part, offset)) return nullptr;
  return thaw_slot(as_frozen(self)->block, offset);
}

// The entry of an equal key: its number, -1 for none, -2 with an exception set.
Py_ssize_t find_key(PyObject* self, PyObject* key) {
  FrozenObject& node = *as_frozen(self);
  std::uint64_t hash = 0;
  if (!key_hash(key, hash)) {
    if (PyErr_Occurred()) return -2;
    return PyObject_Hash(key) == -1 ? -2 : -1;  // TypeError for an unhashable key, as from a dict
  }
  bool failed = false;
  const Image image = image_of(node.block);
  const std::optional<std::uint64_t> found = image.find(node.slot, hash, [&](std::uint64_t i) {
    PyObject* candidate = get_item(self, static_cast<Py_ssize_t>(i), 0);
    const int equal = candidate ? PyObject_RichCompareBool(candidate, key, Py_EQ) : -1;
    Py_XDECREF(candidate);
    failed = failed || equal < 0;
    return equal != 0;
  });
  if (failed) return -2;
  return found ? static_cast<Py_ssize_t>(*found) : -1;
}

void node_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject* block = as_frozen(self)->block;
  type->tp_free(self);
  Py_XDECREF(block);
  Py_DECREF(type);
}

Py_ssize_t node_length(PyObject* self) { return static_cast<Py_ssize_t>(as_frozen(self)->slot.length()); }

PyObject* node_item(PyObject* self, Py_ssize_t i) { return get_item(self, i, 0); }

PyObject* get_slice(PyObject* self, PyObject* key) {
  Py_ssize_t start = 0;
  Py_ssize_t stop = 0;
  Py_ssize_t step = 0;
  if (PySlice_Unpack(key, &start, &stop, &step) < 0) return nullptr;
  const Py_ssize_t count = PySlice_AdjustIndices(node_length(self), &start, &stop, step);
  PyObject* list = PyList_New(count);
  for (Py_ssize_t i = 0; list && i < count; ++i) {
    PyObject* item = get_item(self, start + i * step, 0);
    if (item) {
      PyList_SET_ITEM(list, i, item);
    } else {
      Py_CLEAR(list);
    }
  }
  if (!list || as_frozen(self)->slot.tag() == Tag::kList) return list;
  PyObject* tuple = PyList_AsTuple(list);
  Py_DECREF(list);
  return tuple;
}

PyObject* node_subscript(PyObject* self, PyObject* key) {
  if (as_frozen(self)->slot.tag() == Tag::kMap) {
    const Py_ssize_t entry = find_key(self, key);
    if (entry >= 0) return get_item(self, entry, 1);
    if (entry == -1) PyErr_SetObject(PyExc_KeyError, key);
    return nullptr;
  }
  if (PySlice_Check(key)) return get_slice(self, key);
  const Py_ssize_t i = PyNumber_AsSsize_t(key, PyExc_IndexError);
  return i == -1 && PyErr_Occurred() ? nullptr : get_item(self, i, 0);
}

// _entry(i, part): of a dictionary, the i-th key (0) or value (1).
PyObject* node_entry(PyObject* self, PyObject* arguments) {
  Py_ssize_t i = 0;
  unsigned part = 0;
  if (!PyArg_ParseTuple(arguments, "nI:_entry", &i, &part)) return nullptr;
  return get_item(self, i, part & 1U);
}

// _find(key): the number of its entry, or -1.
PyObject* node_find(PyObject* self, PyObject* key) {
  const Py_ssize_t entry = find_key(self, key);
  return entry == -2 ? nullptr : PyLong_FromSsize_t(entry);
}

PyObject* node_block(PyObject* self, void*) { return Py_NewRef(as_frozen(self)->block); }
PyObject* node_offset(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(as_frozen(self)->offset); }

PyObject* set_classes(PyObject*, PyObject* arguments) {
  PyObject* given[3] = {};
  if (!PyArg_ParseTuple(arguments, "OOO:_set_frozen_classes", &given[0], &given[1], &given[2]))
    return nullptr;
  for (int i = 0; i < 3; ++i) {
    if (!PyType_Check(given[i]) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(given[i]), node_type)) {
      PyErr_SetString(PyExc_TypeError, "classes over FrozenNode are needed");
      return nullptr;
    }
  }
  for (int i = 0; i < 3; ++i) Py_XSETREF(node_classes[i], Py_NewRef(given[i]));
  Py_RETURN_NONE;
}

// _open_frozen(block, offset)
PyObject* open_from_python(PyObject*, PyObject* arguments) {
  PyObject* block = nullptr;
  unsigned long long offset = 0;
  if (!PyArg_ParseTuple(arguments, "OK:_open_frozen", &block, &offset)) return nullptr;
  if (!is_block(block)) {
    PyErr_SetString(PyExc_TypeError, "a Block is needed");
    return nullptr;
  }
  return open_frozen(Py_NewRef(block), offset);
}

// _frozen_over(tensor): the structure in a tensor's block, which came from elsewhere.
PyObject* frozen_over(PyObject*, PyObject* object) {
  if (!is_tensor(object)) {
    PyErr_SetString(PyExc_TypeError, "a forklift.Tensor is needed");
    return nullptr;
  }
  const Tensor& tensor = tensor_of(object);
  const arena::LeasePtr* lease = tensor.storage() ? tensor::share_lease(*tensor.storage()) : nullptr;
  if (!lease || tensor.byte_offset() != 0) {
    PyErr_SetString(PyExc_ValueError, "this is no whole block of shared memory");
    return nullptr;
  }
  PyObject* block = make_block(*lease, 0, (*lease)->size(), false, BlockMode::kFrozen);
  return block ? open_frozen(block, frozen::kRootOffset) : nullptr;
}

PyObject* in_message(PyObject*, PyObject*) { return PyBool_FromLong(current_message() ? 1 : 0); }

}  // namespace

Utf8::Utf8(PyObject* text) {
  if (PyUnicode_IS_COMPACT_ASCII(text)) {
    bytes_ = {static_cast<const std::byte*>(PyUnicode_DATA(text)),
              static_cast<std::size_t>(PyUnicode_GET_LENGTH(text))};
    ok_ = true;
    return;
  }
  encoded_ = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
  ok_ = encoded_ != nullptr;
  if (ok_) bytes_ = bytes_object(encoded_);
}

bool key_hash(PyObject* key, std::uint64_t& hash) {
  if (key == Py_None) {
    hash = frozen::hash_null();
  } else if (PyUnicode_Check(key)) {
    const Utf8 text(key);
    if (!text.ok()) return false;
    hash = frozen::hash_text(Tag::kString, text.bytes());
  } else if (PyBytes_Check(key)) {
    hash = frozen::hash_text(Tag::kBytes, bytes_object(key));
  } else if (PyFloat_Check(key)) {
    hash = frozen::hash_real(PyFloat_AS_DOUBLE(key));
  } else if (PyLong_Check(key)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(key, &overflow);
    double nearest = 0.0;
    if (overflow != 0) {
      nearest = PyLong_AsDouble(key);
      if (nearest == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();  // too large for a double
        nearest = overflow > 0 ? 0x1p1023 : -0x1p1023;
      }
    }
    hash = overflow != 0 ? frozen::hash_real(nearest) : frozen::hash_integer(value);
  } else if (PyTuple_Check(key) || (is_frozen(key) && as_frozen(key)->slot.tag() == Tag::kTuple)) {
    const Py_ssize_t count = PyObject_Size(key);
    std::vector<std::uint64_t> items(static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* item = PySequence_GetItem(key, i);
      const bool done = item && key_hash(item, items[static_cast<std::size_t>(i)]);
      Py_XDECREF(item);
      if (!done) return false;
    }
    hash = frozen::hash_tuple(items);
  } else {
    // A NumPy integer, say, that equals one of ours.
    PyObject* number = PyNumber_Check(key) && !PyComplex_Check(key) ? PyNumber_Float(key) : nullptr;
    if (!number) {
      PyErr_Clear();
      return false;
    }
    hash = frozen::hash_real(PyFloat_AS_DOUBLE(number));
    Py_DECREF(number);
  }
  return true;
}

PyTypeObject* frozen_type() noexcept { return node_type; }

Image image_of(PyObject* block) noexcept {
  const arena::LeasePtr& lease = block_lease(block);
  return lease ? Image(lease->data(), lease->size()) : Image(nullptr, 0);
}

PyObject* thaw_slot(PyObject* block, std::uint64_t offset) {
  const Image image = image_of(block);
  Slot slot;
  if (!image.load(offset, slot)) return unreadable();
  switch (slot.tag()) {
    case Tag::kNull: Py_RETURN_NONE;
    case Tag::kBool: return PyBool_FromLong(slot.body != 0 ? 1 : 0);
    case Tag::kInt: return PyLong_FromLongLong(static_cast<long long>(slot.body));
    case Tag::kReal: return PyFloat_FromDouble(std::bit_cast<double>(slot.body));
    case Tag::kString:
    case Tag::kBytes:
    case Tag::kBigInt: return thaw_text(image, offset, slot);
    case Tag::kList:
    case Tag::kTuple:
    case Tag::kMap: return new_node(block, offset, slot);
    case Tag::kArray:
    case Tag::kScalar: return thaw_array(block, image, slot);
    case Tag::kForeign: return thaw_foreign(block, image, slot);
    case Tag::kComplex: {
      double re = 0.0;
      double im = 0.0;
      return image.complex(slot, re, im) ? PyComplex_FromDoubles(re, im) : unreadable();
    }
  }
  return unreadable();
}

PyObject* open_frozen(PyObject* block, std::uint64_t offset) {
  const Image image = image_of(block);
  Slot slot;
  PyObject* node = nullptr;
  if (block_mode(block) == BlockMode::kFrozen && image.valid() && image.load(offset, slot) &&
      is_container(slot.tag())) {
    node = new_node(block, offset, slot);
  } else {
    raise({Code::kCorrupt, "this memory holds no frozen structure"});
  }
  Py_DECREF(block);
  return node;
}

int add_frozen_type(PyObject* module) {
  static PyMethodDef methods[] = {
      {"_entry", node_entry, METH_VARARGS, nullptr},
      {"_find", node_find, METH_O, nullptr},
      {nullptr, nullptr, 0, nullptr},
  };
  static PyGetSetDef attributes[] = {
      {"_block", node_block, nullptr, nullptr, nullptr},
      {"_offset", node_offset, nullptr, nullptr, nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
      {Py_sq_length, reinterpret_cast<void*>(node_length)},
      {Py_mp_length, reinterpret_cast<void*>(node_length)},
      {Py_sq_item, reinterpret_cast<void*>(node_item)},
      {Py_mp_subscript, reinterpret_cast<void*>(node_subscript)},
      {Py_tp_methods, methods},
      {Py_tp_getset, attributes},
      {0, nullptr},
  };
  static PyType_Spec spec = {"forklift._core.FrozenNode", sizeof(FrozenObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             slots};
  static PyMethodDef functions[] = {
      {"freeze_container", freeze_container, METH_O, nullptr},
      {"_set_frozen_classes", set_classes, METH_VARARGS, nullptr},
      {"_open_frozen", open_from_python, METH_VARARGS, nullptr},
      {"_frozen_over", frozen_over, METH_O, nullptr},
      {"in_message", in_message, METH_NOARGS, nullptr},
      {nullptr, nullptr, 0, nullptr},
  };
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) return -1;
  node_type = reinterpret_cast<PyTypeObject*>(type);
  if (PyModule_AddFunctions(module, functions) != 0) return -1;
  return PyModule_AddObjectRef(module, "FrozenNode", type);
}

}  // namespace forklift::py
