#include "tensor/dlpack.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "tensor/device_storage.h"
#include "tensor/device_use.h"
#include "tensor/extent.h"
#include "tensor/operations.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::dlpack {
namespace {

// The ABI, as the specification's header lays it out on a 64-bit machine.
static_assert(sizeof(DataType) == 4 && sizeof(Device) == 8 && sizeof(Version) == 8);
static_assert(sizeof(PlainTensor) == 48 && offsetof(PlainTensor, dtype) == 20 &&
              offsetof(PlainTensor, shape) == 24);
static_assert(sizeof(ManagedTensor) == 64 && offsetof(ManagedTensor, deleter) == 56);
static_assert(sizeof(ManagedTensorVersioned) == 80 && offsetof(ManagedTensorVersioned, deleter) == 16 &&
              offsetof(ManagedTensorVersioned, tensor) == 32);

// What an export lives in: the structure that is handed out and the tensor that it points into.
template <class Managed>
struct Exported {
  Managed managed;
  Tensor tensor;
  tensor::DeviceUse use;  // of a tensor on a GPU: the stream on which the consumer works with it

  static void destroy(Managed* self) {
    if (self != nullptr) delete static_cast<Exported*>(self->manager_context);
  }
};

template <class Managed>
Result<Managed*> export_as(const Tensor& tensor, std::optional<std::intptr_t> stream) {
  Result<tensor::DeviceUse> use = tensor::DeviceUse::begin(tensor, stream);
  if (!use) return use.status();
  auto exported = std::make_unique<Exported<Managed>>();
  exported->use = *std::move(use);
  exported->managed = {};
  exported->tensor = tensor;
  Tensor& kept = exported->tensor;
  PlainTensor& plain = exported->managed.tensor;
  const int gpu = exported->use.ordinal();
  plain.data = gpu < 0 ? kept.raw() : detail::StorageAccess::address(*kept.storage()) + kept.byte_offset();
  plain.device = gpu < 0 ? Device{kCpu, 0} : Device{kCuda, gpu};
  plain.ndim = static_cast<std::int32_t>(kept.ndim());
  plain.dtype = to_dlpack(kept.dtype());
  // Consumers must not write through these; the structure just was not declared const.
  plain.shape = const_cast<std::int64_t*>(kept.shape().data());
  plain.strides = const_cast<std::int64_t*>(kept.strides().data());
  plain.byte_offset = 0;
  exported->managed.manager_context = exported.get();
  exported->managed.deleter = &Exported<Managed>::destroy;
  return &exported.release()->managed;
}

// Calls a managed tensor's deleter in the end, once it has adopted it: before, a refusal leaves it to the caller.
template <class Managed>
class Adopted {
 public:
  Adopted() = default;
  ~Adopted() {
    if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
  }
  Adopted(const Adopted&) = delete;
  Adopted& operator=(const Adopted&) = delete;
  void adopt(Managed* managed) noexcept { managed_ = managed; }

 private:
  Managed* managed_ = nullptr;
};

// Memory of the CPU that a managed tensor owns.
template <class Managed>
class ImportedStorage final : public Storage {
 public:
  ImportedStorage(void* data, std::size_t bytes) noexcept : Storage(data, bytes) {}
  void adopt(Managed* managed) noexcept { owner_.adopt(managed); }

