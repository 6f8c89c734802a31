#include "inspect/sentences.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>

#include "inspect/slice_text.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

constexpr std::size_t kMostSentences = 3;
// From these shares on a rule speaks.
constexpr double kIdleWorkers = 0.5;
constexpr double kBusyFeeder = 0.7;
constexpr double kFullQueue = 0.25;
constexpr double kEmptyQueue = 0.5;
constexpr double kCopyShare = 0.2;        // of the time that a process does not wait
constexpr double kCopyShareOfLife = 0.1;  // of its life
constexpr double kLockShare = 0.2;
constexpr double kStartShare = 0.25;
constexpr double kBusyWorkers = 0.85;
constexpr double kLongTask = 0.2;       // of the recording
constexpr double kLongTaskTimes = 5;    // its function's median
constexpr double kIdleBeside = 0.5;     // of the other workers, while it runs
constexpr std::uint64_t kFewTasks = 5;  // are too few for a median

double ratio(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}
std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * share);
  return text;
}
std::string seconds(std::int64_t ns) {
  char text[32];
  const double value = static_cast<double>(ns) / 1e9;
  if (value < 1) {
    std::snprintf(text, sizeof text, "%.*f ms", value < 0.01 ? 2 : 0, value * 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.1f s", value);
  }
  return text;
}
std::string capital(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

struct Pool {
  std::vector<const ThreadTime*> workers;
  std::int64_t life_ns = 0;  // of all, without their start
  std::int64_t waiting_ns = 0;
  std::int64_t working_ns = 0;
};

class Rules {
 public:
  Rules(const Timeline& timeline, const Breakdown& breakdown) : timeline_(timeline), breakdown_(breakdown) {
    for (const ThreadTime& thread : breakdown.threads) {
      if (!thread.pool || thread.service) continue;
      Pool& pool = pools_[*thread.pool];
      pool.workers.push_back(&thread);
      pool.life_ns += thread.lifetime_ns - thread[Share::kStarting];
      pool.waiting_ns += thread[Share::kWaitingForWork];
      pool.working_ns += thread[Share::kWorking] + thread[Share::kCopying];
    }
  }

  std::vector<std::string> best() {
    say_killed();
    for (const auto& [row, pool] : pools_) say_workers(row, pool);
    for (const QueueTimes& queue : breakdown_.queues) say_queue(queue);
    say_copies();
    for (const LockTimes& lock : breakdown_.locks) say_lock(lock);
    say_starting();
    say_long_task();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Sentence& one, const Sentence& other) { return one.weight > other.weight; });
    std::vector<std::string> texts;
    for (Sentence& each : found_)
      if (texts.size() < kMostSentences) texts.push_back(std::move(each.text));
    return texts;
  }

 private:
  struct Sentence {
    double weight = 0;
    std::string text;
  };
  void say(double weight, std::string text) { found_.push_back({weight, std::move(text)}); }

  const ThreadTime& thread(std::size_t number) const { return breakdown_.threads[number]; }
  // "loader", "a, b and 3 more".
  std::string names(const std::vector<std::size_t>& threads) const {
    std::string text;
    for (std::size_t i = 0; i < threads.size(); ++i) {
      if (i == 2 && threads.size() > 3) return text + " and " + std::to_string(threads.size() - 2) + " more";
      if (i > 0) text += i + 1 == threads.size() ? " and " : ", ";
      text += thread(threads[i]).name;
    }
    return text;
  }
  // The share of their lives that these threads do not wait.
  double busy(const std::vector<std::size_t>& threads) const {
    std::int64_t life = 0;
    std::int64_t waiting = 0;
    for (const std::size_t each : threads) {
      life += thread(each).lifetime_ns;
      waiting += thread(each).waiting_ns();
    }
    return 1 - ratio(waiting, life);
  }
  const QueueTimes* queue(std::uint32_t row) const {
    for (const QueueTimes& each : breakdown_.queues)
      if (each.row == row) return &each;
    return nullptr;
  }
  std::string workers_of(std::uint32_t row, const Pool& pool) const {
    const auto named = timeline_.recording->pools.find(row);
    const std::string name = named != timeline_.recording->pools.end() ? utf8(named->second) : "pool";
    const std::size_t count = pool.workers.size();
    return (count == 1 ? "The worker" : "The " + std::to_string(count) + " workers") + " of the " + name;
  }

  void say_killed() {
    std::size_t count = 0;
    std::string first;
    for (std::size_t i = 0; i < timeline_.processes.size(); ++i) {
      const ProcessTimeline& process = timeline_.processes[i];
      if (process.left_in_order || !process.ended_here) continue;
      if (++count == 1) first = utf8(process.name) + last_task(i);
    }
    if (count == 0) return;
    const std::string who =
        count == 1 ? capital(first) + " ended"
                   : std::to_string(count) + " processes ended, the first of them " + first + ',';
    say(2,
        who + " without leaving in order: its exit code, or the kernel's log if memory was short, says why");
  }
  std::string last_task(std::size_t process) const {
    for (const ThreadTimeline& each : timeline_.threads) {
      if (each.process != process || each.slices.empty()) continue;
      for (auto slice = each.slices.rbegin(); slice != each.slices.rend(); ++slice) {
        if (slice->kind != SliceKind::kTask) continue;
        if (!slice->unfinished) break;
        return ", in the task " + slice_name(*timeline_.recording, *slice) + " for " +
               seconds(slice->duration()) + ',';
      }
    }
    return "";
  }

  void say_workers(std::uint32_t row, const Pool& pool) {
    const bool one = pool.workers.size() == 1;
    const double idle = ratio(pool.waiting_ns, pool.life_ns);
    const QueueTimes* const tasks = queue(row);
    if (idle >= kIdleWorkers) {
      std::string text = workers_of(row, pool) + (one ? " waits " : " wait ") + percent(idle) + " of " +
                         (one ? "its" : "their") + " time for tasks: more workers will not help";
      if (tasks != nullptr && !tasks->writers.empty()) text += feeder(tasks->writers);
      say(idle, std::move(text));
    }
    const double works = ratio(pool.working_ns, pool.life_ns);
    if (works < kBusyWorkers || tasks == nullptr || tasks->mean < static_cast<double>(pool.workers.size()))
      return;
    char waiting[32];
    std::snprintf(waiting, sizeof waiting, "%.0f", tasks->mean);
    say(works / 2,
        workers_of(row, pool) + (one ? " works " : " work ") + percent(works) + " of " +
            (one ? "its" : "their") + " time, and " + waiting +
            " messages with tasks wait on average: more workers help, where there are processors for them");
  }
  std::string feeder(const std::vector<std::size_t>& writers) const {
    const double works = busy(writers);
    if (works >= kBusyFeeder)
      return "; what puts the tasks (" + names(writers) + ") works " + percent(works) + " of the time";
    const PlaceTime* longest = nullptr;
    for (const std::size_t each : writers)
      if (const auto& waits = thread(each).waits;
          !waits.empty() && (longest == nullptr || waits[0].ns > longest->ns))
        longest = waits.data();
    if (longest == nullptr || longest->text.empty()) return "";
    return "; what puts the tasks (" + names(writers) + ") waits itself, most of all for " + longest->text;
  }

  void say_queue(const QueueTimes& queue) {
    if (!queue.labelled) return;
    const double full = ratio(queue.full_ns, timeline_.duration());
    if (full >= kFullQueue) {
      const bool several = queue.readers.size() > 1;
      std::string text = capital(queue.name) + " is full " + percent(full) + " of the time: ";
      if (queue.readers.empty()) {
        text += "nobody took anything from it";
      } else {
        text += (several ? "its readers (" : "its reader (") + names(queue.readers) +
                (several ? ") are the bottleneck" : ") is the bottleneck");
      }
      say(full, std::move(text));
    }
    std::vector<std::size_t> readers;
    std::int64_t life = 0;
    std::int64_t waited = 0;
    for (const std::size_t each : queue.readers) {
      if (thread(each).pool) continue;  // said of the pool
      readers.push_back(each);
      life += thread(each).lifetime_ns - thread(each)[Share::kStarting];
      waited += waited_in(each, queue.name);
    }
    const double empty = ratio(waited, life);
    if (empty < kEmptyQueue || queue.writers.empty() || busy(queue.writers) < kBusyFeeder) return;
    say(empty, capital(queue.name) + " is empty while its reader (" + names(readers) + ") waits " +
                   percent(empty) + " of its time: what puts into it (" + names(queue.writers) +
                   ") is the bottleneck, and works " + percent(busy(queue.writers)) + " of the time");
  }
  // For messages in that queue.
  std::int64_t waited_in(std::size_t number, const std::string& queue) const {
    std::int64_t sum = 0;
    for (const PlaceTime& place : thread(number).waits)
      if (place.noun == "message" && place.text.ends_with(' ' + queue)) sum += place.ns;
    return sum;
  }

  void say_copies() {
    const ThreadTime* most = nullptr;
    double most_share = 0;
    for (const ThreadTime& each : breakdown_.threads) {
      const double of_busy = ratio(each[Share::kCopying], each.lifetime_ns - each.waiting_ns());
      const double of_all = ratio(each[Share::kCopying], each.lifetime_ns);
      if (each.service || of_busy < kCopyShare || of_all < kCopyShareOfLife || of_all <= most_share) continue;
      most = &each;
      most_share = of_all;
    }
    if (most == nullptr) return;
    const double of_busy = ratio((*most)[Share::kCopying], most->lifetime_ns - most->waiting_ns());
    say(most_share, "Copies take " + percent(of_busy) + " of the time that " + most->name +
                        " does not wait: share() or freeze() what is sent again");
  }

  void say_lock(const LockTimes& lock) {
    std::int64_t life = 0;
    for (const std::size_t each : lock.waiting) life += thread(each).lifetime_ns;
    const double share = ratio(lock.waited_ns, life);
    if (share < kLockShare) return;
    const bool one = lock.waiting.size() == 1;
    std::string text = capital(lock.name) + " makes " + names(lock.waiting) + " wait " + percent(share) +
                       " of " + (one ? "its" : "their") + " time";
    if (lock.holder) {
      text += "; " + thread(*lock.holder).name + " holds it longest, " +
              percent(ratio(lock.holder_ns, thread(*lock.holder).lifetime_ns)) + " of its time";
    }
    say(share, text + ": hold it for less, or divide what it guards");
  }

  void say_starting() {
    std::int64_t life = 0;
    std::int64_t starting = 0;
    std::size_t count = 0;
    for (const ThreadTime& each : breakdown_.threads) {
      if (each.service || each[Share::kStarting] == 0) continue;
      life += each.lifetime_ns;
      starting += each[Share::kStarting];
      ++count;
    }
    const double share = ratio(starting, life);
    if (count == 0 || share < kStartShare) return;
    const std::string who = count == 1 ? "the process" : "the " + std::to_string(count) + " processes";
    say(share / 2, "Starting takes " + percent(share) + " of the time of " + who + " that began meanwhile, " +
                       seconds(starting / static_cast<std::int64_t>(count)) +
                       " each: keep them for more work, or start them by the fork server");
  }

  void say_long_task() {
    for (std::size_t i = 0; i < timeline_.threads.size(); ++i) {
      for (const Slice& slice : timeline_.threads[i].slices) {
        if (slice.kind == SliceKind::kTask && ratio(slice.duration(), timeline_.duration()) >= kLongTask &&
            say_task(i, slice))
          return;
      }
    }
  }
  bool say_task(std::size_t number, const Slice& task) {
    const std::string name = slice_name(*timeline_.recording, task);
    const auto kind = std::find_if(breakdown_.tasks.begin(), breakdown_.tasks.end(),
                                   [&](const TaskTimes& each) { return each.name == name; });
    if (kind == breakdown_.tasks.end() || kind->count < kFewTasks) return false;
    const double times = ratio(task.duration(), kind->median_ns);
    const auto pool = pools_.find(task.row());
    if (times < kLongTaskTimes || pool == pools_.end() || pool->second.workers.size() < 2) return false;
    std::int64_t idle = 0;
    for (const ThreadTime* worker : pool->second.workers)
      if (worker->thread != number) idle += idle_during(timeline_.threads[worker->thread], task);
    const double share =
        ratio(idle, task.duration() * static_cast<std::int64_t>(pool->second.workers.size() - 1));
    if (share < kIdleBeside) return false;
    char factor[32];
    std::snprintf(factor, sizeof factor, "%.0f", times);
    say(ratio(task.duration(), timeline_.duration()),
        "One task of " + name + " takes " + seconds(task.duration()) + ", " + factor +
            " times the median, and the other workers wait " + percent(share) +
            " of that time: start the long ones first, or make the pieces smaller (chunksize)");
    return true;
  }
  std::int64_t idle_during(const ThreadTimeline& worker, const Slice& task) const {
    std::int64_t sum = 0;
    for (const Slice& slice : worker.slices) {
      if (slice.kind != SliceKind::kWait) continue;
      sum += std::max<std::int64_t>(0, std::min(slice.end, task.end) - std::max(slice.begin, task.begin));
    }
    return sum;
  }

  const Timeline& timeline_;
  const Breakdown& breakdown_;
  std::map<std::uint32_t, Pool> pools_;
  std::vector<Sentence> found_;
};

}  // namespace

std::vector<std::string> sentences_of(const Timeline& timeline, const Breakdown& breakdown) {
  return Rules(timeline, breakdown).best();
}

}  // namespace forklift::inline abi_0_1::inspect
