#include "kernels/opcodes.h"
// The order matters: the words of the language come before what uses them.
#include "host_kernels/run.h"
#include "host_kernels/table.h"
#include "kernels/cuda/reduce.cu"

namespace forklift::inline abi_0_1::device::cuda::fake {

std::vector<FakeCudaFunction> reduce_kernels() {
  using Reduce = Entry<kernels::cuda::ReduceParameters>;
  return {Reduce::of<forklift_reduce_i64, 8>("forklift_reduce_i64"),
          Reduce::of<forklift_reduce_u64, 8>("forklift_reduce_u64"),
          Reduce::of<forklift_reduce_f64, 8>("forklift_reduce_f64"),
          Reduce::of<forklift_reduce_c128, 16>("forklift_reduce_c128"),
          Reduce::of<forklift_extreme_i64, 16>("forklift_extreme_i64"),
          Reduce::of<forklift_extreme_u64, 16>("forklift_extreme_u64"),
          Reduce::of<forklift_extreme_f64, 16>("forklift_extreme_f64")};
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake
