#include "kernels/opcodes.h"
// The order matters: the words of the language come before what uses them.
#include "host_kernels/run.h"
#include "host_kernels/table.h"
#include "kernels/cuda/map.cu"

namespace forklift::inline abi_0_1::device::cuda::fake {

std::vector<FakeCudaFunction> map_kernels() {
  using Map = Entry<kernels::cuda::MapParameters>;
  using Direct = Entry<kernels::cuda::DirectParameters>;
  using Copy = Entry<kernels::cuda::CopyParameters>;
  using Transpose = Entry<kernels::cuda::TransposeParameters>;
  return {Map::of<forklift_map_i64>("forklift_map_i64"),
          Map::of<forklift_map_u64>("forklift_map_u64"),
          Map::of<forklift_map_f32>("forklift_map_f32"),
          Map::of<forklift_map_f64>("forklift_map_f64"),
          Map::of<forklift_map_c64>("forklift_map_c64"),
          Map::of<forklift_map_c128>("forklift_map_c128"),
          Direct::of<forklift_direct_i32, 4>("forklift_direct_i32"),
          Direct::of<forklift_direct_i64, 8>("forklift_direct_i64"),
          Direct::of<forklift_direct_f16, 2>("forklift_direct_f16"),
          Direct::of<forklift_direct_bf16, 2>("forklift_direct_bf16"),
          Direct::of<forklift_direct_f32, 4>("forklift_direct_f32"),
          Direct::of<forklift_direct_f64, 8>("forklift_direct_f64"),
          Copy::of<forklift_copy_1, 1>("forklift_copy_1"),
          Copy::of<forklift_copy_2, 2>("forklift_copy_2"),
          Copy::of<forklift_copy_4, 4>("forklift_copy_4"),
          Copy::of<forklift_copy_8, 8>("forklift_copy_8"),
          Copy::of<forklift_copy_16, 16>("forklift_copy_16"),
          Transpose::of<forklift_transpose_1, 1>("forklift_transpose_1"),
          Transpose::of<forklift_transpose_2, 2>("forklift_transpose_2"),
          Transpose::of<forklift_transpose_4, 4>("forklift_transpose_4"),
          Transpose::of<forklift_transpose_8, 8>("forklift_transpose_8"),
          Transpose::of<forklift_transpose_16, 16>("forklift_transpose_16")};
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake
