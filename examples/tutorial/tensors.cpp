// tensors: one memory in several processes; only handles travel.
#include <forklift/multiprocessing.h>

#include <cstdint>
#include <cstdio>
#include <utility>

using forklift::DType;
using forklift::Tensor;

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  forklift::Queue<Tensor> frames;
  auto camera = forklift::Process::fork([&] {
                  Tensor frame = Tensor::zeros({1080, 1920, 3}, DType::kUInt8);
                  frame.at<std::uint8_t>({0, 0, 0}) = 255;
                  frames.put(std::move(frame));  // given away: the child may end at once
                }).start();
  const Tensor frame = frames.get();
  camera.join();
  std::printf("%s, first value %d\n", frame.to_string().c_str(), frame.at<std::uint8_t>({0, 0, 0}));

  const Tensor top = frame.narrow(0, 0, 100);  // a view: the same memory
  auto painter = forklift::Process::fork([&] {
                   auto pixels = top.view<std::uint8_t, 3>();
                   for (std::int64_t y = 0; y < pixels.extent(0); ++y)
                     for (std::int64_t x = 0; x < pixels.extent(1); ++x) pixels(y, x, 1) = 9;
                 }).start();
  painter.join();
  std::printf("painted by another process: %d\n", frame.at<std::uint8_t>({99, 5, 1}));
}
