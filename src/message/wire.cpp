#include "message/wire.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "tensor/access.h"
#include "tensor/dense.h"
#include "tensor/extent.h"
#include "tensor/operations.h"

namespace forklift::inline abi_0_1::wire {
namespace {

constexpr std::uint8_t kReadOnlyFlag = 1;

Status corrupt(const std::string& what) { return {Code::kCorrupt, "tensor description: " + what}; }

// The fixed part of a description: each byte is read once, and what needs no shape or strides is checked.
struct Description {
  std::array<std::int64_t, kMaxMetaBytes / 8> words;
  std::size_t ndim;
  DType dtype;
  bool readonly;

  std::uint32_t index() const noexcept { return static_cast<std::uint32_t>(words[0]); }
  std::uint64_t byte_offset() const noexcept { return static_cast<std::uint64_t>(words[1]); }
  DimSpan shape() const noexcept { return DimSpan(words).subspan(2, ndim); }
  DimSpan strides() const noexcept { return DimSpan(words).subspan(2 + ndim, ndim); }

  Status read(std::span<const std::byte> bytes) {
    if (bytes.size() < meta_bytes(0) || bytes.size() > kMaxMetaBytes) {
      return corrupt(std::to_string(bytes.size()) + " bytes");
    }
    std::memcpy(words.data(), bytes.data(), bytes.size());
    const auto at = [&](unsigned i) { return static_cast<std::uint8_t>(words[0] >> (8 * i)); };
    ndim = at(6);
    if (ndim > kMaxDims || bytes.size() != meta_bytes(ndim)) {
      return corrupt(std::to_string(ndim) + " dimensions in " + std::to_string(bytes.size()) + " bytes");
    }
    const std::optional<DType> known = dtype_from_code(at(4));
    if (!known) return corrupt("no dtype " + std::to_string(at(4)));
    if ((at(5) & ~kReadOnlyFlag) != 0 || at(7) != 0) return corrupt("unknown flags");
    dtype = *known;
    readonly = (at(5) & kReadOnlyFlag) != 0;
    return {};
  }
};
static_assert(std::endian::native == std::endian::little);

}  // namespace

TensorMeta meta_of(const Tensor& tensor, std::uint32_t index) {
  return {index, tensor.dtype(), tensor.readonly(), tensor.byte_offset(), tensor.shape(), tensor.strides()};
}

namespace {

void encode(std::uint32_t index, DType dtype, bool readonly, std::uint64_t byte_offset, const Dims& shape,
            const Dims& strides, std::byte* out) noexcept {
  const std::size_t ndim = shape.size();
  std::memcpy(out, &index, 4);
  out[4] = static_cast<std::byte>(dtype);
  out[5] = static_cast<std::byte>(readonly ? kReadOnlyFlag : 0);
  out[6] = static_cast<std::byte>(ndim);
  out[7] = std::byte{0};
  std::memcpy(out + 8, &byte_offset, 8);
  std::memcpy(out + 16, shape.data(), 8 * ndim);
  std::memcpy(out + 16 + 8 * ndim, strides.data(), 8 * ndim);
}

}  // namespace

void encode_meta(const TensorMeta& meta, std::byte* out) noexcept {
  encode(meta.index, meta.dtype, meta.readonly, meta.byte_offset, meta.shape, meta.strides, out);
}

void encode_tensor(const Tensor& tensor, std::uint32_t index, std::byte* out) noexcept {
  encode(index, tensor.dtype(), tensor.readonly(), tensor.byte_offset(), tensor.shape(), tensor.strides(),
         out);
}

Result<TensorMeta> decode_meta(std::span<const std::byte> bytes) {
  Description its;
  if (Status status = its.read(bytes); !status) return status;
  const std::optional<std::int64_t> dense = tensor::dense_count(its.shape(), its.strides());
  if (!dense || !tensor::is_within(*dense, item_size(its.dtype), 0, INT64_MAX)) {
    if (Result<tensor::Extent> extent = tensor::byte_extent(its.shape(), its.strides(), item_size(its.dtype));
        !extent)
      return corrupt(std::string(extent.status().what()));
  }
  return TensorMeta{its.index(),       its.dtype,         its.readonly,
                    its.byte_offset(), Dims(its.shape()), Dims(its.strides())};
}

Result<Tensor> decode_tensor(std::span<const std::byte> bytes, std::shared_ptr<Storage> storage) {
  Description its;
  if (Status status = its.read(bytes); !status) return status;
  const std::optional<std::int64_t> dense = tensor::dense_count(its.shape(), its.strides());
  if (dense && storage &&
      tensor::is_within(*dense, item_size(its.dtype), its.byte_offset(), storage->bytes()) &&
      (reinterpret_cast<std::uintptr_t>(storage->data()) + its.byte_offset()) % alignment(its.dtype) == 0)
      [[likely]] {
    return detail::TensorAccess::make(std::move(storage), its.byte_offset(), *dense, its.shape(),
                                      its.strides(), its.dtype, its.readonly);
  }
  // The general function takes any strides, and says what is wrong.
  Result<Tensor> tensor = tensor::wrap_strided(std::move(storage), its.dtype, Dims(its.shape()),
                                               Dims(its.strides()), its.byte_offset(), its.readonly);
  if (!tensor) return corrupt(std::string(tensor.status().what()));
  return tensor;
}

std::optional<std::uint32_t> index_of(std::span<const std::byte> bytes) noexcept {
  std::uint32_t index = 0;
  if (bytes.size() < sizeof index) return std::nullopt;
  std::memcpy(&index, bytes.data(), sizeof index);
  return index;
}

Result<Tensor> tensor_over(TensorMeta meta, std::shared_ptr<Storage> storage) {
  Result<Tensor> tensor = tensor::wrap_strided(std::move(storage), meta.dtype, std::move(meta.shape),
                                               std::move(meta.strides), meta.byte_offset, meta.readonly);
  if (!tensor) return corrupt(std::string(tensor.status().what()));
  return tensor;
}

}  // namespace forklift::inline abi_0_1::wire
