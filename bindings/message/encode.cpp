#include <array>
#include <vector>

#include "bindings/core/block.h"
#include "bindings/message/frozen.h"
#include "bindings/message/native.h"
#include "bindings/message/numpy.h"
#include "bindings/message/seen.h"
#include "bindings/tensor/tensor.h"
#include "bindings/torch/codec.h"
#include "bindings/torch/library.h"
#include "forklift/dtype.h"
#include "message/codec.h"
#include "message/transport.h"
#include "message/wire.h"
#include "tensor/copy.h"

namespace forklift::py {

namespace {

constexpr int kMaxDepth = 8;
constexpr int kMaxNodes = 1000;

// A number, and a length or an offset, of what lies in a lease.
struct [[gnu::packed]] LeaseRange {
  std::uint32_t lease;
  std::uint64_t place;
};
static_assert(sizeof(LeaseRange) == 12);

class Encoder {
 public:
  explicit Encoder(MessageWriter& writer) : writer_(writer), out_(writer.message.bytes()) { seen().begin(); }
  Encoded encode(PyObject* object, int depth);

 private:
  // Encoding runs no Python code and keeps the interpreter lock, so one table serves all threads.
  static Seen& seen() {
    static auto* const table = new Seen;
    return *table;
  }
  Encoded integer(PyObject* object);
  Encoded string(PyObject* object);
  Encoded bytes(PyObject* object);
  Encoded array(PyObject* object, DType dtype);
  Encoded shared_array(PyObject* object, DType dtype, PyObject* block);
  Encoded frozen_container(PyObject* object);
  Encoded tensor(PyObject* object);
  Encoded torch_tensor(PyObject* object);
  Encoded items(PyObject** first, Py_ssize_t count, int depth);
  Encoded dictionary(PyObject* object, int depth);
  void in_lease(Extension type, PyObject* owner, const void* data, std::size_t length);
  void array_head(std::size_t count);
  // The head of an extension and its payload; `following` bytes more are appended by the caller.
  void extension(Extension type, const void* payload, std::size_t length, std::size_t following = 0);
  void extension(Extension type, const wire::TensorMeta& meta, std::size_t following = 0);
  // An extension whose length is known at its end only: what begin() returns is for end().
  std::size_t begin_extension(Extension type);
  void end_extension(std::size_t begin);

  void byte(std::uint8_t value) { out_.push_back(static_cast<std::byte>(value)); }
  void append(const void* from, std::size_t count) {
    const auto* bytes = static_cast<const std::byte*>(from);
    out_.insert(out_.end(), bytes, bytes + count);
  }
  template <class T>
  static void store_big_endian(std::byte* to, T value) {
    if constexpr (sizeof value == 2)
      value = static_cast<T>(__builtin_bswap16(static_cast<std::uint16_t>(value)));
    if constexpr (sizeof value == 4)
      value = static_cast<T>(__builtin_bswap32(static_cast<std::uint32_t>(value)));
    if constexpr (sizeof value == 8)
      value = static_cast<T>(__builtin_bswap64(static_cast<std::uint64_t>(value)));
    std::memcpy(to, &value, sizeof value);
  }
  template <class T>
  void big_endian(std::uint8_t head, T value) {
    std::array<std::byte, 1 + sizeof value> out;
    out[0] = static_cast<std::byte>(head);
    store_big_endian(out.data() + 1, value);
    append(out.data(), out.size());
  }

  MessageWriter& writer_;
  std::vector<std::byte>& out_;
  int nodes_ = 0;
};

static_assert(static_cast<std::int8_t>(Extension::kTensor) == message::kTensorExtension);

// MessagePack's ext 32: its code, the length, the type.
constexpr std::size_t kExtensionHead = 6;

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

void Encoder::array_head(std::size_t count) {
  if (count < 16) {
    byte(static_cast<std::uint8_t>(0x90 | count));
  } else {
    big_endian(0xdc, static_cast<std::uint16_t>(count));  // kMaxNodes fit
  }
}

Encoded Encoder::integer(PyObject* object) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow != 0) return Encoded::kUnsupported;
  if (value >= -32 && value < 128) {
    byte(static_cast<std::uint8_t>(value));
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    big_endian(0xd2, static_cast<std::int32_t>(value));
  } else {
    big_endian(0xd3, static_cast<std::int64_t>(value));
  }
  return Encoded::kDone;
}

void Encoder::in_lease(Extension type, PyObject* owner, const void* data, std::size_t length) {
  const LeaseRange range{writer_.note_copy(owner, data, length, arena::Kind::kShare).lease, length};
  extension(type, &range, sizeof range);
}

