// A kernel that the host's compiler has compiled, as the fake driver runs it.
//
//   const FakeCudaFunction function = entry<forklift_copy_4, 4>("forklift_copy_4");
//
// The addresses in a kernel's parameters are the device's. Before it runs they are translated to where the fake reads and
// writes that memory; the range that the parameters describe must be mapped as a whole, or the launch fails as one with an
// illegal address does. What a kernel touches outside of it is reserved without access, and ends the test.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>

#include "host_kernels/device_language.h"
#include "host_kernels/fibers.h"
#include "kernel_table.h"
#include "kernels/cuda/parameters.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

// The bytes that elements occupy, relative to the first one's address.
struct Extent {
  std::int64_t low = 0;
  std::int64_t high = 0;  // behind the last byte

  Extent(std::int64_t item) : high(item) {}
  void add(std::int64_t length, std::int64_t step) {
    (step < 0 ? low : high) += (std::max<std::int64_t>(length, 1) - 1) * step;
  }
  void add(const kernels::cuda::Layout& layout, int array) {
    for (int dim = 0; dim < layout.ndim; ++dim) add(layout.lengths[dim], layout.steps[array][dim]);
  }
};

enum class Access {
  kRead,
  kWrite
};

// Replaces a device address by the host's. False: a part is not mapped, or may not be accessed so.
inline bool translate(std::uint64_t& address, const Extent& extent, const FakeCudaLaunch* launch,
                      Access access) {
  const std::uint64_t first = address + static_cast<std::uint64_t>(extent.low);
  const auto bytes = static_cast<std::size_t>(extent.high - extent.low);
  const void* const found =
      access == Access::kRead ? launch->input(launch, first, bytes) : launch->memory(launch, first, bytes);
  if (found == nullptr) return false;
  address = reinterpret_cast<std::uint64_t>(found) - static_cast<std::uint64_t>(extent.low);
  return true;
}

inline std::int64_t item_of(DType dtype) { return static_cast<std::int64_t>(item_size(dtype)); }

inline bool translate(kernels::cuda::MapParameters& p, std::size_t, const FakeCudaLaunch* launch) {
  for (int k = 0; k < kernels::cuda::kMostInputs; ++k) {
    if (p.inputs[k].address == 0) continue;
    Extent extent(item_of(p.inputs[k].dtype));
    extent.add(p.layout, k);
    if (!translate(p.inputs[k].address, extent, launch, Access::kRead)) return false;
  }
  Extent extent(item_of(p.out.dtype));
  extent.add(p.layout, kernels::cuda::kMostInputs);
  return translate(p.out.address, extent, launch, Access::kWrite);
}

inline bool translate(kernels::cuda::DirectParameters& p, std::size_t item, const FakeCudaLaunch* launch) {
  for (int k = 0; k < 2; ++k) {
    if (p.inputs[k].address == 0) continue;
    Extent extent(item_of(p.inputs[k].dtype));
    extent.add(p.size, p.steps[k] * item_of(p.inputs[k].dtype));
    if (!translate(p.inputs[k].address, extent, launch, Access::kRead)) return false;
  }
  const bool compares = p.op >= kernels::cuda::kBinaryBase + static_cast<unsigned>(kernels::BinaryOp::kEqual);
  return translate(p.out, Extent(p.size * (compares ? 1 : static_cast<std::int64_t>(item))), launch,
                   Access::kWrite);
}

inline bool translate(kernels::cuda::CopyParameters& p, std::size_t item, const FakeCudaLaunch* launch) {
  Extent from(static_cast<std::int64_t>(item));
  Extent to = from;
  from.add(p.layout, 0);
  to.add(p.layout, 1);
  return translate(p.from, from, launch, Access::kRead) && translate(p.to, to, launch, Access::kWrite);
}

