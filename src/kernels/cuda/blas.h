// Products of matrices by cuBLAS, where that library is installed.
//
//   if (Blas* blas = Blas::takes(DType::kFloat32, parameters) ? Blas::find() : nullptr)
//     status = blas->multiply(queue, DType::kFloat32, parameters);
//
// libcublas is opened with dlopen() when a product is first needed: a copy that the process has loaded already, such as
// torch's, else the one that the linker finds, else that of NVIDIA's Python packages, if Forklift is installed beside them.
// FORKLIFT_LIBCUBLAS names another file; if it is empty, cuBLAS is not used.
// Each context has a handle of its own, which is never destroyed.
//
// float16 and bfloat16 are added up in float32, also between the parts of a sum, and float32 is multiplied as such and not
// in TF32: the results are the CPU's up to the order of the additions.
//
// Errors: kDevice, with cuBLAS's function and its number of the error.
// Thread safety: all functions; the products of one context are queued one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/cuda/work_queue.h"
#include "forklift/dtype.h"
#include "forklift/status.h"
#include "kernels/cuda/parameters.h"

namespace forklift::inline abi_0_1::kernels::cuda {

// Where NVIDIA's Python packages would have libcublas, if `library` (a file of Forklift's) is in the same site-packages.
std::vector<std::string> cublas_beside(const std::string& library);

class Blas {
 public:
  // Null: there is none in this process, and none can be loaded.
  static Blas* find();
  // Floats and complex numbers, whose lengths and steps have 32 bits, as cuBLAS's own numbers.
  static bool takes(DType dtype, const MatmulParameters& parameters) noexcept;

  // All matrices of the stack. The steps of `a` and `b` are such that rows or columns have no gaps.
  Status multiply(const device::cuda::Queue& queue, DType dtype, const MatmulParameters& parameters);

 private:
  using Handle = struct BlasHandle*;
  struct Functions {
    int (*create)(Handle* handle) = nullptr;
    int (*set_stream)(Handle handle, device::cuda::Stream stream) = nullptr;
    int (*set_math_mode)(Handle handle, int mode) = nullptr;
    int (*gemm_strided_batched_ex)(Handle handle, int a_turned, int b_turned, int rows, int columns,
                                   int depth, const void* alpha, const void* a, int a_type, int a_step,
                                   long long a_stride, const void* b, int b_type, int b_step,
                                   long long b_stride, const void* beta, void* out, int out_type,
                                   int out_step, long long out_stride, int count, int compute_type,
                                   int algorithm) = nullptr;
  };
  explicit Blas(const Functions& functions) noexcept : functions_(functions) {}
  static Blas* load();
  Result<Handle> handle_of(const device::cuda::Queue& queue);

  const Functions functions_;
  std::mutex mutex_;
  struct Known {
    device::cuda::Context context;
    Handle handle;
  };
  std::vector<Known> handles_;
};

}  // namespace forklift::inline abi_0_1::kernels::cuda
