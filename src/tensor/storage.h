// Memory for tensors that is not in the arena: Storage::heap and Storage::borrow of forklift/tensor.h, as Results.
//
//   Result<std::shared_ptr<Storage>> memory = heap_storage(1 << 20);
//
// Thread safety: as any Storage.
#pragma once

#include <cstddef>
#include <memory>

#include "forklift/status.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::tensor {

// kInvalid: more than an address space holds. kSystem: there is no memory.
Result<std::shared_ptr<Storage>> heap_storage(std::size_t bytes);
// kInvalid: no address, or memory that reaches beyond the address space.
Result<std::shared_ptr<Storage>> borrowed_storage(void* data, std::size_t bytes,
                                                  std::shared_ptr<const void> owner = nullptr);

}  // namespace forklift::inline abi_0_1::tensor
