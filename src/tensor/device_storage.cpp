#include "tensor/device_storage.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "device/cuda/gpu.h"
#include "tensor/arena_storage.h"
#include "tensor/extent.h"
#include "tensor/operations.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::tensor {
namespace {

// The storages of this process's GPUs, by their address: what another library was given comes back as what it is.
class Known {
 public:
  static Known& instance() {
    static auto* const made = new Known;  // never destroyed: storages of static tensors may outlive main
    return *made;
  }
  void add(const std::shared_ptr<Storage>& storage) {
    const std::lock_guard held(mutex_);
    by_address_[detail::StorageAccess::address(*storage)] = storage;
  }
  // Only of a storage that was added, and nobody finds any more.
  void remove(const Storage& storage) noexcept {
    const std::lock_guard held(mutex_);
    const auto at = by_address_.find(detail::StorageAccess::address(storage));
    if (at != by_address_.end() && at->second.expired()) by_address_.erase(at);
  }
  std::shared_ptr<Storage> find(const std::byte* memory, std::size_t bytes) {
    const std::lock_guard held(mutex_);
    auto next = by_address_.upper_bound(memory);
    if (next == by_address_.begin()) return nullptr;
    std::shared_ptr<Storage> storage = std::prev(next)->second.lock();
    if (storage == nullptr) return nullptr;
    const auto offset = static_cast<std::size_t>(memory - detail::StorageAccess::address(*storage));
    return offset <= storage->bytes() && bytes <= storage->bytes() - offset ? storage : nullptr;
  }

 private:
  std::mutex mutex_;
  std::map<const std::byte*, std::weak_ptr<Storage>> by_address_;
};

class DeviceStorage final : public Storage {
 public:
  // Memory that this process has allocated.
  DeviceStorage(std::shared_ptr<device::Device> device, void* memory, std::size_t bytes) noexcept
      : Storage(memory, bytes), device_(std::move(device)), origin_(Origin::kAllocated) {
    detail::StorageAccess::mark_device(*this);
  }
  // Memory that was received.
  DeviceStorage(device::Opened opened, arena::LeasePtr lease) noexcept
      : Storage(opened.memory, lease->size()),
        device_(std::move(opened.device)),
        origin_(Origin::kReceived),
        lease_(std::move(lease)) {
    detail::StorageAccess::mark_device(*this);
  }
  // Memory of another library of this process.
  DeviceStorage(std::shared_ptr<device::Device> device, void* memory, std::size_t bytes,
                std::shared_ptr<const void> owner) noexcept
      : Storage(memory, bytes),
        device_(std::move(device)),
        origin_(Origin::kForeign),
        owner_(std::move(owner)) {
    detail::StorageAccess::mark_device(*this);
  }
  ~DeviceStorage() override {
    // A forked child has neither use of the device nor, for certain, the lock of the table.
    if (device_->gpu() != nullptr && origin_ != Origin::kForeign && device_->usable())
      Known::instance().remove(*this);
    // When the last lease or owner goes, others may write here: nothing may be under way that this process has queued.
    if (lease_ != nullptr || owner_ != nullptr) (void)device_->complete();
    lease_.reset();
    if (origin_ == Origin::kAllocated) device_->free(detail::StorageAccess::address(*this), bytes());
  }

  const std::shared_ptr<device::Device>& device() const noexcept { return device_; }

  Status check() const {
    if (Status status = device_->usable(); !status) return status;
    return origin_ == Origin::kReceived ? device::check_origin(*lease_) : Status();
  }

  const void* arena_lease() const noexcept override {
    const std::lock_guard held(sharing_);
    return lease_ != nullptr ? &lease_ : nullptr;
  }

  // The lease does not change once it is there.
  Result<const arena::LeasePtr*> share() const {
    const std::lock_guard held(sharing_);
    if (lease_ != nullptr) return &lease_;
    void* const memory = detail::StorageAccess::address(*this);
    Result<arena::LeasePtr> made = origin_ == Origin::kForeign
                                       ? device_->share_foreign(memory, bytes(), owner_)
                                       : device_->share(memory, bytes());
    if (!made) return made.status();
    lease_ = *std::move(made);
    return &lease_;
  }

 private:
  enum class Origin : std::uint8_t {
    kAllocated,
    kReceived,
    kForeign
  };
  const std::shared_ptr<device::Device> device_;
  const Origin origin_;
  const std::shared_ptr<const void> owner_;
  mutable std::mutex sharing_;
  mutable arena::LeasePtr lease_;
};

// Only DeviceStorage marks itself.
const DeviceStorage& as_device_storage(const Storage& storage) noexcept {
  return static_cast<const DeviceStorage&>(storage);
}

// Has the memory of which a tensor is a part registered as a whole, so that the copies of its parts find it. Not if the
// tensor is a small part of much memory.
void expect_copies(device::Device& device, const Tensor& tensor) {
  constexpr std::size_t kAlways = std::size_t{256} << 20;
  constexpr std::size_t kShare = 4;
  const Storage& storage = *tensor.storage();
  if (device.gpu() == nullptr || tensor.nbytes() < device::cuda::PinnedArena::kSmallest) return;
  if (storage.bytes() <= kAlways || storage.bytes() / kShare <= tensor.nbytes())
    device.gpu()->expect_copies(detail::StorageAccess::address(storage), storage.bytes());
}

}  // namespace