Encoded Encoder::string(PyObject* object) {
  Py_ssize_t length = 0;
  // The UTF-8 form lives in the object, so a pending copy may refer to it.
  const char* text = PyUnicode_AsUTF8AndSize(object, &length);
  if (!text) {
    PyErr_Clear();  // lone surrogates: pickle knows what to do with them
    return Encoded::kUnsupported;
  }
  const auto count = static_cast<std::size_t>(length);
  if (count > kInlineBytesBytes) {
    in_lease(Extension::kText, object, text, count);
    return Encoded::kDone;
  }
  if (count < 32) {
    byte(static_cast<std::uint8_t>(0xa0 | count));
  } else {
    big_endian(0xda, static_cast<std::uint16_t>(count));
  }
  append(text, count);
  return Encoded::kDone;
}

Encoded Encoder::bytes(PyObject* object) {
  const auto count = static_cast<std::size_t>(PyBytes_GET_SIZE(object));
  if (count > kInlineBytesBytes) {
    in_lease(Extension::kBytes, object, PyBytes_AS_STRING(object), count);
    return Encoded::kDone;
  }
  big_endian(0xc5, static_cast<std::uint16_t>(count));
  append(PyBytes_AS_STRING(object), count);
  return Encoded::kDone;
}

Encoded Encoder::array(PyObject* object, DType dtype) {
  const ArrayHead& array = head_of(object);
  const auto ndim = static_cast<std::size_t>(array.ndim);
  if (ndim > kMaxDims) return Encoded::kUnsupported;
  const std::size_t item = item_size(dtype);
  const bool c_order = (array.flags & kArrayC) != 0;
  const bool fortran = !c_order && (array.flags & kArrayFortran) != 0;

  wire::TensorMeta meta;
  meta.dtype = dtype;
  meta.shape = Dims(DimSpan(reinterpret_cast<const std::int64_t*>(array.shape), ndim));
  std::size_t count = item;
  for (const std::int64_t length : meta.shape) count *= static_cast<std::size_t>(length);
  meta.strides = fortran ? f_strides(meta.shape) : c_strides(meta.shape);
  // From 3.14 on the standard library's pickles are of protocol 5, which keeps arrays read-only.
  meta.readonly = PY_VERSION_HEX >= 0x030e0000 && (array.flags & kArrayWritable) == 0;

  const bool contiguous = c_order || fortran;
  const DimSpan byte_strides(reinterpret_cast<const std::int64_t*>(array.strides), ndim);
  const std::size_t limit = out_.size() + count <= kInlineArrayBytes ? kInlineArrayBytes : kSmallArrayBytes;
  const bool inlined = count <= limit;
  if (inlined) {
    meta.index = kInline;
    extension(Extension::kArray, meta, count);
    if (count == 0) return Encoded::kDone;
    if (contiguous) {
      append(array.data, count);
    } else {
      const std::size_t at = out_.size();
      out_.resize(at + count);
      tensor::copy_strided(out_.data() + at, array.data, byte_strides, meta.shape, item, Order::kC);
    }
    return Encoded::kDone;
  }
  message::PendingCopy& copy = writer_.note_copy(object, array.data, count, arena::Kind::kPrivate);
  if (!contiguous) {
    copy.shape = meta.shape;
    copy.strides = Dims(byte_strides);
    copy.item_size = item;
  }
  meta.index = copy.lease;
  extension(Extension::kArray, meta);
  return Encoded::kDone;
}

// A handle; strides that are no multiple of the item's size are pickle's business.
Encoded Encoder::shared_array(PyObject* object, DType dtype, PyObject* block) {
  const ArrayHead& array = head_of(object);
  const auto ndim = static_cast<std::size_t>(array.ndim);
  const auto item = static_cast<std::int64_t>(item_size(dtype));
  wire::TensorMeta meta;
  meta.dtype = dtype;
  meta.readonly = (array.flags & kArrayWritable) == 0;
  meta.shape = Dims(DimSpan(reinterpret_cast<const std::int64_t*>(array.shape), ndim));
  meta.strides = Dims(DimSpan(reinterpret_cast<const std::int64_t*>(array.strides), ndim));
  bool empty = false;
  for (std::size_t i = 0; i < ndim; ++i) {
    if (meta.strides[i] % item != 0) return Encoded::kUnsupported;
    meta.strides[i] /= item;
    empty = empty || meta.shape[i] == 0;
  }
  const auto* begin = reinterpret_cast<const char*>(block_lease(block)->data());
  meta.byte_offset = empty ? 0 : static_cast<std::uint64_t>(array.data - begin);
  meta.index = place_block(block, writer_.message);
  std::array<std::byte, 1 + wire::kMaxMetaBytes> payload;
  payload[0] = static_cast<std::byte>(block_mode(block));
  wire::encode_meta(meta, payload.data() + 1);
  extension(Extension::kSharedArray, payload.data(), 1 + wire::meta_bytes(ndim));
  return Encoded::kDone;
}

