// The same training in one thread and in threads, without Forklift. See sgd.cpp.
#include <barrier>
#include <mutex>
#include <thread>

#include "sgd.h"

Training in_one_thread(const Data& data, std::int64_t steps) {
  std::vector<double> sums(kFeatures + 1);
  return train_part(data, steps, 0, 1, sums, [] {});
}

Training with_threads(const Data& data, std::int64_t steps, std::size_t threads) {
  std::mutex mutex;
  std::vector<double> shared(kFeatures + 1, 0.0);
  std::barrier all(static_cast<std::ptrdiff_t>(threads));
  std::vector<Training> trainings(threads);
  {
    std::vector<std::jthread> running;
    for (std::size_t part = 0; part < threads; ++part) {
      running.emplace_back([&, part] {
        std::vector<double> sums(kFeatures + 1);
        trainings[part] = train_part(data, steps, part, threads, sums, [&] {
          {
            const std::lock_guard lock(mutex);
            for (std::size_t i = 0; i < sums.size(); ++i) shared[i] += sums[i];
          }
          all.arrive_and_wait();
          std::ranges::copy(shared, sums.begin());
          all.arrive_and_wait();  // nobody reads it any more
          if (part == 0) std::ranges::fill(shared, 0.0);
          all.arrive_and_wait();
        });
      });
    }
  }
  Training slowest = trainings[0];
  for (const Training& each : trainings) slowest.seconds = std::max(slowest.seconds, each.seconds);
  return slowest;
}
