// containers: maps and vectors in shared memory, and locks that let readers in together.
#include <forklift/latch.h>
#include <forklift/multiprocessing.h>
#include <forklift/once.h>
#include <forklift/rw_lock.h>
#include <forklift/shared_counter.h>
#include <forklift/shared_map.h>
#include <forklift/shared_vector.h>

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <vector>

struct Price {
  double bid;
  double ask;
};

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  forklift::SharedMap<std::uint32_t, Price> prices(1000);  // room for 1,000; travels as a handle
  forklift::SharedVector<std::uint32_t> log(1000);
  forklift::SharedCounter updates;
  forklift::Latch ready(2);  // counted down once by each worker
  forklift::Once set_up;     // one of all processes does it
  forklift::RWLock mode_lock;
  const forklift::SharedValue<int> mode;

  std::vector<forklift::Process> workers;
  for (std::uint32_t id = 0; id < 2; ++id) {
    workers.push_back(forklift::Process::fork([=]() mutable {
                        set_up.call([&] { prices.insert(0, {.bid = 1, .ask = 2}); });
                        ready.count_down();
                        for (std::uint32_t i = 1; i <= 100; ++i) {
                          const std::shared_lock reading(mode_lock);  // beside the other worker
                          prices.insert_or_assign(100 * id + i, {.bid = 1.0 * i, .ask = 1.0 * i + *mode});
                          prices.update(0, [](Price& price) { price.bid += 1; });  // read and written as one
                          log.push_back(id);
                          updates.add();
                        }
                      }).start());
  }
  ready.wait();
  {
    const std::unique_lock writing(mode_lock);  // alone
    if (mode_lock.abandoned()) std::puts("the last writer died while it wrote");
    mode.set(1);
  }
  updates.wait_for(200);
  for (forklift::Process& worker : workers) worker.join();
  std::printf("%zu prices, %zu lines, %.0f\n", prices.size(), log.size(), prices.at(0).bid);
  return prices.size() == 201 && log.snapshot().size() == 200 && prices.at(0).bid == 201 ? 0 : 1;
}
