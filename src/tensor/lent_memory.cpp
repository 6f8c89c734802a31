#include "tensor/lent_memory.h"

#include <map>
#include <memory>
#include <mutex>

#include "device/cuda/gpu.h"
#include "tensor/device_storage.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::tensor {
namespace {

struct Loan {
  std::shared_ptr<device::Device> device;
  std::shared_ptr<Storage> storage;
};

struct Loans {
  std::mutex mutex;
  std::map<void*, Loan> by_address;
};

// Never destroyed: the other library may give memory back while the program ends.
Loans& loans() {
  static auto* const made = new Loans;
  return *made;
}

device::cuda::Stream stream_of(std::uintptr_t number) noexcept {
  return reinterpret_cast<device::cuda::Stream>(number);
}

}  // namespace

Result<void*> lend_memory(int ordinal, std::size_t bytes, std::uintptr_t stream) {
  Result<std::shared_ptr<device::Device>> device = device::open_gpu(ordinal);
  if (!device) return device.status();
  const Result<Tensor> made = on_device(*device, {static_cast<std::int64_t>(bytes)}, DType::kUInt8);
  if (!made) return made.status();
  // Whoever had the memory before may still have work on Forklift's stream.
  if (Status ordered = (*device)->gpu()->order_before(stream_of(stream)); !ordered) return ordered;
  void* const memory = detail::StorageAccess::address(*made->storage());
  Loans& all = loans();
  const std::lock_guard held(all.mutex);
  all.by_address[memory] = {*std::move(device), made->storage()};
  return memory;
}

Status take_back_memory(void* memory, std::uintptr_t stream) {
  const device::cuda::Driver* const driver = device::cuda::Driver::existing();
  if (driver != nullptr && driver->is_forked()) return {};  // nor is the table's lock certain to be free
  Loan loan;
  {
    Loans& all = loans();
    const std::lock_guard held(all.mutex);
    const auto at = all.by_address.find(memory);
    if (at == all.by_address.end())
      return {Code::kInvalid, "device memory comes back that Forklift has not lent"};
    loan = std::move(at->second);
    all.by_address.erase(at);
  }
  device::cuda::Gpu& gpu = *loan.device->gpu();
  if (Status usable = gpu.usable(); !usable) return usable;
  // torch says the stream that it allocated the memory for, which may be gone.
  const bool is_default = stream == 0 || stream == device::cuda::kLegacyStreamNumber;
  Status ordered = is_default ? gpu.order_after(stream_of(stream)) : gpu.order_after_all();
  return ordered ? ordered : gpu.complete_all();
}

}  // namespace forklift::inline abi_0_1::tensor
