#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "bindings/message/codec_table.h"
#include "bindings/message/encoder.h"
#include "bindings/message/native.h"
#include "bindings/message/seen.h"
#include "message/codec.h"

namespace forklift::py {

static_assert(static_cast<std::int8_t>(Extension::kTensor) == message::kTensorExtension);

namespace {

constexpr int kMaxDepth = 8;
constexpr int kMaxNodes = 1000;
// Of a list or tuple. Numbers are no nodes: pickle, too, writes each of them out, however often it occurs.
constexpr Py_ssize_t kMaxItems = 1 << 24;
// From this many items on, runs of numbers are written together.
constexpr Py_ssize_t kManyItems = 16;
// Longer strings and bytes that occur twice are sent once, by pickle.
constexpr Py_ssize_t kRepeatedLength = 256;

// Encoding runs no Python code and keeps the interpreter lock, so one table serves all threads.
Seen& seen() {
  static auto* const table = new Seen;
  return *table;
}

// MessagePack's ext 32: its code, the length, the type.
constexpr std::size_t kExtensionHead = 6;

}  // namespace

Encoder::Encoder(MessageWriter& writer) : writer_(writer), out_(writer.message.bytes()) { seen().begin(); }

bool Encoder::first_time(PyObject* object) noexcept { return seen().add(object); }

void Encoder::extension(Extension type, const void* payload, std::size_t length, std::size_t following) {
  std::array<std::byte, kExtensionHead + 1 + wire::kMaxMetaBytes> out;
  out[0] = std::byte{0xc9};
  store_big_endian(out.data() + 1, static_cast<std::uint32_t>(length + following));
  out[5] = static_cast<std::byte>(type);
  if (length != 0) std::memcpy(out.data() + kExtensionHead, payload, length);
  append(out.data(), kExtensionHead + length);
}

void Encoder::extension(Extension type, const wire::TensorMeta& meta, std::size_t following) {
  std::array<std::byte, wire::kMaxMetaBytes> payload;
  wire::encode_meta(meta, payload.data());
  extension(type, payload.data(), wire::meta_bytes(meta.shape.size()), following);
}

std::size_t Encoder::begin_extension(Extension type) {
  const std::size_t begin = out_.size();
  extension(type, nullptr, 0);
  return begin;
}

void Encoder::end_extension(std::size_t begin) {
  store_big_endian(out_.data() + begin + 1, static_cast<std::uint32_t>(out_.size() - begin - kExtensionHead));
}

Encoded Encoder::encode(PyObject* object, int depth) {
  if (++nodes_ > kMaxNodes) return Encoded::kUnsupported;
  const EncodeFunction function = find_encoder(Py_TYPE(object));
  return function ? function(*this, object, depth) : Encoded::kUnsupported;
}

namespace {

// The shortest form of an integer, of at most kNumberBytes. Returns where it ends; nullptr: it has more than 64 bits.
constexpr std::size_t kNumberBytes = 1 + sizeof(std::int64_t);
template <class T>
std::byte* write_number(std::byte* to, std::uint8_t code, T value) {
  *to = static_cast<std::byte>(code);
  if constexpr (sizeof value == 4)
    value = static_cast<T>(__builtin_bswap32(static_cast<std::uint32_t>(value)));
  if constexpr (sizeof value == 8)
    value = static_cast<T>(__builtin_bswap64(static_cast<std::uint64_t>(value)));
  std::memcpy(to + 1, &value, sizeof value);
  return to + 1 + sizeof value;
}
std::byte* write_int(std::byte* to, PyObject* object) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow != 0) return nullptr;
  if (value >= -32 && value < 128) {
    *to = static_cast<std::byte>(value);
    return to + 1;
  }
  if (value >= INT32_MIN && value <= INT32_MAX)
    return write_number(to, 0xd2, static_cast<std::int32_t>(value));
  return write_number(to, 0xd3, static_cast<std::int64_t>(value));
}
std::byte* write_float(std::byte* to, PyObject* object) {
  return write_number(to, 0xcb, std::bit_cast<std::uint64_t>(PyFloat_AS_DOUBLE(object)));
}

}  // namespace

