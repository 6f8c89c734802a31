#include "tensor/wire.h"

#include <array>
#include <cstring>
#include <string>
#include <utility>

namespace forklift::wire {
namespace {

constexpr std::uint8_t kReadOnlyFlag = 1;

template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

Status corrupt(const std::string& what) { return {Code::kCorrupt, "tensor description: " + what}; }

}  // namespace

TensorMeta meta_of(const Tensor& tensor, std::uint32_t index) {
  return {index, tensor.dtype(), tensor.readonly(), tensor.byte_offset(), tensor.shape(), tensor.strides()};
}

void encode_meta(const TensorMeta& meta, std::byte* out) noexcept {
  const std::size_t ndim = meta.shape.size();
  std::memcpy(out, &meta.index, 4);
  out[4] = static_cast<std::byte>(meta.dtype);
  out[5] = static_cast<std::byte>(meta.readonly ? kReadOnlyFlag : 0);
  out[6] = static_cast<std::byte>(ndim);
  out[7] = std::byte{0};
  std::memcpy(out + 8, &meta.byte_offset, 8);
  std::memcpy(out + 16, meta.shape.data(), 8 * ndim);
  std::memcpy(out + 16 + 8 * ndim, meta.strides.data(), 8 * ndim);
}

Result<TensorMeta> decode_meta(std::span<const std::byte> bytes) {
  if (bytes.size() < meta_bytes(0) || bytes.size() > kMaxMetaBytes) {
    return corrupt(std::to_string(bytes.size()) + " bytes");
  }
  std::array<std::byte, kMaxMetaBytes> copy;
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint8_t>(copy[i]); };
  const std::size_t ndim = at(6);
  if (ndim > kMaxDims || bytes.size() != meta_bytes(ndim)) {
    return corrupt(std::to_string(ndim) + " dimensions in " + std::to_string(bytes.size()) + " bytes");
  }
  const std::optional<DType> dtype = dtype_from_code(at(4));
  if (!dtype) return corrupt("no dtype " + std::to_string(at(4)));
  if ((at(5) & ~kReadOnlyFlag) != 0 || at(7) != 0) return corrupt("unknown flags");

  TensorMeta meta;
  meta.index = load<std::uint32_t>(copy.data());
  meta.dtype = *dtype;
  meta.readonly = (at(5) & kReadOnlyFlag) != 0;
  meta.byte_offset = load<std::uint64_t>(copy.data() + 8);
  meta.shape = Dims(ndim, 0);
  meta.strides = Dims(ndim, 0);
  std::memcpy(meta.shape.data(), copy.data() + 16, 8 * ndim);
  std::memcpy(meta.strides.data(), copy.data() + 16 + 8 * ndim, 8 * ndim);
  if (Result<Extent> extent = byte_extent(meta.shape, meta.strides, item_size(meta.dtype)); !extent) {
    return corrupt(std::string(extent.status().what()));
  }
  return meta;
}

Result<Tensor> tensor_over(TensorMeta meta, std::shared_ptr<Storage> storage) {
  Result<Tensor> tensor = Tensor::wrap_strided(std::move(storage), meta.dtype, std::move(meta.shape),
                                               std::move(meta.strides), meta.byte_offset, meta.readonly);
  if (!tensor) return corrupt(std::string(tensor.status().what()));
  return tensor;
}

}  // namespace forklift::wire
