// tensors: one memory in several processes; only handles travel.
#include <forklift/multiprocessing.h>

#include <cstdint>
#include <cstdio>
#include <utility>

using forklift::DType;
using forklift::Tensor;
using forklift::value_or_throw;

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  forklift::Queue<Tensor> frames;
  auto camera = forklift::Process::fork([&] {
                  Tensor frame = value_or_throw(Tensor::zeros({1080, 1920, 3}, DType::kUInt8));
                  *frame.at<std::uint8_t>({0, 0, 0}) = 255;
                  frames.put(std::move(frame));  // given away: the child may end at once
                }).start();
  const Tensor frame = frames.get();
  camera.join();
  std::printf("%s, first value %d\n", frame.to_string().c_str(), *frame.at<std::uint8_t>({0, 0, 0}));

  const Tensor top = value_or_throw(frame.narrow(0, 0, 100));  // a view: the same memory
  auto painter =
      forklift::Process::fork([&] { forklift::throw_if_failed(Tensor(top).fill<std::uint8_t>(9)); }).start();
  painter.join();
  std::printf("painted by another process: %d\n", *frame.at<std::uint8_t>({99, 5, 1}));
}