// As many of the items as are exact ints or floats, piece by piece in memory of the buffer.
Py_ssize_t Encoder::encode_numbers(PyObject** first, Py_ssize_t count) {
  constexpr Py_ssize_t kPiece = 512;
  Py_ssize_t done = 0;
  while (done < count) {
    const Py_ssize_t upto = std::min(count, done + kPiece);
    const std::size_t begin = out_.size();
    out_.resize(begin + static_cast<std::size_t>(upto - done) * kNumberBytes);
    std::byte* at = out_.data() + begin;
    for (; done < upto; ++done) {
      PyTypeObject* const type = Py_TYPE(first[done]);
      std::byte* const next = type == &PyLong_Type    ? write_int(at, first[done])
                              : type == &PyFloat_Type ? write_float(at, first[done])
                                                      : nullptr;
      if (next == nullptr) break;
      at = next;
    }
    out_.resize(static_cast<std::size_t>(at - out_.data()));
    if (done < upto) break;
  }
  return done;
}

Encoded Encoder::encode_items(PyObject** first, Py_ssize_t count, int depth) {
  if (count > kMaxItems) return Encoded::kUnsupported;
  if (count < 16) {
    byte(static_cast<std::uint8_t>(0x90 | count));
  } else if (count <= UINT16_MAX) {
    big_endian(0xdc, static_cast<std::uint16_t>(count));
  } else {
    big_endian(0xdd, static_cast<std::uint32_t>(count));
  }
  // Neighbours mostly have one type.
  PyTypeObject* type = nullptr;
  EncodeFunction function = nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (count >= kManyItems && (Py_TYPE(first[i]) == &PyLong_Type || Py_TYPE(first[i]) == &PyFloat_Type)) {
      i += encode_numbers(first + i, count - i);
      if (i == count) break;
    }
    if (Py_TYPE(first[i]) != type) {
      type = Py_TYPE(first[i]);
      function = find_encoder(type);
    }
    if (!function || ++nodes_ > kMaxNodes) return Encoded::kUnsupported;
    if (const Encoded done = function(*this, first[i], depth); done != Encoded::kDone) return done;
  }
  return Encoded::kDone;
}

