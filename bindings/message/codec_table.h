// The native codec's two tables: which function encodes the objects of a type, and which one decodes an
// extension. A framework enters its own functions, so the codec knows none of them by name.
//
//   register_decoder(Extension::kTorchTensor, take_tensor);    // when this module is imported
//   register_encoder(tensor_type, encode_tensor);              // when the program has imported the framework
//
// All functions need the interpreter lock.
#pragma once

#include <Python.h>

#include <span>

#include "bindings/message/native.h"

namespace forklift::py {

class Encoder;  // encoder.h

// Appends the object to the message. kUnsupported: pickle is to encode the whole message. `depth`: how many
// containers the object is in.
using EncodeFunction = Encoded (*)(Encoder& encoder, PyObject* object, int depth);
// New reference, or nullptr with an exception set. The payload is data of another process, but nobody can
// change it meanwhile.
using DecodeFunction = PyObject* (*)(std::span<const std::byte> payload, MessageReader& reader);

// From a type to its function: open addressing over the type's address.
struct EncoderTable {
  static constexpr std::size_t kPlaces = 128;
  // Keeps the searches short, and at least one place free, where they end.
  static constexpr std::size_t kMostTypes = kPlaces / 2;
  struct Entry {
    PyTypeObject* type;  // null: free
    EncodeFunction encode;
  };
  // The type's entry, or the free one where it would be.
  Entry& place_of(PyTypeObject* type) noexcept {
    // The upper seven bits of a product are well mixed.
    std::size_t at = (reinterpret_cast<std::uintptr_t>(type) >> 4) * 0x9e3779b97f4a7c15ULL >> 57;
    while (entries[at].type != type && entries[at].type) at = (at + 1) % kPlaces;
    return entries[at];
  }
  Entry entries[kPlaces];
  std::size_t types;
};
inline constinit EncoderTable encoder_table{};
// For a type without an entry. Where its base is entered with its subclasses, the type gets an entry of its
// own.
EncodeFunction look_up_encoder(PyTypeObject* type);

// For objects of exactly this type, which is kept alive.
void register_encoder(PyTypeObject* type, EncodeFunction encode);
// For objects of this type and of every class over it.
void register_encoder_of_subclasses(PyTypeObject* type, EncodeFunction encode);
void register_decoder(Extension extension, DecodeFunction decode);

// nullptr: nobody has entered one, and pickle is to encode the object.
inline EncodeFunction find_encoder(PyTypeObject* type) {
  const EncoderTable::Entry& entry = encoder_table.place_of(type);
  if (entry.type) [[likely]]
    return entry.encode;
  return look_up_encoder(type);
}
// nullptr: no extension of ours.
DecodeFunction find_decoder(Extension extension) noexcept;

// What add_native_codec() enters, one function for each file.
void register_builtin_encoders();
void register_builtin_decoders();
void register_array_decoders();
void register_frozen_codec();
// When the program has imported NumPy.
void register_array_encoder(PyTypeObject* array_type);

}  // namespace forklift::py
