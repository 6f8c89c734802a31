#include "kernels/cuda/launcher.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/images.h"
#include "kernels/loops.h"

namespace forklift::inline abi_0_1::kernels::cuda {
namespace {

using device::cuda::CudaError;
using device::cuda::Current;
using device::cuda::Driver;
using device::cuda::Function;
using device::cuda::Module;
using device::cuda::Queue;

constexpr std::array<const char*, kKernels> kNames = {
    "forklift_map_i64",     "forklift_map_u64",      "forklift_map_f32",     "forklift_map_f64",
    "forklift_map_c64",     "forklift_map_c128",     "forklift_direct_i32",  "forklift_direct_i64",
    "forklift_direct_f16",  "forklift_direct_bf16",  "forklift_direct_f32",  "forklift_direct_f64",
    "forklift_copy_1",      "forklift_copy_2",       "forklift_copy_4",      "forklift_copy_8",
    "forklift_copy_16",     "forklift_transpose_1",  "forklift_transpose_2", "forklift_transpose_4",
    "forklift_transpose_8", "forklift_transpose_16", "forklift_reduce_i64",  "forklift_reduce_u64",
    "forklift_reduce_f64",  "forklift_reduce_c128",  "forklift_extreme_i64", "forklift_extreme_u64",
    "forklift_extreme_f64", "forklift_matmul_u8",    "forklift_matmul_u16",  "forklift_matmul_u32",
    "forklift_matmul_u64",  "forklift_matmul_f16",   "forklift_matmul_bf16", "forklift_matmul_f32",
    "forklift_matmul_f64",  "forklift_matmul_c64",   "forklift_matmul_c128"};
static_assert(static_cast<std::size_t>(Kernel::kMatmulC128) + 1 == kKernels);

Image image_with(Kernel kernel) noexcept {
  if (kernel >= Kernel::kMatmulU8) return Image::kMatmul;
  return kernel >= Kernel::kReduceI64 ? Image::kReduce : Image::kMap;
}

bool is_complex(DType dtype) noexcept { return dtype == DType::kComplex64 || dtype == DType::kComplex128; }

Result<Module> load(const Driver& driver, Image which) {
  Result<const void*> image = image_of(which);
  if (!image) return image.status();
  Module module = nullptr;
  const CudaError error = driver.functions().module_load_data(&module, *image);
  if (error == CudaError::kSuccess) return module;
  const Status failure = driver.failure("cuModuleLoadData", error);
  if (error != CudaError::kNoBinaryForGpu && error != CudaError::kInvalidPtx &&
      error != CudaError::kUnsupportedPtx)
    return failure;
  return {Code::kUnsupported,
          std::string(failure.what()) +
              ": the kernels of this build of Forklift need a GPU of compute capability 7.5 or newer, and a "
              "driver that is not older than the CUDA toolkit that compiled them"};
}

}  // namespace

// The modules of one context. Never unloaded: the context outlives whatever is queued on it.
class Launcher::Modules {
 public:
  explicit Modules(device::cuda::Context context) noexcept : context_(context) {}
  device::cuda::Context context() const noexcept { return context_; }

  // Precondition: the context is current.
  Result<Function> find(const Driver& driver, Kernel kernel) {
    std::atomic<Function>& place = functions_[static_cast<std::size_t>(kernel)];
    if (Function const found = place.load(std::memory_order_acquire)) [[likely]]
      return found;
    const std::lock_guard held(mutex_);
    Module& module = modules_[static_cast<std::size_t>(image_with(kernel))];
    if (module == nullptr) {
      Result<Module> loaded = load(driver, image_with(kernel));
      if (!loaded) return loaded.status();
      module = *loaded;
    }
    Function function = nullptr;
    if (Status status = driver.call("cuModuleGetFunction", driver.functions().module_get_function, &function,
                                    module, name(kernel));
        !status)
      return status;
    place.store(function, std::memory_order_release);
    return function;
  }

 private:
  const device::cuda::Context context_;
  std::mutex mutex_;
  std::array<Module, kImages> modules_{};
  std::array<std::atomic<Function>, kKernels> functions_{};
};

Result<Launcher> Launcher::of(const Queue& queue) {
  static std::mutex mutex;
  static auto* const all = new std::vector<std::unique_ptr<Modules>>;  // never destroyed
  const std::lock_guard held(mutex);
  for (const std::unique_ptr<Modules>& each : *all) {
    if (each->context() == queue.context) return Launcher(queue, *each);
  }
  all->push_back(std::make_unique<Modules>(queue.context));
  return Launcher(queue, *all->back());
}

Status Launcher::launch_with(Kernel kernel, std::int64_t blocks, std::int64_t blocks_y,
                             const void* parameters) const {
  const Driver& driver = *queue_.driver;
  const Current current(driver, queue_.context);
  if (!current.status()) return current.status();
  Result<Function> function = modules_->find(driver, kernel);
  if (!function) return function.status();
  // The driver copies the parameters before it returns.
  void* addresses[] = {const_cast<void*>(parameters)};
  return driver.call("cuLaunchKernel", driver.functions().launch_kernel, *function,
                     static_cast<unsigned>(blocks), static_cast<unsigned>(blocks_y), 1U, kBlock, 1U, 1U, 0U,
                     queue_.stream, static_cast<void**>(addresses), nullptr);
}

Status Launcher::copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) const {
  const Current current(*queue_.driver, queue_.context);
  if (!current.status()) return current.status();
  return queue_.driver->call("cuMemcpyDtoDAsync", queue_.driver->functions().memcpy_dtod_async, to, from,
                             bytes, queue_.stream);
}

