// As much of cuBLAS as Forklift calls, for tests: products of matrices that are queued on a stream of the fake driver.
//
// Matrices have columns one behind the other. The product is computed as the documentation of cublasGemmStridedBatchedEx says,
// "C + i strideC = alpha op(A + i strideA) op(B + i strideB) + beta (C + i strideC)", element by element in double.
#include <dlfcn.h>

#include <complex>
#include <cstdlib>
#include <cstring>

#include "device/cuda/api.h"
#include "forklift/dtype.h"
#include "kernel_table.h"

namespace {

using forklift::device::cuda::CudaError;
using forklift::device::cuda::Function;
using forklift::device::cuda::Module;
using forklift::device::cuda::Stream;
using Number = std::complex<double>;

// cublasStatus_t
constexpr int kSuccess = 0;
constexpr int kNotInitialized = 1;
constexpr int kInvalidValue = 7;
constexpr int kExecutionFailed = 13;

struct Matrix {
  unsigned long long address;
  long long stride;
  int step;  // between columns
  int turned;
};

struct Product {
  Matrix a;
  Matrix b;
  Matrix out;
  int rows;
  int columns;
  int depth;
  int count;
  int type;  // cudaDataType_t
};

std::size_t size_of(int type) {
  switch (type) {
    case 2:
    case 14: return 2;
    case 0: return 4;
    case 1:
    case 4: return 8;
    default: return 16;
  }
}

Number read(int type, const char* from) {
  switch (type) {
    case 2: return static_cast<double>(static_cast<float>(*reinterpret_cast<const forklift::Float16*>(from)));
    case 14:
      return static_cast<double>(static_cast<float>(*reinterpret_cast<const forklift::BFloat16*>(from)));
    case 0: return static_cast<double>(*reinterpret_cast<const float*>(from));
    case 1: return *reinterpret_cast<const double*>(from);
    case 4: return Number(*reinterpret_cast<const std::complex<float>*>(from));
    default: return *reinterpret_cast<const Number*>(from);
  }
}

void write(int type, char* to, Number number) {
  const auto single = static_cast<float>(number.real());
  switch (type) {
    case 2: *reinterpret_cast<forklift::Float16*>(to) = forklift::Float16(single); return;
    case 14: *reinterpret_cast<forklift::BFloat16*>(to) = forklift::BFloat16(single); return;
    case 0: *reinterpret_cast<float*>(to) = single; return;
    case 1: *reinterpret_cast<double*>(to) = number.real(); return;
    case 4: *reinterpret_cast<std::complex<float>*>(to) = std::complex<float>(number); return;
    default: *reinterpret_cast<Number*>(to) = number;
  }
}

// Where the host finds the matrix, which has so many rows and columns before it is turned; null: not all is mapped.
template <class Find>
auto found(const Matrix& matrix, int number, int rows, int columns, std::size_t item, Find find) {
  const auto elements = static_cast<std::size_t>(matrix.step) * static_cast<std::size_t>(columns - 1) +
                        static_cast<std::size_t>(rows);
  const auto offset = static_cast<unsigned long long>(number * matrix.stride * static_cast<long long>(item));
  return find(matrix.address + offset, elements * item);
}

void multiply(void** parameters, const unsigned*, const unsigned*, const FakeCudaLaunch* launch) {
  Product p;
  std::memcpy(&p, parameters[0], sizeof p);
  const std::size_t item = size_of(p.type);
  for (int number = 0; number < p.count; ++number) {
    const auto input = [launch](unsigned long long address, std::size_t bytes) {
      return static_cast<const char*>(launch->input(launch, address, bytes));
    };
    const auto output = [launch](unsigned long long address, std::size_t bytes) {
      return static_cast<char*>(launch->memory(launch, address, bytes));
    };
    const char* const a = found(p.a, number, p.a.turned != 0 ? p.depth : p.rows,
                                p.a.turned != 0 ? p.rows : p.depth, item, input);
    const char* const b = found(p.b, number, p.b.turned != 0 ? p.columns : p.depth,
                                p.b.turned != 0 ? p.depth : p.columns, item, input);
    char* const out = found(p.out, number, p.rows, p.columns, item, output);
    if (a == nullptr || b == nullptr || out == nullptr) return;
    const auto at = [item](const Matrix& matrix, int row, int column) {
      const int first = matrix.turned != 0 ? column : row;
      const int second = matrix.turned != 0 ? row : column;
      return (static_cast<std::size_t>(second) * static_cast<std::size_t>(matrix.step) +
              static_cast<std::size_t>(first)) *
             item;
    };
    for (int row = 0; row < p.rows; ++row) {
      for (int column = 0; column < p.columns; ++column) {
        Number sum = 0;
        for (int k = 0; k < p.depth; ++k)
          sum += read(p.type, a + at(p.a, row, k)) * read(p.type, b + at(p.b, k, column));
        write(p.type, out + at(p.out, row, column), sum);
      }
    }
  }
}

constexpr std::size_t kSizes[] = {sizeof(Product)};
constexpr FakeCudaFunction kFunctions[] = {{"multiply", multiply, 1, kSizes}};
constexpr FakeCudaImage kImage = {FAKE_CUDA_MAGIC, 1, kFunctions};

struct Handle {
  void* driver;
  Function function;
  Stream stream;
  int math_mode;
};

template <class F>
F* symbol(void* driver, const char* name) {
  return reinterpret_cast<F*>(::dlsym(driver, name));
}

}  // namespace