 private:
  Adopted<Managed> owner_;
};

bool is_cpu(const Device& device) noexcept { return device.type == kCpu || device.type == kCudaHost; }

// A tensor over memory whose owner adopts `managed` when the tensor is made.
template <class Managed>
Result<Tensor> over_memory(Managed* managed, std::byte* lowest, std::size_t bytes, DType dtype, Dims shape,
                           Dims strides, std::size_t offset, bool readonly) {
  const Device& device = managed->tensor.device;
  if (is_cpu(device)) {
    auto storage = std::make_shared<ImportedStorage<Managed>>(lowest, bytes);
    Result<Tensor> tensor =
        tensor::wrap_strided(storage, dtype, std::move(shape), std::move(strides), offset, readonly);
    if (tensor) storage->adopt(managed);
    return tensor;
  }
  // Of Forklift's own memory the storage keeps itself, and can be sent on; the managed tensor is not needed.
  if (const std::shared_ptr<Storage> known = tensor::find_on_device(lowest, bytes)) {
    const auto begin = static_cast<std::size_t>(lowest - detail::StorageAccess::address(*known));
    Result<Tensor> tensor =
        tensor::wrap_strided(known, dtype, std::move(shape), std::move(strides), begin + offset, readonly);
    Adopted<Managed> done;
    if (tensor) done.adopt(managed);
    return tensor;
  }
  auto owner = std::make_shared<Adopted<Managed>>();
  Result<std::shared_ptr<Storage>> storage = tensor::foreign_on_device(device.id, lowest, bytes, owner);
  if (!storage) return storage.status();
  Result<Tensor> tensor = tensor::wrap_strided(*std::move(storage), dtype, std::move(shape),
                                               std::move(strides), offset, readonly);
  if (tensor) owner->adopt(managed);
  return tensor;
}

template <class Managed>
Result<Tensor> import_as(Managed* managed, bool readonly) {
  const PlainTensor& plain = managed->tensor;
  if (!is_cpu(plain.device) && plain.device.type != kCuda) {
    return {Code::kUnsupported, "DLPack tensor on device type " + std::to_string(plain.device.type) +
                                    ", only CPU (1), CUDA (2) and CUDA host memory (3) can be taken"};
  }
  const std::optional<DType> dtype = from_dlpack(plain.dtype);
  if (!dtype) {
    return {Code::kUnsupported, "DLPack type code " + std::to_string(plain.dtype.code) + " of " +
                                    std::to_string(plain.dtype.bits) + " bits and " +
                                    std::to_string(plain.dtype.lanes) + " lanes"};
  }
  if (plain.ndim < 0 || plain.ndim > static_cast<std::int32_t>(kMaxDims)) {
    return {Code::kInvalid, "DLPack tensor with " + std::to_string(plain.ndim) + " dimensions"};
  }
  const auto ndim = static_cast<std::size_t>(plain.ndim);
  if (ndim > 0 && plain.shape == nullptr) return {Code::kInvalid, "DLPack tensor without a shape"};
  Dims shape(DimSpan(plain.shape, ndim));
  if (Result<std::int64_t> count = tensor::numel(shape); !count) return count.status();
  Dims strides = plain.strides == nullptr ? c_strides(shape) : Dims(DimSpan(plain.strides, ndim));
  const Result<tensor::Extent> extent = tensor::byte_extent(shape, strides, item_size(*dtype));
  if (!extent) return extent.status();

  const auto bytes = static_cast<std::size_t>(extent->high - extent->low);
  const auto base = reinterpret_cast<std::uintptr_t>(plain.data);
  std::uintptr_t first = 0;
  if (bytes != 0) {
    if (plain.data == nullptr) return {Code::kInvalid, "DLPack tensor without data"};
    const auto before = static_cast<std::uintptr_t>(-extent->low);
    if (__builtin_add_overflow(base, plain.byte_offset, &first) || before > first ||
        first - before > UINTPTR_MAX - bytes) {
      return {Code::kInvalid, "DLPack tensor that reaches beyond the address space"};
    }
    if (first % alignment(*dtype) != 0) {
      return {Code::kUnsupported, "DLPack " + std::string(name(*dtype)) +
                                      " at an address that is no multiple of " +
                                      std::to_string(alignment(*dtype))};
    }
    first -= before;
  }
  // From the producer's pointer, not from the number, so that the compiler keeps knowing whose memory it is.
  std::byte* lowest = bytes == 0 ? nullptr : static_cast<std::byte*>(plain.data) + (first - base);
  return over_memory(managed, lowest, bytes, *dtype, std::move(shape), std::move(strides),
                     static_cast<std::size_t>(-extent->low), readonly);
}

}  // namespace

