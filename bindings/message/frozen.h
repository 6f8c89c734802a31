// Frozen containers: lists, tuples and dictionaries in one block of shared memory, read in place. The bytes
// are message/frozen.h; the classes that programs see (forklift.FrozenList and so on) are
// forklift/objects/frozen.py, over the type here.
//
// All functions need the interpreter lock.
#pragma once

#include <Python.h>

#include "bindings/message/reader.h"
#include "message/frozen.h"

namespace forklift::py {

// A container in a block; its class says which kind.
struct FrozenObject {
  PyObject ob_base;
  PyObject* block;
  std::uint64_t offset;  // of its slot
  frozen::Slot slot;
};

// Their common base.
PyTypeObject* frozen_type() noexcept;
inline bool is_frozen(PyObject* object) noexcept { return PyObject_TypeCheck(object, frozen_type()); }
inline FrozenObject* as_frozen(PyObject* object) noexcept { return reinterpret_cast<FrozenObject*>(object); }
frozen::Image image_of(PyObject* block) noexcept;

// The Python object of what the slot at `offset` holds. New reference, or nullptr with an exception set.
PyObject* thaw_slot(PyObject* block, std::uint64_t offset);
// The container whose slot lies at `offset`, after a check that the block holds one. Steals the block.
PyObject* open_frozen(PyObject* block, std::uint64_t offset);

// The UTF-8 form of a str, lone surrogates included, without storing it in the str.
class Utf8 {
 public:
  explicit Utf8(PyObject* text);
  ~Utf8() { Py_XDECREF(encoded_); }
  Utf8(const Utf8&) = delete;
  Utf8& operator=(const Utf8&) = delete;
  bool ok() const noexcept { return ok_; }  // false: an exception is set
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  PyObject* encoded_ = nullptr;
  std::span<const std::byte> bytes_;
  bool ok_ = false;
};
inline std::span<const std::byte> bytes_object(PyObject* bytes) noexcept {
  return {reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(bytes)),
          static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))};
}

// The hash by which maps are indexed. False without an exception if such an object cannot be a key.
bool key_hash(PyObject* key, std::uint64_t& hash);

// The function freeze_container() of the module: freeze.cpp.
PyObject* freeze_container(PyObject* module, PyObject* object);

int add_frozen_type(PyObject* module);

}  // namespace forklift::py