#define FAKE_CUBLAS extern "C" __attribute__((visibility("default")))

FAKE_CUBLAS int cublasCreate_v2(Handle** handle) {
  const char* const path = std::getenv("FORKLIFT_LIBCUDA");
  void* const driver = path == nullptr ? nullptr : ::dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return kNotInitialized;
  Module module = nullptr;
  Function function = nullptr;
  if (symbol<CudaError(Module*, const void*)>(driver, "cuModuleLoadData")(&module, &kImage) !=
          CudaError::kSuccess ||
      symbol<CudaError(Function*, Module, const char*)>(driver, "cuModuleGetFunction")(
          &function, module, "multiply") != CudaError::kSuccess)
    return kNotInitialized;
  *handle = new Handle{driver, function, nullptr, 0};
  return kSuccess;
}

FAKE_CUBLAS int cublasSetStream_v2(Handle* handle, Stream stream) {
  handle->stream = stream;
  return kSuccess;
}

FAKE_CUBLAS int cublasSetMathMode(Handle* handle, int mode) {
  handle->math_mode = mode;
  return kSuccess;
}

FAKE_CUBLAS int cublasGemmStridedBatchedEx(Handle* handle, int a_turned, int b_turned, int rows, int columns,
                                           int depth, const void* alpha, const void* a, int a_type,
                                           int a_step, long long a_stride, const void* b, int b_type,
                                           int b_step, long long b_stride, const void* beta, void* out,
                                           int out_type, int out_step, long long out_stride, int count,
                                           int compute_type, int) {
  constexpr int kCompute32 = 68;
  constexpr int kCompute64 = 70;
  const bool wide = out_type == 1 || out_type == 5;
  if (a_type != out_type || b_type != out_type || compute_type != (wide ? kCompute64 : kCompute32))
    return kInvalidValue;
  // "lda >= max(1, m) if transa == CUBLAS_OP_N, and lda >= max(1, k) otherwise", and so for the others.
  if (a_step < (a_turned != 0 ? depth : rows) || b_step < (b_turned != 0 ? columns : depth) ||
      out_step < rows)
    return kInvalidValue;
  const double one =
      wide ? *static_cast<const double*>(alpha) : static_cast<double>(*static_cast<const float*>(alpha));
  const double zero =
      wide ? *static_cast<const double*>(beta) : static_cast<double>(*static_cast<const float*>(beta));
  if (one != 1 || zero != 0) return kInvalidValue;  // what Forklift asks for
  const auto number = [](const void* memory) { return reinterpret_cast<unsigned long long>(memory); };
  Product product{{number(a), a_stride, a_step, a_turned},
                  {number(b), b_stride, b_step, b_turned},
                  {number(out), out_stride, out_step, 0},
                  rows,
                  columns,
                  depth,
                  count,
                  out_type};
  void* parameters[] = {&product};
  const auto launch = symbol<CudaError(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                       unsigned, Stream, void**, void**)>(handle->driver, "cuLaunchKernel");
  const CudaError error = launch(handle->function, 1, 1, 1, 1, 1, 1, 0, handle->stream, parameters, nullptr);
  return error == CudaError::kSuccess ? kSuccess : kExecutionFailed;
}
