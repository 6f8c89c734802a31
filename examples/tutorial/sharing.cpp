// sharing: numbers and tables in shared memory, locks, dictionaries for all.
#include <forklift/multiprocessing.h>

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  const forklift::SharedValue<std::int64_t> done;  // Python's Value
  const forklift::SharedArray<double> table(4);    // Python's Array
  const forklift::SharedValue<double> total;
  forklift::Lock lock;
  forklift::Manager manager;
  const forklift::ManagedDict scores = manager.dict();

  std::vector<forklift::Process> workers;
  for (std::size_t id = 0; id < table.size(); ++id) {
    workers.push_back(forklift::Process::fork([&, id] {
                        table[id] = 0.5 * static_cast<double>(id);  // its own place: no lock needed
                        done.atomic().fetch_add(1);                 // one word: atomic
                        {
                          const std::scoped_lock guard(lock);  // more than that: a lock
                          *total += table[id];
                        }
                        scores.add("games", 1);
                        scores.set("worker " + std::to_string(id), table[id]);
                      }).start());
  }
  for (forklift::Process& worker : workers) worker.join();
  std::printf("%lld done, %.1f, %lld games\n", static_cast<long long>(done.get()), total.get(),
              static_cast<long long>(scores.at<std::int64_t>("games")));
  return done.get() == 4 && total.get() == 3 && scores.size() == 5 ? 0 : 1;
}
