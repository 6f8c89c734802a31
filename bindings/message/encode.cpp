#include <array>

#include "bindings/core/block.h"
#include "bindings/message/frozen.h"
#include "bindings/message/native.h"
#include "bindings/message/numpy.h"
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

// The objects of a message that could tell whether they are one or two. Emptied by a new stamp.
class Seen {
 public:
  void begin() noexcept {
    ++stamp_;
    count_ = 0;
  }
  // False if it was there already.
  bool add(const void* object) noexcept {
    if (count_ < kFew) {
      for (std::size_t i = 0; i < count_; ++i) {
        if (few_[i] == object) return false;
      }
      few_[count_++] = object;
      if (count_ == kFew) {
        for (const void* earlier : few_) (void)insert(earlier);
      }
      return true;
    }
    return insert(object);
  }

 private:
  static constexpr std::size_t kFew = 8;
  static constexpr std::size_t kPlaces = 4096;  // more than twice kMaxNodes
  bool insert(const void* object) noexcept {
    std::size_t at = (reinterpret_cast<std::uintptr_t>(object) >> 4) * 0x9e3779b97f4a7c15ULL >> 52;
    for (;; at = (at + 1) % kPlaces) {
      Place& place = places_[at];
      if (place.stamp != stamp_) {
        place = {object, stamp_};
        return true;
      }
      if (place.object == object) return false;
    }
  }
  struct Place {
    const void* object;
    std::uint64_t stamp;
  };
  std::uint64_t stamp_ = 0;
  std::size_t count_ = 0;
  std::array<const void*, kFew> few_{};
  std::array<Place, kPlaces> places_{};
};

class Encoder {
 public:
  Encoder(MessageWriter& writer) : writer_(writer), out_(writer.bytes) { seen().begin(); }
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
  void extension(Extension type, std::size_t length);
  template <class T>
  void big_endian(std::uint8_t head, T value) {
    std::byte* to = out_.extend(1 + sizeof value);
    to[0] = static_cast<std::byte>(head);
    if constexpr (sizeof value == 2)
      value = static_cast<T>(__builtin_bswap16(static_cast<std::uint16_t>(value)));
    if constexpr (sizeof value == 4)
      value = static_cast<T>(__builtin_bswap32(static_cast<std::uint32_t>(value)));
    if constexpr (sizeof value == 8)
      value = static_cast<T>(__builtin_bswap64(static_cast<std::uint64_t>(value)));
    std::memcpy(to + 1, &value, sizeof value);
  }

  MessageWriter& writer_;
  Bytes& out_;
  int nodes_ = 0;
};

static_assert(static_cast<std::int8_t>(Extension::kTensor) == message::kTensorExtension);

void Encoder::extension(Extension type, std::size_t length) {
  big_endian(0xc9, static_cast<std::uint32_t>(length));
  out_.put(static_cast<std::uint8_t>(type));
}

void Encoder::array_head(std::size_t count) {
  if (count < 16) {
    out_.put(static_cast<std::uint8_t>(0x90 | count));
  } else {
    big_endian(0xdc, static_cast<std::uint16_t>(count));  // kMaxNodes fit
  }
}

Encoded Encoder::integer(PyObject* object) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow != 0) return Encoded::kUnsupported;
  if (value >= -32 && value < 128) {
    out_.put(static_cast<std::uint8_t>(value));
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    big_endian(0xd2, static_cast<std::int32_t>(value));
  } else {
    big_endian(0xd3, static_cast<std::int64_t>(value));
  }
  return Encoded::kDone;
}

void Encoder::in_lease(Extension type, PyObject* owner, const void* data, std::size_t length) {
  PendingCopy& copy = writer_.add_copy(length, arena::Kind::kShare);
  copy.owner = Py_NewRef(owner);
  copy.data = data;
  extension(type, 12);
  out_.append_value(copy.lease);
  out_.append_value(static_cast<std::uint64_t>(length));
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
    out_.put(static_cast<std::uint8_t>(0xa0 | count));
  } else {
    big_endian(0xda, static_cast<std::uint16_t>(count));
  }
  out_.append(text, count);
  return Encoded::kDone;
}

