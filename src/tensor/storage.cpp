#include "tensor/storage.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

namespace forklift::inline abi_0_1::tensor {
namespace {

constexpr std::size_t kCacheLine = 64;

class HeapStorage final : public Storage {
 public:
  HeapStorage(void* data, std::size_t bytes) noexcept : Storage(data, bytes) {}
  ~HeapStorage() override { std::free(data()); }
};

class BorrowedStorage final : public Storage {
 public:
  BorrowedStorage(void* data, std::size_t bytes, std::shared_ptr<const void> owner) noexcept
      : Storage(data, bytes), owner_(std::move(owner)) {}

 private:
  std::shared_ptr<const void> owner_;
};

}  // namespace

Result<std::shared_ptr<Storage>> heap_storage(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(PTRDIFF_MAX) - kCacheLine) {
    return {Code::kInvalid, std::to_string(bytes) + " bytes are more than an address space holds"};
  }
  const std::size_t rounded = std::max((bytes + kCacheLine - 1) / kCacheLine * kCacheLine, kCacheLine);
  void* data = std::aligned_alloc(kCacheLine, rounded);
  if (data == nullptr) return Status::system("aligned_alloc", ENOMEM, std::to_string(bytes) + " bytes");
  return std::shared_ptr<Storage>(std::make_shared<HeapStorage>(data, bytes));
}

Result<std::shared_ptr<Storage>> borrowed_storage(void* data, std::size_t bytes,
                                                  std::shared_ptr<const void> owner) {
  if (data == nullptr && bytes != 0)
    return {Code::kInvalid, "no address for " + std::to_string(bytes) + " bytes"};
  if (reinterpret_cast<std::uintptr_t>(data) > UINTPTR_MAX - bytes) {
    return {Code::kInvalid, std::to_string(bytes) + " bytes reach beyond the address space"};
  }
  return std::shared_ptr<Storage>(std::make_shared<BorrowedStorage>(data, bytes, std::move(owner)));
}

}  // namespace forklift::inline abi_0_1::tensor