inline bool translate(kernels::cuda::TransposeParameters& p, std::size_t item, const FakeCudaLaunch* launch) {
  Extent from(static_cast<std::int64_t>(item));
  Extent to = from;
  from.add(p.outer, 0);
  from.add(p.rows, static_cast<std::int64_t>(item));
  from.add(p.columns, p.from_step);
  to.add(p.outer, 1);
  to.add(p.rows, p.to_step);
  to.add(p.columns, static_cast<std::int64_t>(item));
  return translate(p.from, from, launch, Access::kRead) && translate(p.to, to, launch, Access::kWrite);
}

// `item`: of an accumulator.
inline bool translate(kernels::cuda::ReduceParameters& p, std::size_t item, const FakeCudaLaunch* launch) {
  Extent in(item_of(p.in_dtype));
  in.add(p.kept, 0);
  if (p.reduced.size > 0) in.add(p.reduced, 0);
  if (p.from_partial != 0) in = Extent(p.reduced.size * p.kept.size * static_cast<std::int64_t>(item));
  Extent out(item_of(p.out_dtype));
  out.add(p.kept, 1);
  if (p.to_partial != 0) out = Extent(p.parts * p.kept.size * static_cast<std::int64_t>(item));
  return (p.reduced.size == 0 || translate(p.in, in, launch, Access::kRead)) &&
         translate(p.out, out, launch, Access::kWrite);
}

inline bool translate(kernels::cuda::MatmulParameters& p, std::size_t item, const FakeCudaLaunch* launch) {
  const auto extent = [&](int array, std::int64_t rows, std::int64_t row, std::int64_t columns,
                          std::int64_t column) {
    Extent made(static_cast<std::int64_t>(item));
    made.add(rows, row * static_cast<std::int64_t>(item));
    made.add(columns, column * static_cast<std::int64_t>(item));
    made.add(p.stack, array);
    return made;
  };
  if (p.depth > 0 &&
      (!translate(p.a, extent(0, p.rows, p.a_steps[0], p.depth, p.a_steps[1]), launch, Access::kRead) ||
       !translate(p.b, extent(1, p.depth, p.b_steps[0], p.columns, p.b_steps[1]), launch, Access::kRead)))
    return false;
  return translate(p.out, extent(2, p.rows, p.out_row_step, p.columns, 1), launch, Access::kWrite);
}

template <class Parameters>
inline constexpr bool kHasBarriers = std::is_same_v<Parameters, kernels::cuda::TransposeParameters> ||
                                     std::is_same_v<Parameters, kernels::cuda::ReduceParameters> ||
                                     std::is_same_v<Parameters, kernels::cuda::MatmulParameters>;

template <class Parameters, void (*kernel)(Parameters), std::size_t item>
void run(void** parameters, const unsigned* grid, const unsigned* block, const FakeCudaLaunch* launch) {
  Parameters p;
  std::memcpy(&p, parameters[0], sizeof p);
  if (!translate(p, item, launch)) return;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  threadIdx = {0, 0, 0};
  static std::mutex sharing;  // of what a block of this kernel shares
  std::unique_lock<std::mutex> held(sharing, std::defer_lock);
  std::optional<Fibers> fibers;
  if (kHasBarriers<Parameters>) {
    held.lock();
    fibers.emplace(block[0]);
  }
  for (unsigned y = 0; y < grid[1]; ++y) {
    for (unsigned x = 0; x < grid[0]; ++x) {
      blockIdx = {x, y, 0};
      if constexpr (kHasBarriers<Parameters>) {
        fibers->run([&](unsigned) { kernel(p); });
      } else {
        for (threadIdx.x = 0; threadIdx.x < block[0]; ++threadIdx.x) kernel(p);
      }
    }
  }
}

template <class Parameters>
inline constexpr std::size_t kSizes[1] = {sizeof(Parameters)};

template <class Parameters>
struct Entry {
  template <void (*kernel)(Parameters), std::size_t item = 0>
  static FakeCudaFunction of(const char* name) {
    return {name, run<Parameters, kernel, item>, 1, kSizes<Parameters>};
  }
};

}  // namespace forklift::inline abi_0_1::device::cuda::fake
