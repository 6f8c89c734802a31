#include "kernels/cuda/blas.h"

#include <dlfcn.h>

#include <climits>
#include <cstdlib>
#include <string>

namespace forklift::inline abi_0_1::kernels::cuda {
namespace {

using device::cuda::Current;
using device::cuda::Queue;

// Numbers of cublas_api.h and library_types.h, which are part of the library's binary interface.
constexpr int kNotTurned = 0;          // CUBLAS_OP_N
constexpr int kTurned = 1;             // CUBLAS_OP_T
constexpr int kDefaultAlgorithm = -1;  // CUBLAS_GEMM_DEFAULT
constexpr int kCompute32 = 68;         // CUBLAS_COMPUTE_32F
constexpr int kCompute64 = 70;         // CUBLAS_COMPUTE_64F
constexpr int kAccurateSums = 16;  // CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, and the default mode

struct Types {
  int data;     // cudaDataType_t
  int compute;  // cublasComputeType_t
};

Types types_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat16: return {2, kCompute32};
    case DType::kBFloat16: return {14, kCompute32};
    case DType::kFloat32: return {0, kCompute32};
    case DType::kFloat64: return {1, kCompute64};
    case DType::kComplex64: return {4, kCompute32};
    default: return {5, kCompute64};  // complex128
  }
}

// One and zero in the type of the computation, which is complex for complex matrices.
struct Scalars {
  alignas(16) unsigned char one[16] = {};
  alignas(16) unsigned char zero[16] = {};

  explicit Scalars(DType dtype) noexcept {
    if (types_of(dtype).compute == kCompute64) {
      const double number = 1;
      __builtin_memcpy(one, &number, sizeof number);
    } else {
      const float number = 1;
      __builtin_memcpy(one, &number, sizeof number);
    }
  }
};

// cuBLAS has columns one behind the other where we have rows: it computes the turned product of the turned operands.
struct Turned {
  int operation;
  int step;
};
Turned turned(const std::int64_t (&steps)[2], std::int64_t rows, std::int64_t columns) noexcept {
  // A step is at least the length that it steps over, also where there is only one row to step to.
  if (steps[1] == 1 && (steps[0] >= columns || rows == 1))
    return {kNotTurned, static_cast<int>(rows == 1 ? columns : steps[0])};
  return {kTurned, static_cast<int>(columns == 1 ? rows : steps[1])};
}