const std::shared_ptr<device::Device>* device_of(const Tensor& tensor) noexcept {
  const Storage* const storage = tensor.storage().get();
  return storage != nullptr && storage->on_device() ? &as_device_storage(*storage).device() : nullptr;
}

Result<Tensor> on_device(const std::shared_ptr<device::Device>& device, Dims shape, DType dtype) {
  if (device == nullptr) return in_arena(shape, dtype, false);
  const Result<std::int64_t> bytes = byte_count(shape, item_size(dtype));
  if (!bytes) return bytes.status();
  // A tensor without elements lies somewhere, too.
  const std::size_t size = *bytes == 0 ? 1 : static_cast<std::size_t>(*bytes);
  Result<void*> memory = device->allocate(size);
  if (!memory) return memory.status();
  std::shared_ptr<Storage> storage = std::make_shared<DeviceStorage>(device, *memory, size);
  if (device->gpu() != nullptr) Known::instance().add(storage);
  return wrap(std::move(storage), dtype, std::move(shape));
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
  if (device != nullptr) expect_copies(*device, tensor);
  std::byte* const to = detail::StorageAccess::address(*made->storage());
  const std::byte* const source = detail::StorageAccess::address(*tensor.storage()) + tensor.byte_offset();
  Status copied = device != nullptr ? device->copy_in(to, source, tensor.nbytes())
                                    : (*from)->copy_out(to, source, tensor.nbytes());
  if (!copied) return copied;
  return made;
}

Result<const arena::LeasePtr*> share_device_memory(const Storage& storage) {
  const DeviceStorage& memory = as_device_storage(storage);
  if (Status status = memory.check(); !status) return status;
  if (memory.device()->gpu() == nullptr) return refuse_cpu(storage);
  if (device::handover_waits()) {
    if (Status status = memory.device()->complete(); !status) return status;
  }
  return memory.share();
}

Result<SharedPart> share_part(int ordinal, void* memory, std::size_t bytes, std::uintptr_t stream,
                              const std::shared_ptr<const void>& owner) {
  const Result<std::shared_ptr<device::Device>> device = device::open_gpu(ordinal);
  if (!device) return device.status();
  if (Status status = (*device)->usable(); !status) return status;
  device::cuda::Gpu& gpu = *(*device)->gpu();
  const auto other = reinterpret_cast<device::cuda::Stream>(stream);
  Status ordered = device::handover_waits() ? gpu.wait_for(other) : gpu.order_after(other);
  if (!ordered) return ordered;
  if (const std::shared_ptr<Storage> known = find_on_device(memory, bytes)) {
    const Result<const arena::LeasePtr*> lease = share_device_memory(*known);
    if (!lease) return lease.status();
    const auto begin = static_cast<std::byte*>(memory) - detail::StorageAccess::address(*known);
    return SharedPart{**lease, static_cast<std::size_t>(begin)};
  }
  // Forklift's own operations on it.
  if (device::handover_waits()) {
    if (Status done = gpu.complete(); !done) return done;
  }
  Result<arena::LeasePtr> lease = gpu.share_foreign(memory, bytes, owner);
  if (!lease) return lease.status();
  return SharedPart{*std::move(lease), 0};
}

int gpu_of(const Storage& storage) noexcept {
  if (!storage.on_device()) return -1;
  device::cuda::Gpu* const gpu = as_device_storage(storage).device()->gpu();
  return gpu == nullptr ? -1 : gpu->ordinal();
}

Result<std::shared_ptr<Storage>> foreign_on_device(int ordinal, void* memory, std::size_t bytes,
                                                   std::shared_ptr<const void> owner) {
  Result<std::shared_ptr<device::Device>> device = device::open_gpu(ordinal);
  if (!device) return device.status();
  return std::shared_ptr<Storage>(
      std::make_shared<DeviceStorage>(*std::move(device), memory, bytes, std::move(owner)));
}

Result<std::shared_ptr<Storage>> received_on_device(arena::LeasePtr lease) {
  Result<device::Opened> opened = device::open_shared(*lease);
  if (!opened) return opened.status();
  std::shared_ptr<Storage> storage = std::make_shared<DeviceStorage>(*std::move(opened), std::move(lease));
  Known::instance().add(storage);
  return storage;
}

std::shared_ptr<Storage> find_on_device(const void* memory, std::size_t bytes) {
  return Known::instance().find(static_cast<const std::byte*>(memory), bytes);
}

Status check_usable(const Tensor& tensor) {
  return device_of(tensor) == nullptr ? Status() : as_device_storage(*tensor.storage()).check();
}

Status refuse_cpu(const Storage& storage) {
  const device::Device& device = *as_device_storage(storage).device();
  if (Status status = device.usable(); !status) return status;
  return {Code::kInvalid,
          "the tensor lies on " + device.name() + ", which the CPU cannot touch: copy it with to(\"CPU\")"};
}

}  // namespace forklift::inline abi_0_1::tensor
