// queues: structs, structs with strings inside, bounded queues, waits that end.
#include <forklift/multiprocessing.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

struct Pose {  // numbers only: travels as its bytes
  double x, y, heading;
};

struct Job {  // anything else: one line says what travels
  std::string name;
  std::vector<std::string> tags;
  std::optional<std::vector<double>> weights;
};
template <>
struct forklift::ValueTraits<Job> : forklift::Fields<&Job::name, &Job::tags, &Job::weights> {};

int main(int argc, char** argv) {
  using namespace std::chrono_literals;
  forklift::init(argc, argv);

  forklift::Queue<Pose> poses({.capacity = 2});  // a full queue makes put() wait
  forklift::JoinableQueue<Job> jobs;             // knows what is done
  auto worker = forklift::Process::fork([&] {
                  for (int i = 0; i < 5; ++i) poses.put({i * 0.5, 0, 90});
                  for (const Job& job : jobs) {  // until it is closed
                    std::printf("%s, %zu tags\n", job.name.c_str(), job.tags.size());
                    std::fflush(stdout);
                    jobs.task_done();
                  }
                }).start();

  double way = 0;
  while (const std::optional<Pose> pose = poses.try_get(200ms)) way = pose->x;  // until none comes
  std::printf("went %.1f\n", way);

  jobs.put({.name = "first", .tags = {"a", "b"}, .weights = {}});
  jobs.put({.name = "last", .tags = {}, .weights = std::vector<double>{0.5}});
  jobs.join();
  jobs.close();
  worker.join();

  std::jthread listener([&](const std::stop_token& stop) {
    while (poses.try_get({1h, stop})) {  // for an hour, or until it is asked to stop
    }
    std::printf("stopped\n");
  });
}
