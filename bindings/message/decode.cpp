#include <bit>
#include <cstring>
#include <vector>

#include "bindings/message/codec_table.h"
#include "bindings/message/native.h"

namespace forklift::py {

namespace {

// More than twice the depth to which senders nest (encode.cpp): a tuple counts as two levels here.
constexpr int kMostDepth = 32;

// What is read comes from another process: every length is read once and checked against what is left.
class Decoder {
 public:
  Decoder(MessageReader& reader, std::span<const std::byte> bytes)
      : reader_(reader), at_(bytes.data()), end_(at_ + bytes.size()) {}

  PyObject* whole() {
    PyObject* object = value(0);
    if (object && at_ != end_) {
      Py_DECREF(object);
      return corrupt_message("it is longer than its value");
    }
    return object;
  }

 private:
  bool has(std::size_t count) const noexcept { return static_cast<std::size_t>(end_ - at_) >= count; }
  template <class T>
  bool number(T& out) {
    if (!has(sizeof out)) return false;
    std::memcpy(&out, at_, sizeof out);
    at_ += sizeof out;
    if constexpr (sizeof out == 2) out = static_cast<T>(__builtin_bswap16(static_cast<std::uint16_t>(out)));
    if constexpr (sizeof out == 4) out = static_cast<T>(__builtin_bswap32(static_cast<std::uint32_t>(out)));
    if constexpr (sizeof out == 8) out = static_cast<T>(__builtin_bswap64(static_cast<std::uint64_t>(out)));
    return true;
  }
  static PyObject* cut() { return corrupt_message("it ends early"); }

  PyObject* value(int depth);
  PyObject* string(std::size_t length);
  PyObject* bytes(std::size_t length);
  PyObject* list(std::size_t count, int depth);
  PyObject* tuple(int depth);
  PyObject* dictionary(std::size_t count, int depth);
  PyObject* extension(int depth);

  MessageReader& reader_;
  const std::byte* at_;
  const std::byte* end_;
};

PyObject* Decoder::string(std::size_t length) {
  if (!has(length)) return cut();
  const auto* text = reinterpret_cast<const char*>(at_);
  at_ += length;
  return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(length), nullptr);
}

PyObject* Decoder::bytes(std::size_t length) {
  if (!has(length)) return cut();
  const auto* text = reinterpret_cast<const char*>(at_);
  at_ += length;
  return PyBytes_FromStringAndSize(text, static_cast<Py_ssize_t>(length));
}

PyObject* Decoder::list(std::size_t count, int depth) {
  if (!has(count)) return cut();  // every item takes a byte at least
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(count));
  for (std::size_t i = 0; list && i < count; ++i) {
    PyObject* item = value(depth);
    if (item) {
      PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), item);
    } else {
      Py_CLEAR(list);
    }
  }
  return list;
}

PyObject* Decoder::tuple(int depth) {
  if (!has(1)) return cut();
  const auto head = std::to_integer<std::uint8_t>(*at_++);
  std::size_t count = head & 0x0f;
  if (head == 0xdc) {
    std::uint16_t length = 0;
    if (!number(length)) return cut();
    count = length;
  } else if (head == 0xdd) {
    std::uint32_t length = 0;
    if (!number(length)) return cut();
    count = length;
  } else if ((head & 0xf0) != 0x90) {
    return corrupt_message("a tuple without items");
  }
  if (!has(count)) return cut();
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (std::size_t i = 0; tuple && i < count; ++i) {
    PyObject* item = value(depth);
    if (item) {
      PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), item);
    } else {
      Py_CLEAR(tuple);
    }
  }
  return tuple;
}

PyObject* Decoder::dictionary(std::size_t count, int depth) {
  PyObject* dictionary = PyDict_New();
  for (std::size_t i = 0; dictionary && i < count; ++i) {
    PyObject* key = value(depth);
    PyObject* item = key ? value(depth) : nullptr;
    if (!item || PyDict_SetItem(dictionary, key, item) != 0) Py_CLEAR(dictionary);
    Py_XDECREF(key);
    Py_XDECREF(item);
  }
  return dictionary;
}

