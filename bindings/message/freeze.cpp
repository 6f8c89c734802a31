// Making frozen containers: one walk under the interpreter lock that writes everything but the arrays'
// elements into private memory, then, without the lock, the block and the copies.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "bindings/core/block.h"
#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/core/stats.h"
#include "bindings/message/frozen.h"
#include "bindings/message/numpy.h"
#include "bindings/tensor/tensor.h"
#include "node/node.h"
#include "tensor/copy.h"
#include "tensor/extent.h"

namespace forklift::py {

using frozen::Slot;
using frozen::Tag;

namespace {

class Freezer {
 public:
  Freezer() = default;
  ~Freezer() {
    for (PyObject* object : keep_) Py_DECREF(object);
  }
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;

  // The block, or nullptr with an exception set.
  PyObject* freeze(PyObject* object) {
    Slot root;
    if (!value(object, root)) return nullptr;
    builder_.finish(root);
    PyObject* block = new_block(builder_.total(), BlockMode::kFrozen, arena::Kind::kShare, false);
    if (!block) return nullptr;
    std::byte* out = block_lease(block)->data();
    GilRelease released;
    std::memcpy(out, builder_.image().data(), builder_.image().size());
    for (const Elements& array : arrays_) copy(array, out + builder_.array_offset(array.number));
    count_block_bytes(builder_.total());
    return block;
  }

 private:
  // Elements that are copied at the end; their owner is kept meanwhile.
  struct Elements {
    const void* data;
    Dims shape;
    Dims strides;  // in bytes
    std::size_t item;
    Order order;
    std::size_t number;
  };
  static void copy(const Elements& array, std::byte* to) {
    const bool none = std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end();
    if (none || array.item == 0) return;
    tensor::copy_strided(to, array.data, array.strides, array.shape, array.item, array.order);
  }

  bool value(PyObject* object, Slot& slot);
  bool container(PyObject* object, Slot& slot);
  bool sequence(PyObject* object, Tag tag, Slot& slot);
  bool dictionary(PyObject* object, Slot& slot);
  bool frozen(PyObject* object, Slot& slot);
  bool integer(PyObject* object, Slot& slot);
  bool array(PyObject* object, bool scalar, Slot& slot);
  bool foreign(PyObject* object, const Dims& shape, const Dims& strides, Slot& slot);
  bool text(PyObject* object, Slot& slot);

  void keep(PyObject* object) { keep_.push_back(Py_NewRef(object)); }
  bool changed() {
    PyErr_SetString(PyExc_RuntimeError, ("obj" + path() + " changed while it was frozen").c_str());
    return false;
  }
  bool refuse(PyObject* type, const std::string& what) {
    PyErr_SetString(type, ("obj" + path() + ": " + what).c_str());
    return false;
  }
  // "['a'][3]"
  std::string path() const {
    std::string text;
    for (PyObject* step : path_) {
      PyObject* shown = PyObject_Repr(step);
      const char* utf8 = shown ? PyUnicode_AsUTF8(shown) : nullptr;
      if (!utf8) PyErr_Clear();
      text.append("[").append(utf8 ? utf8 : "?").append("]");
      Py_XDECREF(shown);
    }
    return text;
  }

  frozen::Builder builder_;
  std::vector<Elements> arrays_;
  std::vector<PyObject*> keep_;
  std::vector<PyObject*> path_;  // borrowed: keys and indices on the way to the present object
  std::vector<PyObject*> open_;  // containers on the way
  std::unordered_map<PyObject*, Slot> done_;
};

bool Freezer::text(PyObject* object, Slot& slot) {
  const Utf8 utf8(object);
  if (utf8.ok()) slot = builder_.text(Tag::kString, utf8.bytes());
  return utf8.ok();
}

bool Freezer::integer(PyObject* object, Slot& slot) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) {
    slot = frozen::integer(number);
    return true;
  }
  PyObject* digits = PyNumber_ToBase(object, 16);
  if (!digits) return false;
  const Utf8 utf8(digits);
  slot = builder_.text(Tag::kBigInt, utf8.bytes());
  Py_DECREF(digits);
  return true;
}