Status Launcher::set_bytes(std::uint64_t to, unsigned char value, std::size_t bytes) const {
  const Current current(*queue_.driver, queue_.context);
  if (!current.status()) return current.status();
  return queue_.driver->call("cuMemsetD8Async", queue_.driver->functions().memset_d8_async, to, value, bytes,
                             queue_.stream);
}

const char* name(Kernel kernel) noexcept { return kNames[static_cast<std::size_t>(kernel)]; }

Kernel map_kernel(DType computed) noexcept {
  switch (computed) {
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64: return Kernel::kMapI64;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32: return Kernel::kMapF32;
    case DType::kFloat64: return Kernel::kMapF64;
    case DType::kComplex64: return Kernel::kMapC64;
    case DType::kComplex128: return Kernel::kMapC128;
    default: return Kernel::kMapU64;  // bool, too
  }
}

std::optional<Kernel> direct_kernel(DType dtype) noexcept {
  switch (dtype) {
    case DType::kInt32: return Kernel::kDirectI32;
    case DType::kInt64: return Kernel::kDirectI64;
    case DType::kFloat16: return Kernel::kDirectF16;
    case DType::kBFloat16: return Kernel::kDirectBf16;
    case DType::kFloat32: return Kernel::kDirectF32;
    case DType::kFloat64: return Kernel::kDirectF64;
    default: return std::nullopt;
  }
}

Kernel copy_kernel(std::size_t item_size) noexcept {
  switch (item_size) {
    case 1: return Kernel::kCopy1;
    case 2: return Kernel::kCopy2;
    case 4: return Kernel::kCopy4;
    case 8: return Kernel::kCopy8;
    default: return Kernel::kCopy16;
  }
}

Kernel transpose_kernel(std::size_t item_size) noexcept {
  constexpr int kDistance = static_cast<int>(Kernel::kTranspose1) - static_cast<int>(Kernel::kCopy1);
  return static_cast<Kernel>(static_cast<int>(copy_kernel(item_size)) + kDistance);
}

Kernel reduce_kernel(DType accumulator) noexcept {
  switch (accumulator) {
    case DType::kInt64: return Kernel::kReduceI64;
    case DType::kUInt64: return Kernel::kReduceU64;
    case DType::kFloat64: return Kernel::kReduceF64;
    default: return Kernel::kReduceC128;
  }
}

Kernel extreme_kernel(DType accumulator) noexcept {
  switch (accumulator) {
    case DType::kInt64: return Kernel::kExtremeI64;
    case DType::kUInt64: return Kernel::kExtremeU64;
    default: return Kernel::kExtremeF64;
  }
}

std::optional<Kernel> matmul_kernel(DType dtype) noexcept {
  switch (dtype) {
    case DType::kInt8:
    case DType::kUInt8: return Kernel::kMatmulU8;
    case DType::kInt16:
    case DType::kUInt16: return Kernel::kMatmulU16;
    case DType::kInt32:
    case DType::kUInt32: return Kernel::kMatmulU32;
    case DType::kInt64:
    case DType::kUInt64: return Kernel::kMatmulU64;
    case DType::kFloat16: return Kernel::kMatmulF16;
    case DType::kBFloat16: return Kernel::kMatmulBf16;
    case DType::kFloat32: return Kernel::kMatmulF32;
    case DType::kFloat64: return Kernel::kMatmulF64;
    case DType::kComplex64: return Kernel::kMatmulC64;
    case DType::kComplex128: return Kernel::kMatmulC128;
    default: return std::nullopt;
  }
}

std::int64_t matmul_tile(Kernel kernel) noexcept {
  return kernel >= Kernel::kMatmulF16 && kernel <= Kernel::kMatmulF64 ? 64 : 32;
}

DType accumulator_on_gpu(ReduceOp op, DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64: return DType::kFloat64;
    case DType::kComplex64:
    case DType::kComplex128: return DType::kComplex128;
    // A sum of bools is signed.
    case DType::kBool: return op == ReduceOp::kSum || op == ReduceOp::kProd ? DType::kInt64 : DType::kUInt64;
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64: return DType::kUInt64;
    default: return DType::kInt64;
  }
}

bool is_on_gpu(UnaryOp op, DType dtype) noexcept {
  if (!is_complex(dtype) || op < UnaryOp::kExp || op > UnaryOp::kErf) return true;
  return op == UnaryOp::kExp || op == UnaryOp::kLog || op == UnaryOp::kLog2 || op == UnaryOp::kLog10;
}

bool is_on_gpu(BinaryOp op, DType dtype) noexcept { return !is_complex(dtype) || op != BinaryOp::kPow; }

bool is_direct(std::uint16_t op, DType dtype) noexcept {
  const bool whole = dtype == DType::kInt32 || dtype == DType::kInt64;
  if (op < kBinaryBase) {
    switch (static_cast<UnaryOp>(op)) {
      case UnaryOp::kPositive:
      case UnaryOp::kNegative:
      case UnaryOp::kAbs:
      case UnaryOp::kSquare: return true;
      case UnaryOp::kSqrt: return !whole;
      default: return false;
    }
  }
  if (op >= kSelect) return false;
  const auto binary = static_cast<BinaryOp>(op - kBinaryBase);
  switch (binary) {
    case BinaryOp::kAdd:
    case BinaryOp::kSubtract:
    case BinaryOp::kMultiply:
    case BinaryOp::kMaximum:
    case BinaryOp::kMinimum: return true;
    case BinaryOp::kDivide: return !whole;
    default: return is_comparison(binary);
  }
}

}  // namespace forklift::inline abi_0_1::kernels::cuda
