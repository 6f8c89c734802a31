// loans: large messages that are written and read where they lie, in shared memory.
#include <forklift/multiprocessing.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <vector>

struct Frame {
  std::uint64_t number;
  std::array<std::uint8_t, 1920 * 1080> pixels;
};

struct Scan {  // a header; its points follow
  double time;
};

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  forklift::Queue<Frame> frames({.capacity = 4});
  forklift::Queue<std::vector<float>> samples;
  forklift::Queue<forklift::Framed<Scan, float>> scans;
  auto camera = forklift::Process::fork([&] {
                  for (std::uint64_t i = 0; i < 3; ++i) {
                    auto frame = frames.loan();  // memory of the arena, not cleared
                    frame->number = i;
                    frame->pixels.fill(static_cast<std::uint8_t>(i));
                    frame.publish();  // a handle goes through the queue
                  }
                  auto part = samples.loan(1000);  // a slice
                  std::fill(part.begin(), part.end(), 0.5F);
                  part.publish();
                  auto scan = scans.loan(360);
                  scan->time = 1.25;
                  std::fill(scan.items().begin(), scan.items().end(), 2.0F);
                  scan.publish();
                }).start();

  std::uint64_t sum = 0;
  for (int i = 0; i < 3; ++i) {
    const auto frame = frames.get_loaned();  // Loaned<const Frame>: the memory that the camera wrote
    sum += frame->number + frame->pixels.back();
  }
  const auto part = samples.get_loaned();
  const auto scan = scans.get_loaned();
  camera.join();
  std::printf("%llu, %zu samples, %zu points at %.2f\n", static_cast<unsigned long long>(sum), part.size(),
              scan.items().size(), scan->time);
  return sum == 6 && part[999] == 0.5F && scan.items()[359] == 2.0F ? 0 : 1;
}