PyObject* Decoder::extension(int depth) {
  std::uint32_t length = 0;
  if (!number(length) || !has(1) || !has(std::size_t{length} + 1)) return cut();
  const auto type = static_cast<Extension>(*at_++);
  const std::byte* end = at_ + length;
  const std::span<const std::byte> payload(at_, length);
  if (type == Extension::kTuple) {
    PyObject* object = tuple(depth);
    if (object && at_ != end) {
      Py_DECREF(object);
      return corrupt_message("a tuple's length");
    }
    return object;
  }
  at_ = end;
  const DecodeFunction decode = find_decoder(type);
  return decode ? decode(payload, reader_) : corrupt_message("an unknown extension");
}

PyObject* Decoder::value(int depth) {
  if (depth > kMostDepth) return corrupt_message("it is nested too deep");
  if (!has(1)) return cut();
  const auto head = std::to_integer<std::uint8_t>(*at_++);
  if (head < 0x80 || head >= 0xe0) return PyLong_FromLong(static_cast<std::int8_t>(head));
  if (head < 0x90) return dictionary(head & 0x0f, depth + 1);
  if (head < 0xa0) return list(head & 0x0f, depth + 1);
  if (head < 0xc0) return string(head & 0x1f);
  switch (head) {
    case 0xc0: Py_RETURN_NONE;
    case 0xc2: Py_RETURN_FALSE;
    case 0xc3: Py_RETURN_TRUE;
    case 0xc5: {
      std::uint16_t length = 0;
      return number(length) ? bytes(length) : cut();
    }
    case 0xc9: return extension(depth + 1);
    case 0xcb: {
      std::uint64_t bits = 0;
      return number(bits) ? PyFloat_FromDouble(std::bit_cast<double>(bits)) : cut();
    }
    case 0xd2: {
      std::int32_t value = 0;
      return number(value) ? PyLong_FromLong(value) : cut();
    }
    case 0xd3: {
      std::int64_t value = 0;
      return number(value) ? PyLong_FromLongLong(value) : cut();
    }
    case 0xda: {
      std::uint16_t length = 0;
      return number(length) ? string(length) : cut();
    }
    case 0xdc: {
      std::uint16_t count = 0;
      return number(count) ? list(count, depth + 1) : cut();
    }
    case 0xdd: {
      std::uint32_t count = 0;
      return number(count) ? list(count, depth + 1) : cut();
    }
    case 0xde: {
      std::uint16_t count = 0;
      return number(count) ? dictionary(count, depth + 1) : cut();
    }
    default: return corrupt_message("an unknown type");
  }
}

bool read_range(std::span<const std::byte> payload, LeaseRange& range) {
  if (payload.size() != sizeof range) {
    corrupt_message("a reference of another length");
    return false;
  }
  std::memcpy(&range, payload.data(), sizeof range);
  return true;
}

PyObject* decode_leased_bytes(std::span<const std::byte> payload, MessageReader& reader) {
  LeaseRange range{};
  return read_range(payload, range) ? reader.bytes(range.lease, range.place) : nullptr;
}

// Other processes can write where it lies, so it is copied before it is looked at.
PyObject* decode_leased_text(std::span<const std::byte> payload, MessageReader& reader) {
  LeaseRange range{};
  if (!read_range(payload, range)) return nullptr;
  const std::byte* from = reader.data(range.lease, range.place);
  PyObject* copy = from ? PyBytes_FromStringAndSize(reinterpret_cast<const char*>(from),
                                                    static_cast<Py_ssize_t>(range.place))
                        : nullptr;
  if (!copy) return nullptr;
  PyObject* text = PyUnicode_DecodeUTF8(PyBytes_AS_STRING(copy), PyBytes_GET_SIZE(copy), nullptr);
  Py_DECREF(copy);
  return text;
}

}  // namespace

void register_builtin_decoders() {
  register_decoder(Extension::kBytes, decode_leased_bytes);
  register_decoder(Extension::kText, decode_leased_text);
}

PyObject* decode_native(MessageReader& reader) {
  const std::span<const std::byte> bytes = reader.body();
  if (reader.message.bytes_are_private()) return Decoder(reader, bytes).whole();
  // Copied before it is checked: it lies in memory that other processes can write.
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());
  return Decoder(reader, copy).whole();
}

}  // namespace forklift::py
