#include "kernels/opcodes.h"
// The order matters: the words of the language come before what uses them.
#include "host_kernels/run.h"
#include "host_kernels/table.h"
#include "kernels/cuda/matmul.cu"

namespace forklift::inline abi_0_1::device::cuda::fake {

std::vector<FakeCudaFunction> matmul_kernels() {
  using Matmul = Entry<kernels::cuda::MatmulParameters>;
  return {Matmul::of<forklift_matmul_u8, 1>("forklift_matmul_u8"),
          Matmul::of<forklift_matmul_u16, 2>("forklift_matmul_u16"),
          Matmul::of<forklift_matmul_u32, 4>("forklift_matmul_u32"),
          Matmul::of<forklift_matmul_u64, 8>("forklift_matmul_u64"),
          Matmul::of<forklift_matmul_f16, 2>("forklift_matmul_f16"),
          Matmul::of<forklift_matmul_bf16, 2>("forklift_matmul_bf16"),
          Matmul::of<forklift_matmul_f32, 4>("forklift_matmul_f32"),
          Matmul::of<forklift_matmul_f64, 8>("forklift_matmul_f64"),
          Matmul::of<forklift_matmul_c64, 8>("forklift_matmul_c64"),
          Matmul::of<forklift_matmul_c128, 16>("forklift_matmul_c128")};
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake
