#include <bit>
#include <cstring>
#include <vector>

#include "bindings/core/block.h"
#include "bindings/message/frozen.h"
#include "bindings/message/native.h"
#include "bindings/message/numpy.h"
#include "bindings/tensor/tensor.h"
#include "bindings/torch/codec.h"
#include "message/codec.h"
#include "message/transport.h"
#include "message/wire.h"
#include "tensor/copy.h"

namespace forklift::py {

namespace {

// Senders nest kMaxDepth deep; each tuple counts twice here.
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
  PyObject* array(std::span<const std::byte> payload);
  PyObject* shared_array(std::span<const std::byte> payload);
  PyObject* frozen_container(std::span<const std::byte> payload);
  PyObject* from_lease(std::span<const std::byte> payload, bool text);

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

PyObject* Decoder::from_lease(std::span<const std::byte> payload, bool text) {
  std::uint32_t lease = 0;
  std::uint64_t length = 0;
  if (payload.size() != sizeof lease + sizeof length) return corrupt_message("a reference of another length");
  std::memcpy(&lease, payload.data(), sizeof lease);
  std::memcpy(&length, payload.data() + sizeof lease, sizeof length);
  const std::byte* from = reader_.data(lease, length);
  if (!from) return nullptr;
  PyObject* copy =
      PyBytes_FromStringAndSize(reinterpret_cast<const char*>(from), static_cast<Py_ssize_t>(length));
  if (!copy || !text) return copy;
  PyObject* string = PyUnicode_DecodeUTF8(PyBytes_AS_STRING(copy), PyBytes_GET_SIZE(copy), nullptr);
  Py_DECREF(copy);
  return string;
}

PyObject* Decoder::array(std::span<const std::byte> payload) {
  const NumPy* numpy = NumPy::require();
  if (!numpy) return nullptr;
  if (payload.size() < wire::meta_bytes(0)) return cut();
  const std::size_t meta_size = wire::meta_bytes(std::to_integer<std::size_t>(payload[6]));
  if (payload.size() < meta_size) return cut();
  const Result<wire::TensorMeta> meta = wire::decode_meta(payload.first(meta_size));
  if (!meta) return corrupt_message("an array's description");
  const Result<std::int64_t> size = byte_count(meta->shape, item_size(meta->dtype));
  if (!size || meta->byte_offset != 0) return corrupt_message("an array's size");
  const auto length = static_cast<std::size_t>(*size);
  Order order = Order::kC;
  if (meta->strides != c_strides(meta->shape)) {
    if (meta->strides != f_strides(meta->shape)) return corrupt_message("an array with gaps");
    order = Order::kF;
  }
  if (meta->index != kInline) {
    return reader_.array(*numpy, meta->index, length, meta->dtype, meta->shape, order, !meta->readonly);
  }
  if (payload.size() - meta_size != length) return corrupt_message("an array's length");
  return copy_array(*numpy, payload.data() + meta_size, length, meta->dtype, meta->shape, order,
                    !meta->readonly);
}

PyObject* Decoder::shared_array(std::span<const std::byte> payload) {
  const NumPy* numpy = NumPy::require();
  if (!numpy) return nullptr;
  if (payload.empty()) return cut();
  const Result<wire::TensorMeta> meta = wire::decode_meta(payload.subspan(1));
  if (!meta) return corrupt_message("a shared array's description");
  PyObject* block = take_block(reader_, meta->index, std::to_integer<std::uint8_t>(payload[0]));
  if (!block) return nullptr;
  const arena::Lease& lease = *block_lease(block);
  const std::size_t item = item_size(meta->dtype);
  if (!check_within(meta->shape, meta->strides, item, meta->byte_offset, lease.size()) ||
      meta->byte_offset % alignment(meta->dtype) != 0) {
    Py_DECREF(block);
    return corrupt_message("a shared array outside of its memory");
  }
  const bool writable = !meta->readonly && block_mode(block) != BlockMode::kFrozen;
  return numpy->over_strided(lease.data() + meta->byte_offset, meta->dtype, meta->shape,
                             tensor::byte_strides(meta->strides, item), writable, block);
}

PyObject* Decoder::frozen_container(std::span<const std::byte> payload) {
  std::uint32_t lease = 0;
  std::uint64_t offset = 0;
  if (payload.size() != sizeof lease + sizeof offset) return corrupt_message("a reference of another length");
  std::memcpy(&lease, payload.data(), sizeof lease);
  std::memcpy(&offset, payload.data() + sizeof lease, sizeof offset);
  PyObject* block = take_block(reader_, lease, static_cast<std::uint8_t>(BlockMode::kFrozen));
  return block ? open_frozen(block, offset) : nullptr;
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
  switch (type) {
    case Extension::kTensor: return take_tensor(payload, reader_);
    case Extension::kArray: return array(payload);
    case Extension::kBytes: return from_lease(payload, false);
    case Extension::kText: return from_lease(payload, true);
    case Extension::kSharedArray: return shared_array(payload);
    case Extension::kFrozen: return frozen_container(payload);
    case Extension::kTorchTensor: return torch::take_tensor(payload, reader_);
    case Extension::kTuple: break;
  }
  return corrupt_message("an unknown extension");
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
    case 0xde: {
      std::uint16_t count = 0;
      return number(count) ? dictionary(count, depth + 1) : cut();
    }
    default: return corrupt_message("an unknown type");
  }
}

}  // namespace

PyObject* decode_native(MessageReader& reader) {
  const std::span<const std::byte> bytes = reader.body();
  if (reader.message.bytes_are_private()) return Decoder(reader, bytes).whole();
  // Copied before it is checked: it lies in memory that other processes can write.
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());
  return Decoder(reader, copy).whole();
}

}  // namespace forklift::py
