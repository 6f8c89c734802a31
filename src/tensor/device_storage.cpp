#include "tensor/device_storage.h"

#include <string>
#include <utility>

#include "tensor/arena_storage.h"
#include "tensor/extent.h"
#include "tensor/operations.h"
#include "tensor/pending.h"

namespace forklift::tensor {
namespace {

class DeviceStorage final : public Storage {
 public:
  DeviceStorage(std::shared_ptr<device::Device> device, void* memory, std::size_t bytes) noexcept
      : Storage(memory, bytes), device_(std::move(device)) {
    detail::StorageAccess::mark_device(*this);
  }
  ~DeviceStorage() override { device_->free(detail::StorageAccess::address(*this), bytes()); }

  const std::shared_ptr<device::Device>& device() const noexcept { return device_; }

 private:
  const std::shared_ptr<device::Device> device_;
};

// Only DeviceStorage marks itself.
const DeviceStorage& as_device_storage(const Storage& storage) noexcept {
  return static_cast<const DeviceStorage&>(storage);
}

}  // namespace

const std::shared_ptr<device::Device>* device_of(const Tensor& tensor) noexcept {
  const Storage* const storage = tensor.storage().get();
  return storage != nullptr && storage->on_device() ? &as_device_storage(*storage).device() : nullptr;
}

Result<Tensor> on_device(const std::shared_ptr<device::Device>& device, Dims shape, DType dtype) {
  if (device == nullptr) return in_arena(std::move(shape), dtype, false);
  const Result<std::int64_t> bytes = byte_count(shape, item_size(dtype));
  if (!bytes) return bytes.status();
  // A tensor without elements lies somewhere, too.
  const std::size_t size = *bytes == 0 ? 1 : static_cast<std::size_t>(*bytes);
  Result<void*> memory = device->allocate(size);
  if (!memory) return memory.status();
  return wrap(std::make_shared<DeviceStorage>(device, *memory, size), dtype, std::move(shape));
}

Result<Tensor> move_to(const Tensor& tensor, const std::shared_ptr<device::Device>& device) {
  const std::shared_ptr<device::Device>* const from = device_of(tensor);
  if (from == nullptr ? device == nullptr : *from == device) return tensor;
  if (Status status = check_usable(tensor); !status) return status;
  if (from != nullptr && device != nullptr) {
    Result<Tensor> between = move_to(tensor, nullptr);
    return between ? move_to(*between, device) : between;
  }
  if (from == nullptr) {
    if (Status status = settle_for_reading(tensor); !status) return status;
  }
  Result<Tensor> made = on_device(device, tensor.shape(), tensor.dtype());
  if (!made || tensor.numel() == 0) return made;
  std::byte* const to = detail::StorageAccess::address(*made->storage());
  const std::byte* const source = detail::StorageAccess::address(*tensor.storage()) + tensor.byte_offset();
  if (device != nullptr) {
    device->copy_in(to, source, tensor.nbytes());
  } else {
    (*from)->copy_out(to, source, tensor.nbytes());
  }
  return made;
}

Status check_usable(const Tensor& tensor) {
  const std::shared_ptr<device::Device>* const device = device_of(tensor);
  return device == nullptr ? Status() : (*device)->usable();
}

Status refuse_cpu(const Storage& storage) {
  const device::Device& device = *as_device_storage(storage).device();
  if (Status status = device.usable(); !status) return status;
  return {Code::kInvalid,
          "the tensor lies on " + device.name() + ", which the CPU cannot touch: copy it with to(\"CPU\")"};
}

}  // namespace forklift::tensor
