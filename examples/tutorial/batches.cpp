// batches: many small messages in one call.
#include <forklift/multiprocessing.h>

#include <array>
#include <cstdio>
#include <span>
#include <vector>

struct Tick {
  int number;
  double price;
};

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  forklift::Queue<Tick> ticks({.capacity = 10'000});
  auto exchange = forklift::Process::fork([&] {
                    std::vector<Tick> some;
                    for (int i = 0; i < 1000; ++i) {
                      some.push_back({i, 100 + i * 0.5});
                      if (some.size() < 64) continue;
                      ticks.put_many(some);
                      some.clear();
                    }
                    ticks.put_many(some);
                    ticks.close();
                  }).start();

  std::array<Tick, 128> into;
  double sum = 0;
  int calls = 0;
  try {
    for (;; ++calls) {
      const std::size_t count = ticks.get_many(into);  // 1 to 128: waits for the first only
      for (const Tick& tick : std::span(into).first(count)) sum += tick.price;
    }
  } catch (const forklift::Closed&) {
  }
  std::printf("mean %.2f, in fewer calls: %s\n", sum / 1000, calls < 1000 ? "yes" : "no");

  forklift::Queue<int> small({.capacity = 3});
  const std::vector<int> numbers = {1, 2, 3, 4, 5};
  std::printf("%zu of 5 had room\n", small.try_put_many(numbers));  // the first ones
  exchange.join();
}
