// operations: arithmetic on tensors, computed by the library's own threads, on both sides of a fork.
#include <forklift/multiprocessing.h>
#include <forklift/ops.h>

#include <cstdio>
#include <iostream>

using forklift::DType;
using forklift::Tensor;
namespace ops = forklift::ops;

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  const Tensor x = ops::arange(0.0, 6.0).reshape({2, 3});
  const Tensor y = ops::log(x + 1) * 2;  // returns at once; whoever looks at y waits for it
  std::cout << ops::sum(y, {.axes = forklift::Dims{1}}) << '\n';

  const Tensor grid = Tensor::zeros({1000, 1000}, DType::kFloat32);
  ops::add(grid, 1, grid);  // the parent has computed, with all its threads, before it forks
  auto worker = forklift::Process::fork([&] {
                  const Tensor half = grid.narrow(0, 0, 500);
                  ops::multiply(half, 3, half);  // into the memory that both see
                }).start();
  worker.join();
  std::printf("mean %.1f\n", ops::mean(grid).at<float>({}));

  try {
    ops::add(x, ops::arange(0.0, 4.0));
  } catch (const forklift::Error& error) {
    std::printf("%s\n", error.what());
  }
}