bool Freezer::foreign(PyObject* object, const Dims& shape, const Dims& strides, Slot& slot) {
  PyObject* describe = import_attribute("forklift.reducers", "describe_dtype");
  PyObject* described = describe ? PyObject_CallOneArg(describe, head_of(object).dtype) : nullptr;
  Py_XDECREF(describe);
  if (!described) return false;
  PyObject* descr = nullptr;  // None: it holds Python objects
  Py_ssize_t item = 0;
  const bool parsed = PyArg_ParseTuple(described, "On", &descr, &item) != 0;
  bool done = false;
  if (parsed && descr == Py_None) {
    refuse(PyExc_TypeError, "an array of Python objects");
  } else if (parsed) {
    const Result<std::int64_t> bytes = tensor::byte_count(shape, static_cast<std::size_t>(item));
    if (!bytes) {
      raise(bytes.status());
    } else {
      Elements elements{head_of(object).data, shape, strides, static_cast<std::size_t>(item), Order::kC, 0};
      slot =
          builder_.foreign(shape, static_cast<std::uint64_t>(*bytes), bytes_object(descr), elements.number);
      arrays_.push_back(std::move(elements));
      done = true;
    }
  }
  Py_DECREF(described);
  return done;
}

bool Freezer::array(PyObject* object, bool scalar, Slot& slot) {
  const ArrayHead& head = head_of(object);
  const auto ndim = static_cast<std::size_t>(head.ndim);
  if (ndim > kMaxDims) return refuse(PyExc_TypeError, "an array of more than 64 dimensions");
  keep(object);
  Dims shape(DimSpan(reinterpret_cast<const std::int64_t*>(head.shape), ndim));
  Dims strides(DimSpan(reinterpret_cast<const std::int64_t*>(head.strides), ndim));
  const std::uint8_t code = NumPy::loaded()->dtype_code(head);
  if (code == 0) {
    if (scalar) return refuse(PyExc_TypeError, "a NumPy scalar of another kind than numbers");
    return foreign(object, shape, strides, slot);
  }
  wire::TensorMeta meta;
  meta.dtype = static_cast<DType>(code);
  meta.readonly = true;
  const bool fortran = (head.flags & kArrayC) == 0 && (head.flags & kArrayFortran) != 0;
  meta.shape = shape;
  meta.strides = fortran ? f_strides(shape) : c_strides(shape);
  Elements elements{
      head.data, std::move(shape), std::move(strides), item_size(meta.dtype), fortran ? Order::kF : Order::kC,
      0};
  slot = builder_.array(meta, scalar, elements.number);
  arrays_.push_back(std::move(elements));
  return true;
}

bool Freezer::sequence(PyObject* object, Tag tag, Slot& slot) {
  const auto count = static_cast<std::uint64_t>(PySequence_Fast_GET_SIZE(object));
  const std::uint64_t items = builder_.slots(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (static_cast<std::uint64_t>(PySequence_Fast_GET_SIZE(object)) != count) return changed();
    PyObject* item = Py_NewRef(PySequence_Fast_GET_ITEM(object, static_cast<Py_ssize_t>(i)));
    PyObject* step = nullptr;
    Slot made;
    // The index becomes an object only for items that may fail, whose error names the path to them.
    const bool plain = PyUnicode_CheckExact(item) || PyFloat_CheckExact(item) || PyBytes_CheckExact(item);
    if (!plain) step = PyLong_FromUnsignedLongLong(i);
    if (step) path_.push_back(step);
    const bool done = value(item, made);
    if (step) path_.pop_back();
    Py_XDECREF(step);
    Py_DECREF(item);
    if (!done) return false;
    builder_.set(items + i * sizeof(Slot), made);
  }
  slot = frozen::make_slot(tag, count, items);
  return true;
}

