// NumPy's arrays in the native codec: as a copy, or, over shared or frozen memory, as a handle.
#include <array>
#include <vector>

#include "bindings/core/block.h"
#include "bindings/core/stats.h"
#include "bindings/message/codec_table.h"
#include "bindings/message/encoder.h"
#include "bindings/message/numpy.h"
#include "forklift/dtype.h"
#include "message/wire.h"
#include "tensor/copy.h"
#include "tensor/extent.h"

namespace forklift::py {

namespace {

// How an array arrives whose elements travel without gaps. `bytes`: of its elements. Precondition: at most kMaxDims.
wire::TensorMeta meta_without_gaps(const ArrayHead& array, DType dtype, std::size_t& bytes) {
  const bool fortran = (array.flags & kArrayC) == 0 && (array.flags & kArrayFortran) != 0;
  wire::TensorMeta meta;
  meta.dtype = dtype;
  meta.shape =
      Dims(DimSpan(reinterpret_cast<const std::int64_t*>(array.shape), static_cast<std::size_t>(array.ndim)));
  bytes = item_size(dtype);
  for (const std::int64_t length : meta.shape) bytes *= static_cast<std::size_t>(length);
  meta.strides = fortran ? f_strides(meta.shape) : c_strides(meta.shape);
  // From 3.14 on the standard library's pickles are of protocol 5, which keeps arrays read-only.
  meta.readonly = PY_VERSION_HEX >= 0x030e0000 && (array.flags & kArrayWritable) == 0;
  return meta;
}

// As a copy, inline or in a block.
Encoded encode_copy(Encoder& encoder, PyObject* object, DType dtype) {
  const ArrayHead& array = head_of(object);
  const auto ndim = static_cast<std::size_t>(array.ndim);
  if (ndim > kMaxDims) return Encoded::kUnsupported;
  const std::size_t item = item_size(dtype);
  std::size_t count = 0;
  wire::TensorMeta meta = meta_without_gaps(array, dtype, count);

  const bool contiguous = (array.flags & (kArrayC | kArrayFortran)) != 0;
  const DimSpan byte_strides(reinterpret_cast<const std::int64_t*>(array.strides), ndim);
  std::vector<std::byte>& out = encoder.bytes();
  const std::size_t limit = out.size() + count <= kInlineArrayBytes ? kInlineArrayBytes : kSmallArrayBytes;
  const bool inlined = count <= limit;
  if (inlined) {
    meta.index = kInline;
    encoder.extension(Extension::kArray, meta, count);
    if (count == 0) return Encoded::kDone;
    if (contiguous) {
      encoder.append(array.data, count);
    } else {
      const std::size_t at = out.size();
      out.resize(at + count);
      tensor::copy_strided(out.data() + at, array.data, byte_strides, meta.shape, item, Order::kC);
    }
    return Encoded::kDone;
  }
  message::PendingCopy& copy = encoder.writer().note_copy(object, array.data, count, arena::Kind::kPrivate);
  if (!contiguous) {
    copy.shape = meta.shape;
    copy.strides = Dims(byte_strides);
    copy.item_size = item;
  }
  meta.index = copy.lease;
  encoder.extension(Extension::kArray, meta);
  return Encoded::kDone;
}

// As a handle. Strides that are no multiple of the item's size have no description: pickle takes such arrays.
Encoded encode_handle(Encoder& encoder, PyObject* object, DType dtype, PyObject* block) {
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
  meta.index = place_block(block, encoder.writer().message);
  std::array<std::byte, 1 + wire::kMaxMetaBytes> payload;
  payload[0] = static_cast<std::byte>(block_mode(block));
  wire::encode_meta(meta, payload.data() + 1);
  encoder.extension(Extension::kSharedArray, payload.data(), 1 + wire::meta_bytes(ndim));
  return Encoded::kDone;
}

// The block of a received array of which nobody has another view, if the array is the whole of it and this process's
// writes to it are in the block itself; nullptr otherwise. Precondition: one reference to the array.
PyObject* block_of_last_use(PyObject* object) {
  const ArrayHead& array = head_of(object);
  PyObject* block = array.base;
  if (!block || !is_block(block) || block_mode(block) != BlockMode::kPlain || Py_REFCNT(block) != 1 ||
      block_is_exported(block) || *PyObject_GET_WEAKREFS_LISTPTR(object) != nullptr)
    return nullptr;
  const arena::LeasePtr& lease = block_lease(block);
  const bool whole = lease && reinterpret_cast<const std::byte*>(array.data) == lease->data() &&
                     (array.flags & (kArrayC | kArrayFortran)) != 0;
  if (!whole || !lease->held() || lease->kind() != arena::Kind::kPrivate || lease.use_count() != 1 ||
      !arena::Arena::sees_block(*lease) || lease->arena().holders(*lease) != 1)
    return nullptr;
  return block;
}

Encoded encode_array(Encoder& encoder, PyObject* object, int) {
  const NumPy* numpy = NumPy::loaded();
  const std::uint8_t code = numpy->dtype_code(head_of(object));
  if (code == 0 || numpy->has_reducer() || !encoder.first_time(object)) return Encoded::kUnsupported;
  PyObject* block = head_of(object).base ? block_under(object) : nullptr;
  return block ? encode_handle(encoder, object, static_cast<DType>(code), block)
               : encode_copy(encoder, object, static_cast<DType>(code));
}

PyObject* decode_array(std::span<const std::byte> payload, MessageReader& reader) {
  const NumPy* numpy = NumPy::require();
  if (!numpy) return nullptr;
  if (payload.size() < wire::meta_bytes(0)) return corrupt_message("it ends early");
  const std::size_t meta_size = wire::meta_bytes(std::to_integer<std::size_t>(payload[6]));
  if (payload.size() < meta_size) return corrupt_message("it ends early");
  const Result<wire::TensorMeta> meta = wire::decode_meta(payload.first(meta_size));
  if (!meta) return corrupt_message("an array's description");
  const Result<std::int64_t> size = tensor::byte_count(meta->shape, item_size(meta->dtype));
  if (!size || meta->byte_offset != 0) return corrupt_message("an array's size");
  const auto length = static_cast<std::size_t>(*size);
  Order order = Order::kC;
  if (meta->strides != c_strides(meta->shape)) {
    if (meta->strides != f_strides(meta->shape)) return corrupt_message("an array with gaps");
    order = Order::kF;
  }
  if (meta->index != kInline) {
    return reader.array(*numpy, meta->index, length, meta->dtype, meta->shape, order, !meta->readonly);
  }
  if (payload.size() - meta_size != length) return corrupt_message("an array's length");
  return copy_array(*numpy, payload.data() + meta_size, length, meta->dtype, meta->shape, order,
                    !meta->readonly);
}

PyObject* decode_shared_array(std::span<const std::byte> payload, MessageReader& reader) {
  const NumPy* numpy = NumPy::require();
  if (!numpy) return nullptr;
  if (payload.empty()) return corrupt_message("it ends early");
  const Result<wire::TensorMeta> meta = wire::decode_meta(payload.subspan(1));
  if (!meta) return corrupt_message("a shared array's description");
  PyObject* block = take_block(reader, meta->index, std::to_integer<std::uint8_t>(payload[0]));
  if (!block) return nullptr;
  const arena::Lease& lease = *block_lease(block);
  const std::size_t item = item_size(meta->dtype);
  if (!tensor::check_within(meta->shape, meta->strides, item, meta->byte_offset, lease.size()) ||
      meta->byte_offset % alignment(meta->dtype) != 0) {
    Py_DECREF(block);
    return corrupt_message("a shared array outside of its memory");
  }
  const bool writable = !meta->readonly && block_mode(block) != BlockMode::kFrozen;
  return numpy->over_strided(lease.data() + meta->byte_offset, meta->dtype, meta->shape,
                             tensor::byte_strides(meta->strides, item), writable, block);
}

}  // namespace

bool encode_given_array(PyObject* object, MessageWriter& writer) {
  const NumPy* numpy = NumPy::loaded();
  if (!numpy || !numpy->is_array(object) || Py_REFCNT(object) != 1 ||
      head_of(object).ndim > static_cast<int>(kMaxDims))
    return false;
  const std::uint8_t code = numpy->dtype_code(head_of(object));
  PyObject* block = code != 0 && !numpy->has_reducer() ? block_of_last_use(object) : nullptr;
  if (!block) return false;
  std::size_t bytes = 0;
  wire::TensorMeta meta = meta_without_gaps(head_of(object), static_cast<DType>(code), bytes);
  if (bytes > block_lease(block)->size()) return false;
  meta.index = static_cast<std::uint32_t>(writer.message.leases().size());
  Encoder(writer).extension(Extension::kArray, meta);
  writer.message.leases().push_back(empty_block(block));
  writer.codec = message::kNativeCodec;
  count_shared_bytes(bytes);
  return true;
}

void register_array_encoder(PyTypeObject* array_type) { register_encoder(array_type, encode_array); }

void register_array_decoders() {
  register_decoder(Extension::kArray, decode_array);
  register_decoder(Extension::kSharedArray, decode_shared_array);
}

}  // namespace forklift::py
