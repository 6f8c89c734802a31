#include "bindings/message/codec_table.h"

#include <array>
#include <vector>

#include "bindings/message/numpy.h"

namespace forklift::py {

namespace {

struct Family {
  PyTypeObject* base;
  EncodeFunction encode;
};
std::vector<Family>& families() {
  static auto* const all = new std::vector<Family>;
  return *all;
}

std::array<DecodeFunction, 16> decoders{};

}  // namespace

EncodeFunction look_up_encoder(PyTypeObject* type) {
  // A program may import NumPy at any time; NumPy::loaded() finds it and enters its array.
  if (NumPy::loaded()) {
    if (const EncoderTable::Entry& entry = encoder_table.place_of(type); entry.type) return entry.encode;
  }
  for (const Family& family : families()) {
    if (!PyType_IsSubtype(type, family.base)) continue;
    if (encoder_table.types < EncoderTable::kMostTypes) register_encoder(type, family.encode);
    return family.encode;
  }
  return nullptr;
}

void register_encoder(PyTypeObject* type, EncodeFunction encode) {
  EncoderTable::Entry& entry = encoder_table.place_of(type);
  if (!entry.type) {
    Py_INCREF(type);  // or another type could get its address
    entry.type = type;
    ++encoder_table.types;
  }
  entry.encode = encode;
}

void register_encoder_of_subclasses(PyTypeObject* type, EncodeFunction encode) {
  families().push_back({type, encode});
}

void register_decoder(Extension extension, DecodeFunction decode) {
  decoders[static_cast<std::size_t>(extension)] = decode;
}

void add_native_codec() {
  register_builtin_encoders();
  register_builtin_decoders();
  register_array_decoders();
  register_frozen_codec();
}

DecodeFunction find_decoder(Extension extension) noexcept {
  const auto number = static_cast<std::size_t>(extension);
  return number < decoders.size() ? decoders[number] : nullptr;
}

}  // namespace forklift::py