DataType to_dlpack(DType dtype) noexcept {
  const auto bits = static_cast<std::uint8_t>(item_size(dtype) * 8);
  switch (dtype) {
    case DType::kBool: return {kBool, bits, 1};
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64: return {kInt, bits, 1};
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64: return {kUInt, bits, 1};
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64: return {kFloat, bits, 1};
    case DType::kBFloat16: return {kBfloat, bits, 1};
    case DType::kComplex64:
    case DType::kComplex128: return {kComplex, bits, 1};
  }
  return {kOpaque, 0, 0};
}

std::optional<DType> from_dlpack(DataType type) noexcept {
  for (std::uint8_t code = kFirstDType; code <= kLastDType; ++code) {
    const auto dtype = static_cast<DType>(code);
    const DataType mine = to_dlpack(dtype);
    if (mine.code == type.code && mine.bits == type.bits && mine.lanes == type.lanes) return dtype;
  }
  return std::nullopt;
}

std::string_view type_name(DataType type) noexcept {
  if (const std::optional<DType> dtype = from_dlpack(type)) return name(*dtype);
  if (type.lanes != 1 || type.bits != 8) return {};
  switch (type.code) {
    case kFloat8E3M4: return "float8_e3m4";
    case kFloat8E4M3: return "float8_e4m3";
    case kFloat8E4M3B11Fnuz: return "float8_e4m3b11fnuz";
    case kFloat8E4M3Fn: return "float8_e4m3fn";
    case kFloat8E4M3Fnuz: return "float8_e4m3fnuz";
    case kFloat8E5M2: return "float8_e5m2";
    case kFloat8E5M2Fnuz: return "float8_e5m2fnuz";
    case kFloat8E8M0Fnu: return "float8_e8m0fnu";
    default: return {};
  }
}

}  // namespace forklift::inline abi_0_1::dlpack

namespace forklift::inline abi_0_1::tensor {

Result<dlpack::ManagedTensorVersioned*> export_versioned(const Tensor& tensor, bool copied,
                                                         std::optional<std::intptr_t> stream) {
  Result<dlpack::ManagedTensorVersioned*> managed =
      dlpack::export_as<dlpack::ManagedTensorVersioned>(tensor, stream);
  if (!managed) return managed;
  (*managed)->version = dlpack::kVersion;
  (*managed)->flags = (tensor.readonly() ? dlpack::kReadOnly : 0) | (copied ? dlpack::kIsCopied : 0);
  return managed;
}

Result<dlpack::ManagedTensor*> export_legacy(const Tensor& tensor, std::optional<std::intptr_t> stream) {
  if (tensor.readonly()) {
    return {Code::kUnsupported,
            "a read-only tensor needs DLPack 1.0: the unversioned structure has no flag for it"};
  }
  return dlpack::export_as<dlpack::ManagedTensor>(tensor, stream);
}

Result<Tensor> import_versioned(dlpack::ManagedTensorVersioned* managed) {
  if (managed == nullptr) return {Code::kInvalid, "no DLPack tensor"};
  if (managed->version.major != dlpack::kVersion.major) {  // nothing behind the version may be looked at
    return {Code::kVersion, "DLPack " + std::to_string(managed->version.major) + "." +
                                std::to_string(managed->version.minor) + ", this library knows 1.x"};
  }
  return dlpack::import_as(managed, (managed->flags & dlpack::kReadOnly) != 0);
}

Result<Tensor> import_legacy(dlpack::ManagedTensor* managed) {
  if (managed == nullptr) return {Code::kInvalid, "no DLPack tensor"};
  return dlpack::import_as(managed, false);
}

}  // namespace forklift::inline abi_0_1::tensor