Encoded Encoder::frozen_container(PyObject* object) {
  const LeaseRange slot{place_block(as_frozen(object)->block, writer_.message), as_frozen(object)->offset};
  extension(Extension::kFrozen, &slot, sizeof slot);
  return Encoded::kDone;
}

Encoded Encoder::tensor(PyObject* object) {
  wire::TensorMeta meta;
  place_tensor(object, writer_, meta);
  extension(Extension::kTensor, meta);
  return Encoded::kDone;
}

Encoded Encoder::torch_tensor(PyObject* object) {
  const std::size_t begin = begin_extension(Extension::kTorchTensor);
  const Encoded done = torch::place_tensor(object, writer_, out_);
  end_extension(begin);
  return done;
}

Encoded Encoder::items(PyObject** first, Py_ssize_t count, int depth) {
  if (count > kMaxNodes) return Encoded::kUnsupported;
  array_head(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (const Encoded done = encode(first[i], depth); done != Encoded::kDone) return done;
  }
  return Encoded::kDone;
}

Encoded Encoder::dictionary(PyObject* object, int depth) {
  const Py_ssize_t count = PyDict_GET_SIZE(object);
  if (count > kMaxNodes) return Encoded::kUnsupported;
  if (count < 16) {
    byte(static_cast<std::uint8_t>(0x80 | count));
  } else {
    big_endian(0xde, static_cast<std::uint16_t>(count));
  }
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(object, &at, &key, &value)) {
    if (const Encoded done = encode(key, depth); done != Encoded::kDone) return done;
    if (const Encoded done = encode(value, depth); done != Encoded::kDone) return done;
  }
  return Encoded::kDone;
}

Encoded Encoder::encode(PyObject* object, int depth) {
  if (++nodes_ > kMaxNodes) return Encoded::kUnsupported;
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyLong_Type) return integer(object);
  if (object == Py_None) {
    byte(0xc0);
    return Encoded::kDone;
  }
  if (type == &PyBool_Type) {
    byte(object == Py_True ? 0xc3 : 0xc2);
    return Encoded::kDone;
  }
  if (type == &PyFloat_Type) {
    big_endian(0xcb, std::bit_cast<std::uint64_t>(PyFloat_AS_DOUBLE(object)));
    return Encoded::kDone;
  }
  if (type == &PyUnicode_Type) {
    // A long string that occurs twice is sent once, by pickle.
    if (PyUnicode_GET_LENGTH(object) > 256 && !seen().add(object)) return Encoded::kUnsupported;
    return string(object);
  }
  if (type == &PyBytes_Type) {
    if (PyBytes_GET_SIZE(object) > 256 && !seen().add(object)) return Encoded::kUnsupported;
    return bytes(object);
  }
  if (is_frozen(object)) return seen().add(object) ? frozen_container(object) : Encoded::kUnsupported;
  if (is_tensor(object)) return seen().add(object) ? tensor(object) : Encoded::kUnsupported;
  if (const NumPy* numpy = NumPy::loaded(); numpy && numpy->is_array(object)) {
    const std::uint8_t code = numpy->dtype_code(head_of(object));
    if (code == 0 || numpy->has_reducer() || !seen().add(object)) return Encoded::kUnsupported;
    PyObject* block = head_of(object).base ? block_under(object) : nullptr;
    return block ? shared_array(object, static_cast<DType>(code), block)
                 : array(object, static_cast<DType>(code));
  }
  if (const torch::Library* torch = torch::Library::loaded(); torch && torch->is_tensor(object)) {
    if (torch->has_reducer() || !seen().add(object)) return Encoded::kUnsupported;
    return torch_tensor(object);
  }
  if (depth >= kMaxDepth) return Encoded::kUnsupported;
  if (type == &PyTuple_Type) {
    const Py_ssize_t count = PyTuple_GET_SIZE(object);
    if (count != 0 && !seen().add(object)) return Encoded::kUnsupported;
    const std::size_t begin = begin_extension(Extension::kTuple);
    const Encoded done = items(reinterpret_cast<PyTupleObject*>(object)->ob_item, count, depth + 1);
    end_extension(begin);
    return done;
  }
  if (type == &PyList_Type) {
    if (!seen().add(object)) return Encoded::kUnsupported;
    return items(reinterpret_cast<PyListObject*>(object)->ob_item, PyList_GET_SIZE(object), depth + 1);
  }
  if (type == &PyDict_Type) return seen().add(object) ? dictionary(object, depth + 1) : Encoded::kUnsupported;
  return Encoded::kUnsupported;
}

}  // namespace

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