bool Freezer::dictionary(PyObject* object, Slot& slot) {
  const auto count = static_cast<std::uint64_t>(PyDict_GET_SIZE(object));
  if (count > frozen::kMostEntries) return refuse(PyExc_ValueError, "a dictionary of more than 2^30 entries");
  const std::uint64_t pairs = builder_.pairs(count);
  std::vector<std::uint64_t> hashes(count);
  PyObject* key = nullptr;
  PyObject* item = nullptr;
  Py_ssize_t at = 0;
  std::uint64_t i = 0;
  while (PyDict_Next(object, &at, &key, &item)) {
    if (i == count) return changed();
    path_.push_back(key);
    Py_INCREF(key);
    Py_INCREF(item);
    Slot slots[2];
    bool done = key_hash(key, hashes[i]);
    if (!done && !PyErr_Occurred())
      refuse(PyExc_TypeError, "a key of type " + std::string(Py_TYPE(key)->tp_name));
    done = done && value(key, slots[0]) && value(item, slots[1]);
    path_.pop_back();
    Py_DECREF(key);
    Py_DECREF(item);
    if (!done) return false;
    builder_.set(pairs + 2 * i * sizeof(Slot), slots[0]);
    builder_.set(pairs + (2 * i + 1) * sizeof(Slot), slots[1]);
    ++i;
  }
  if (i != count || static_cast<std::uint64_t>(PyDict_GET_SIZE(object)) != count) return changed();
  builder_.index(pairs, hashes);
  slot = frozen::make_slot(Tag::kMap, count, pairs);
  return true;
}

// A container that another freeze() made is copied, one level at a time.
bool Freezer::frozen(PyObject* object, Slot& slot) {
  PyObject* shallow = PyObject_CallMethod(object, "_shallow", nullptr);
  if (!shallow) return false;
  keep_.push_back(shallow);
  return container(shallow, slot);
}

bool Freezer::container(PyObject* object, Slot& slot) {
  if (const auto found = done_.find(object); found != done_.end()) {
    slot = found->second;
    return true;
  }
  if (std::find(open_.begin(), open_.end(), object) != open_.end()) {
    return refuse(PyExc_ValueError, "it contains itself");
  }
  if (Py_EnterRecursiveCall(" while freezing") != 0) return false;
  open_.push_back(object);
  keep(object);
  bool done = false;
  if (PyDict_CheckExact(object)) {
    done = dictionary(object, slot);
  } else if (is_frozen(object)) {
    done = frozen(object, slot);
  } else {
    done = sequence(object, PyList_CheckExact(object) ? Tag::kList : Tag::kTuple, slot);
  }
  open_.pop_back();
  Py_LeaveRecursiveCall();
  if (done) done_.emplace(object, slot);
  return done;
}

bool Freezer::value(PyObject* object, Slot& slot) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyUnicode_Type) return text(object, slot);
  if (type == &PyLong_Type) return integer(object, slot);
  if (type == &PyFloat_Type) {
    slot = frozen::real(PyFloat_AS_DOUBLE(object));
    return true;
  }
  if (type == &PyBytes_Type) {
    slot = builder_.text(Tag::kBytes, bytes_object(object));
    return true;
  }
  if (object == Py_None || type == &PyBool_Type) {
    slot = object == Py_None ? frozen::null() : frozen::boolean(object == Py_True);
    return true;
  }
  if (type == &PyComplex_Type) {
    slot = builder_.complex(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object));
    return true;
  }
  if (type == &PyList_Type || type == &PyTuple_Type || type == &PyDict_Type || is_frozen(object)) {
    return container(object, slot);
  }
  const NumPy* numpy = NumPy::loaded();
  if (numpy && numpy->is_array(object)) {
    if (const auto found = done_.find(object); found != done_.end()) {
      slot = found->second;
      return true;
    }
    if (!array(object, false, slot)) return false;
    done_.emplace(object, slot);
    return true;
  }
  if (numpy && numpy->is_scalar(object)) {
    PyObject* whole = numpy->as_array(object);
    const bool done = whole && array(whole, true, slot);
    Py_XDECREF(whole);
    return done;
  }
  PyObject* shown = PyObject_Repr(reinterpret_cast<PyObject*>(type));
  const char* name = shown ? PyUnicode_AsUTF8(shown) : nullptr;
  const bool refused = refuse(PyExc_TypeError, std::string(name ? name : "this").append(" cannot be frozen"));
  Py_XDECREF(shown);
  return refused;
}

}  // namespace

// freeze_container(object): a list, tuple or dict.
PyObject* freeze_container(PyObject*, PyObject* object) {
  if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object) && !PyDict_CheckExact(object)) {
    PyErr_SetString(PyExc_TypeError, "freeze_container() takes a list, tuple or dict");
    return nullptr;
  }
  PyObject* block = Freezer().freeze(object);
  return block ? open_frozen(block, frozen::kRootOffset) : nullptr;
}

}  // namespace forklift::py
