// broadcast: one copy for all readers; and the newest value of something that changes all the time.
#include <forklift/broadcast.h>
#include <forklift/latest.h>
#include <forklift/multiprocessing.h>

#include <cstdio>
#include <vector>

struct Pose {
  double x, y;
};

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  forklift::Broadcast<int> ticks({.capacity = 8, .when_slow = forklift::WhenSlow::kWait});
  forklift::Latest<Pose> pose;
  forklift::Queue<int> sums;
  std::vector<forklift::Process> viewers;
  for (int id = 0; id < 2; ++id) {
    viewers.push_back(forklift::Process::fork([&] {
                        auto stream = ticks.subscribe();
                        int sum = 0;
                        for (const int tick : stream) sum += tick;  // until close()
                        sums.put(sum);
                      }).start());
  }
  ticks.wait_for_readers(2);
  for (int tick = 1; tick <= 100; ++tick) {
    ticks.put(tick);
    pose.put({.x = 0.1 * tick, .y = 0});
  }
  ticks.close();
  for (forklift::Process& viewer : viewers) viewer.join();
  const int first = sums.get();
  const int second = sums.get();
  const Pose newest = pose.get();
  std::printf("every reader saw all: %d, %d; at %.1f now\n", first, second, newest.x);
  return first == 5050 && second == 5050 ? 0 : 1;
}
