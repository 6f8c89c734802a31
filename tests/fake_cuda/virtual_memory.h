// Handles on allocations of virtual memory.
//
// A handle lives while it has references, by cuMemCreate, import or cuMemRetainAllocationHandle, or is mapped: "The
// generic memory handle can be freed when there are still outstanding mappings made with this handle"
// (cuMemRelease), and the one that is retained later "is guaranteed to be the same handle value used to map".
#pragma once

#include <map>
#include <memory>

#include "entry.h"
#include "physical.h"
#include "space.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

class VirtualMemory {
 public:
  Allocation add(std::shared_ptr<Physical> memory);
  // The memory of a handle that has references; null: none.
  std::shared_ptr<Physical> find(Allocation handle);
  CudaError release(Allocation handle);
  CudaError retain(Pointer address, Allocation* handle);

  CudaError map(Pointer address, std::size_t bytes, std::size_t offset, Allocation handle);
  CudaError unmap(Pointer address, std::size_t bytes);
  CudaError set_access(Pointer address, std::size_t bytes, const AccessDescription* access,
                       std::size_t count);
  CudaError free_addresses(Pointer address, std::size_t bytes);

  // Unmaps, frees and releases everything.
  void end();

  long handles() const;

 private:
  struct Handle {
    std::shared_ptr<Physical> memory;
    long references = 0;
    long mappings = 0;
  };
  void forget_unused(Allocation handle);

  std::map<Allocation, Handle> handles_;
  Allocation next_ = 0x7000'0001;
};

VirtualMemory& virtual_memory();

}  // namespace forklift::inline abi_0_1::device::cuda::fake
