// The kernels of one GPU: loaded when they are first needed, and launched on its queue.
//
//   Result<Launcher> launcher = Launcher::of(*device->queue());
//   MapParameters parameters = ...;                            // kernels/cuda/parameters.h
//   Status queued = launcher->launch(map_kernel(DType::kFloat32), blocks, 1, parameters);
//
// A module is loaded once for each context, and stays loaded as long as the context exists. launch() returns when the
// kernel is queued; what fails while it runs, the driver reports from a later call.
//
// Errors: kUnsupported: this build has no kernels, or they cannot run on this GPU with this driver; kNoSpace, kDevice,
// kBrokenByFork: as device/cuda/driver.h.
// Thread safety: all functions.
#pragma once

#include <cstdint>
#include <optional>

#include "device/cuda/work_queue.h"
#include "forklift/dtype.h"
#include "forklift/status.h"
#include "kernels/cuda/parameters.h"
#include "kernels/opcodes.h"

namespace forklift::inline abi_0_1::kernels::cuda {

// In the order of kNames in launcher.cpp.
enum class Kernel : std::uint8_t {
  kMapI64,
  kMapU64,
  kMapF32,
  kMapF64,
  kMapC64,
  kMapC128,
  kDirectI32,
  kDirectI64,
  kDirectF16,
  kDirectBf16,
  kDirectF32,
  kDirectF64,
  kCopy1,
  kCopy2,
  kCopy4,
  kCopy8,
  kCopy16,
  kTranspose1,
  kTranspose2,
  kTranspose4,
  kTranspose8,
  kTranspose16,
  kReduceI64,
  kReduceU64,
  kReduceF64,
  kReduceC128,
  kExtremeI64,
  kExtremeU64,
  kExtremeF64,
  kMatmulU8,
  kMatmulU16,
  kMatmulU32,
  kMatmulU64,
  kMatmulF16,
  kMatmulBf16,
  kMatmulF32,
  kMatmulF64,
  kMatmulC64,
  kMatmulC128
};
inline constexpr std::size_t kKernels = 39;
const char* name(Kernel kernel) noexcept;

// The kernel that computes in the type that holds elements of `computed`, which is a loop's dtype and so neither float16
// nor bfloat16.
Kernel map_kernel(DType computed) noexcept;
// Of elements of this dtype alone; nothing for most.
std::optional<Kernel> direct_kernel(DType dtype) noexcept;
Kernel copy_kernel(std::size_t item_size) noexcept;
Kernel transpose_kernel(std::size_t item_size) noexcept;
// Of a reduction that accumulates in `accumulator`: int64, uint64, float64 or complex128.
Kernel reduce_kernel(DType accumulator) noexcept;
Kernel extreme_kernel(DType accumulator) noexcept;
// Nothing: bool.
std::optional<Kernel> matmul_kernel(DType dtype) noexcept;
// The rows and columns of the result that a block of it computes.
std::int64_t matmul_tile(Kernel kernel) noexcept;

// The type among those four in which a reduction of `dtype` accumulates.
DType accumulator_on_gpu(ReduceOp op, DType dtype) noexcept;

// Complex numbers have fewer functions here than on the CPU.
bool is_on_gpu(UnaryOp op, DType dtype) noexcept;
bool is_on_gpu(BinaryOp op, DType dtype) noexcept;

// May direct kernels compute operation number `op` (MapParameters::op)?
bool is_direct(std::uint16_t op, DType dtype) noexcept;

class Launcher {
 public:
  static Result<Launcher> of(const device::cuda::Queue& queue);

  // `blocks` along x, of kBlock threads each.
  template <class Parameters>
  Status launch(Kernel kernel, std::int64_t blocks, std::int64_t blocks_y,
                const Parameters& parameters) const {
    return launch_with(kernel, blocks, blocks_y, &parameters);
  }
  // Bytes without gaps, on the same device.
  Status copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) const;
  Status set_bytes(std::uint64_t to, unsigned char value, std::size_t bytes) const;

  const device::cuda::Queue& queue() const noexcept { return queue_; }

 private:
  class Modules;
  Launcher(const device::cuda::Queue& queue, Modules& modules) noexcept : queue_(queue), modules_(&modules) {}
  Status launch_with(Kernel kernel, std::int64_t blocks, std::int64_t blocks_y, const void* parameters) const;

  device::cuda::Queue queue_;
  Modules* modules_;
};

// The largest gridDim.x; loops in the kernels go on behind it.
inline constexpr std::int64_t kMostBlocks = INT32_MAX;
inline std::int64_t blocks_for(std::int64_t threads) noexcept {
  const std::int64_t blocks = threads / kBlock + (threads % kBlock != 0 ? 1 : 0);
  return blocks < kMostBlocks ? blocks : kMostBlocks;
}

}  // namespace forklift::inline abi_0_1::kernels::cuda