namespace {

Encoded encode_none(Encoder& encoder, PyObject*, int) {
  encoder.byte(0xc0);
  return Encoded::kDone;
}

Encoded encode_bool(Encoder& encoder, PyObject* object, int) {
  encoder.byte(object == Py_True ? 0xc3 : 0xc2);
  return Encoded::kDone;
}

Encoded encode_int(Encoder& encoder, PyObject* object, int) {
  std::array<std::byte, kNumberBytes> out;
  const std::byte* end = write_int(out.data(), object);
  if (end == nullptr) return Encoded::kUnsupported;
  encoder.append(out.data(), static_cast<std::size_t>(end - out.data()));
  return Encoded::kDone;
}

Encoded encode_float(Encoder& encoder, PyObject* object, int) {
  std::array<std::byte, kNumberBytes> out;
  write_float(out.data(), object);
  encoder.append(out.data(), out.size());
  return Encoded::kDone;
}

Encoded encode_in_lease(Encoder& encoder, Extension type, PyObject* owner, const void* data,
                        std::size_t length) {
  const message::PendingCopy& copy = encoder.writer().note_copy(owner, data, length, arena::Kind::kShare);
  const LeaseRange range{copy.lease, length};
  encoder.extension(type, &range, sizeof range);
  return Encoded::kDone;
}

Encoded encode_str(Encoder& encoder, PyObject* object, int) {
  if (PyUnicode_GET_LENGTH(object) > kRepeatedLength && !encoder.first_time(object)) {
    return Encoded::kUnsupported;
  }
  Py_ssize_t length = 0;
  // The UTF-8 form lives in the object, so a pending copy may refer to it.
  const char* text = PyUnicode_AsUTF8AndSize(object, &length);
  if (!text) {
    PyErr_Clear();  // lone surrogates: pickle knows what to do with them
    return Encoded::kUnsupported;
  }
  const auto count = static_cast<std::size_t>(length);
  if (count > kInlineBytesBytes) return encode_in_lease(encoder, Extension::kText, object, text, count);
  if (count < 32) {
    encoder.byte(static_cast<std::uint8_t>(0xa0 | count));
  } else {
    encoder.big_endian(0xda, static_cast<std::uint16_t>(count));
  }
  encoder.append(text, count);
  return Encoded::kDone;
}

Encoded encode_bytes(Encoder& encoder, PyObject* object, int) {
  if (PyBytes_GET_SIZE(object) > kRepeatedLength && !encoder.first_time(object)) return Encoded::kUnsupported;
  const auto count = static_cast<std::size_t>(PyBytes_GET_SIZE(object));
  const char* data = PyBytes_AS_STRING(object);
  if (count > kInlineBytesBytes) return encode_in_lease(encoder, Extension::kBytes, object, data, count);
  encoder.big_endian(0xc5, static_cast<std::uint16_t>(count));
  encoder.append(data, count);
  return Encoded::kDone;
}

Encoded encode_tuple(Encoder& encoder, PyObject* object, int depth) {
  const Py_ssize_t count = PyTuple_GET_SIZE(object);
  // There is one empty tuple only, which may occur twice.
  if (depth >= kMaxDepth || (count != 0 && !encoder.first_time(object))) return Encoded::kUnsupported;
  const std::size_t begin = encoder.begin_extension(Extension::kTuple);
  const Encoded done =
      encoder.encode_items(reinterpret_cast<PyTupleObject*>(object)->ob_item, count, depth + 1);
  encoder.end_extension(begin);
  return done;
}

Encoded encode_list(Encoder& encoder, PyObject* object, int depth) {
  if (depth >= kMaxDepth || !encoder.first_time(object)) return Encoded::kUnsupported;
  return encoder.encode_items(reinterpret_cast<PyListObject*>(object)->ob_item, PyList_GET_SIZE(object),
                              depth + 1);
}

Encoded encode_dict(Encoder& encoder, PyObject* object, int depth) {
  const Py_ssize_t count = PyDict_GET_SIZE(object);
  if (depth >= kMaxDepth || count > kMaxNodes || !encoder.first_time(object)) return Encoded::kUnsupported;
  if (count < 16) {
    encoder.byte(static_cast<std::uint8_t>(0x80 | count));
  } else {
    encoder.big_endian(0xde, static_cast<std::uint16_t>(count));
  }
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(object, &at, &key, &value)) {
    if (const Encoded done = encoder.encode(key, depth + 1); done != Encoded::kDone) return done;
    if (const Encoded done = encoder.encode(value, depth + 1); done != Encoded::kDone) return done;
  }
  return Encoded::kDone;
}

}  // namespace

void register_builtin_encoders() {
  register_encoder(Py_TYPE(Py_None), encode_none);
  register_encoder(&PyBool_Type, encode_bool);
  register_encoder(&PyLong_Type, encode_int);
  register_encoder(&PyFloat_Type, encode_float);
  register_encoder(&PyUnicode_Type, encode_str);
  register_encoder(&PyBytes_Type, encode_bytes);
  register_encoder(&PyTuple_Type, encode_tuple);
  register_encoder(&PyList_Type, encode_list);
  register_encoder(&PyDict_Type, encode_dict);
}

Encoded encode_native(PyObject* object, MessageWriter& writer) {
  Encoder encoder(writer);
  const Encoded done = encoder.encode(object, 0);
  if (done == Encoded::kDone) {
    writer.codec = message::kNativeCodec;
  } else {
    writer.clear();
  }
  return done;
}

}  // namespace forklift::py