void* open_library() {
  if (const char* const named = std::getenv("FORKLIFT_LIBCUBLAS"); named != nullptr)
    return *named == '\0' ? nullptr : ::dlopen(named, RTLD_NOW | RTLD_LOCAL);
  constexpr const char* kVersions[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"};
  for (const int loading : {RTLD_NOLOAD, 0}) {
    for (const char* const version : kVersions) {
      if (void* const library = ::dlopen(version, RTLD_NOW | RTLD_LOCAL | loading)) return library;
    }
  }
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&open_library), &own) == 0 || own.dli_fname == nullptr)
    return nullptr;
  for (const std::string& path : cublas_beside(own.dli_fname)) {
    if (void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

template <class Function>
bool resolve(void* library, const char* name, Function& place) {
  place = reinterpret_cast<Function>(::dlsym(library, name));
  return place != nullptr;
}

Status failure(const char* function, int error) {
  return {Code::kDevice, std::string(function) + ": cublasStatus_t " + std::to_string(error)};
}

}  // namespace

std::vector<std::string> cublas_beside(const std::string& library) {
  std::vector<std::string> paths;
  // forklift/_core.so, or forklift/cpp/lib/libforklift.so: site-packages is the folder of one of the folders above.
  std::string folder = library;
  for (int level = 0; level < 4; ++level) {
    const std::size_t slash = folder.rfind('/');
    if (slash == std::string::npos || slash == 0) break;
    folder.resize(slash);
    if (level == 0) continue;
    paths.push_back(folder + "/nvidia/cu13/lib/libcublas.so.13");
    paths.push_back(folder + "/nvidia/cublas/lib/libcublas.so.12");
    paths.push_back(folder + "/nvidia/cublas/lib/libcublas.so.11");
  }
  return paths;
}

bool Blas::takes(DType dtype, const MatmulParameters& p) noexcept {
  const auto fits = [](std::int64_t number) { return number >= 0 && number <= INT_MAX; };
  return dtype >= DType::kFloat16 && fits(p.rows) && fits(p.columns) && fits(p.depth) && fits(p.a_steps[0]) &&
         fits(p.a_steps[1]) && fits(p.b_steps[0]) && fits(p.b_steps[1]) && fits(p.out_row_step);
}

Blas* Blas::find() {
  static Blas* const instance = load();  // never destroyed
  return instance;
}

Blas* Blas::load() {
  void* const library = open_library();
  if (library == nullptr) return nullptr;
  Functions functions;
  if (!resolve(library, "cublasCreate_v2", functions.create) ||
      !resolve(library, "cublasSetStream_v2", functions.set_stream) ||
      !resolve(library, "cublasSetMathMode", functions.set_math_mode) ||
      !resolve(library, "cublasGemmStridedBatchedEx", functions.gemm_strided_batched_ex))
    return nullptr;
  return new Blas(functions);
}

Result<Blas::Handle> Blas::handle_of(const Queue& queue) {
  for (const Known& each : handles_) {
    if (each.context == queue.context) return each.handle;
  }
  Handle handle = nullptr;
  if (const int error = functions_.create(&handle); error != 0) return failure("cublasCreate", error);
  if (const int error = functions_.set_math_mode(handle, kAccurateSums); error != 0)
    return failure("cublasSetMathMode", error);
  handles_.push_back({queue.context, handle});
  return handle;
}

Status Blas::multiply(const Queue& queue, DType dtype, const MatmulParameters& p) {
  const Current current(*queue.driver, queue.context);
  if (!current.status()) return current.status();
  const std::lock_guard held(mutex_);
  Result<Handle> handle = handle_of(queue);
  if (!handle) return handle.status();
  if (const int error = functions_.set_stream(*handle, queue.stream); error != 0)
    return failure("cublasSetStream", error);
  const auto item = static_cast<std::int64_t>(item_size(dtype));
  const Turned a = turned(p.a_steps, p.rows, p.depth);
  const Turned b = turned(p.b_steps, p.depth, p.columns);
  const Types types = types_of(dtype);
  const Scalars scalars(dtype);
  // One call for the matrices along the innermost dimension of the stack.
  const int inner = p.stack.ndim - 1;
  const std::int64_t count = p.stack.ndim == 0 ? 1 : p.stack.lengths[inner];
  if (count > INT_MAX) return {Code::kUnsupported, "more than 2^31 matrices"};
  const auto step = [&](int array) { return p.stack.ndim == 0 ? 0 : p.stack.steps[array][inner]; };
  for (std::int64_t first = 0; first < p.stack.size; first += count) {
    std::uint64_t places[3] = {p.a, p.b, p.out};
    std::int64_t rest = first / count;
    for (int dim = inner - 1; dim >= 0; --dim) {
      for (int k = 0; k < 3; ++k)
        places[k] += static_cast<std::uint64_t>(rest % p.stack.lengths[dim] * p.stack.steps[k][dim]);
      rest /= p.stack.lengths[dim];
    }
    const int error = functions_.gemm_strided_batched_ex(
        *handle, b.operation, a.operation, static_cast<int>(p.columns), static_cast<int>(p.rows),
        static_cast<int>(p.depth), scalars.one, reinterpret_cast<const void*>(places[1]), types.data, b.step,
        step(1) / item, reinterpret_cast<const void*>(places[0]), types.data, a.step, step(0) / item,
        scalars.zero, reinterpret_cast<void*>(places[2]), types.data,
        static_cast<int>(p.rows == 1 ? p.columns : p.out_row_step), step(2) / item, static_cast<int>(count),
        types.compute, kDefaultAlgorithm);
    if (error != 0) return failure("cublasGemmStridedBatchedEx", error);
  }
  return {};
}

}  // namespace forklift::inline abi_0_1::kernels::cuda