Encoded Encoder::bytes(PyObject* object) {
  const auto count = static_cast<std::size_t>(PyBytes_GET_SIZE(object));
  if (count > kInlineBytesBytes) {
    in_lease(Extension::kBytes, object, PyBytes_AS_STRING(object), count);
    return Encoded::kDone;
  }
  big_endian(0xc5, static_cast<std::uint16_t>(count));
  out_.append(PyBytes_AS_STRING(object), count);
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
  const std::size_t limit = out_.size() + count <= kInlineArrayBytes ? kInlineArrayBytes : kSmallArrayBytes;
  const bool inlined = count <= limit;
  const std::size_t meta_size = wire::meta_bytes(ndim);
  extension(Extension::kArray, meta_size + (inlined ? count : 0));
  if (inlined) {
    meta.index = kInline;
    std::byte* to = out_.extend(meta_size + count);
    wire::encode_meta(meta, to);
    if (count == 0) return Encoded::kDone;
    if (contiguous) {
      std::memcpy(to + meta_size, array.data, count);
    } else {
      const DimSpan strides(reinterpret_cast<const std::int64_t*>(array.strides), ndim);
      tensor::copy_strided(to + meta_size, array.data, strides, meta.shape, item, Order::kC);
    }
    return Encoded::kDone;
  }
  PendingCopy& copy = writer_.add_copy(count, arena::Kind::kPrivate);
  copy.owner = Py_NewRef(object);
  copy.data = array.data;
  if (!contiguous) {
    copy.shape = meta.shape;
    copy.strides = Dims(DimSpan(reinterpret_cast<const std::int64_t*>(array.strides), ndim));
    copy.item_size = item;
  }
  meta.index = copy.lease;
  wire::encode_meta(meta, out_.extend(meta_size));
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
  meta.index = place_block(block, writer_);
  const std::size_t meta_size = wire::meta_bytes(ndim);
  extension(Extension::kSharedArray, 1 + meta_size);
  out_.put(static_cast<std::uint8_t>(block_mode(block)));
  wire::encode_meta(meta, out_.extend(meta_size));
  return Encoded::kDone;
}

Encoded Encoder::frozen_container(PyObject* object) {
  extension(Extension::kFrozen, 12);
  out_.append_value(place_block(as_frozen(object)->block, writer_));
  out_.append_value(as_frozen(object)->offset);
  return Encoded::kDone;
}

Encoded Encoder::tensor(PyObject* object) {
  wire::TensorMeta meta;
  if (!place_tensor(object, writer_, meta)) return Encoded::kFailed;
  const std::size_t meta_size = wire::meta_bytes(meta.shape.size());
  extension(Extension::kTensor, meta_size);
  wire::encode_meta(meta, out_.extend(meta_size));
  return Encoded::kDone;
}

Encoded Encoder::torch_tensor(PyObject* object) {
  const std::size_t head = out_.size();
  extension(Extension::kTorchTensor, 0);
  const std::size_t body = out_.size();
  const Encoded done = torch::place_tensor(object, writer_, out_);
  const std::uint32_t length = __builtin_bswap32(static_cast<std::uint32_t>(out_.size() - body));
  std::memcpy(out_.data() + head + 1, &length, sizeof length);
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
    out_.put(static_cast<std::uint8_t>(0x80 | count));
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
    out_.put(0xc0);
    return Encoded::kDone;
  }
  if (type == &PyBool_Type) {
    out_.put(object == Py_True ? 0xc3 : 0xc2);
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
    const std::size_t head = out_.size();
    extension(Extension::kTuple, 0);
    const std::size_t body = out_.size();
    const Encoded done = items(reinterpret_cast<PyTupleObject*>(object)->ob_item, count, depth + 1);
    const std::uint32_t length = __builtin_bswap32(static_cast<std::uint32_t>(out_.size() - body));
    std::memcpy(out_.data() + head + 1, &length, sizeof length);
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
