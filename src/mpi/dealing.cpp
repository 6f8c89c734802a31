// What the dispatcher does in the thread that exchanges messages: sends tasks to nodes, and takes their answers in.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "mpi/dispatcher.h"

namespace forklift::inline abi_0_1::mpi {
namespace {

constexpr double kAhead = 0.030;                  // seconds of work that wait on a node
constexpr double kBatch = 0.003;                  // ... that are worth a message
constexpr std::chrono::milliseconds kSettled{2};  // a rate is taken over at least so long
constexpr std::chrono::milliseconds kStuck{50};   // then tasks go to other nodes' free workers
constexpr std::size_t kMostFields = 4 << 20;      // bytes of a message
constexpr std::size_t kMostBuffers = std::size_t{256} << 20;

std::size_t bytes_of(const std::vector<Buffer>& buffers, std::size_t from) {
  std::size_t sum = 0;
  for (; from < buffers.size(); ++from) sum += buffers[from].size;
  return sum;
}

}  // namespace

// --- to the nodes

std::size_t Dispatcher::window(const Place& place) const noexcept {
  return place.seen.workers + static_cast<std::size_t>(place.rate * kAhead);
}

void Dispatcher::deal() {
  const std::lock_guard lock(mutex_);
  if (terminated_) return;
  if (waiting_.empty()) return recall_locked();
  // A task for each free worker first, the nodes in turn; then what waits on the nodes.
  std::vector<std::size_t> shares(places_.size());
  std::size_t left = waiting_.size(), usable = 0;
  ++first_;  // single tasks go to the nodes in turn, too
  for (bool given = true; given && left != 0;) {
    given = false;
    for (std::size_t i = 0; i < places_.size() && left != 0; ++i) {
      const std::size_t at = (first_ + i) % places_.size();
      const Place& place = places_[at];
      if (!place.seen.usable || place.sent + shares[at] >= place.seen.workers) continue;
      ++shares[at];
      --left;
      given = true;
    }
  }
  for (const Place& place : places_) usable += place.seen.usable ? 1 : 0;
  if (usable == 0) return;
  const std::size_t even = (left + usable - 1) / usable;
  for (std::size_t at = 0; at < places_.size(); ++at) {
    const Place& place = places_[at];
    if (!place.seen.usable) continue;
    const std::size_t most = window(place), has = place.sent + shares[at];
    const std::size_t room = most > has ? most - has : 0;
    if (static_cast<double>(room) >= place.rate * kBatch) shares[at] += std::min(room, even);
    if (shares[at] != 0) fill_locked(at, shares[at]);
  }
}

// The next task that waits, still not on a node; null: none does.
Dispatcher::Task* Dispatcher::next_locked(std::uint32_t& slot) {
  while (!waiting_.empty()) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    Task& task = tasks_[next.slot];
    if (!task.job || task.generation != next.generation || task.node != kNowhere) continue;
    slot = next.slot;
    return &task;
  }
  return nullptr;
}

std::size_t Dispatcher::fill_locked(std::size_t at, std::size_t most) {
  Place& place = places_[at];
  NodeMessage packet(Kind::kTasks, pool_);
  const std::size_t counted_at = packet.fields.size();
  std::uint64_t count = 0;
  std::size_t buffers = 0;
  packet.put(count);
  std::uint32_t slot = 0;
  while (count < most && packet.fields.size() < kMostFields && buffers < kMostBuffers) {
    Task* const task = next_locked(slot);
    if (task == nullptr) break;
    const std::size_t before = packet.buffers.size();
    put_task_locked(at, slot, packet);
    buffers += bytes_of(packet.buffers, before);
    ++count;
  }
  if (count == 0) return 0;
  std::memcpy(packet.fields.data() + counted_at, &count, sizeof count);
  if (place.sent == 0) {
    place.since = place.moved = Clock::now();
    place.counted = 0;
  }
  place.sent += count;
  exchange_->post(place.rank, std::move(packet));
  return count;
}

void Dispatcher::put_task_locked(std::size_t at, std::uint32_t slot, NodeMessage& packet) {
  Task& task = tasks_[slot];
  task.node = static_cast<int>(at);
  places_[at].order.push_back({slot, task.generation});
  packet.put(static_cast<std::uint64_t>(slot));
  packet.put(task.options);
  packet.put_payload(task.message);
}

// Nothing waits here: tasks that wait on one node go to free workers of others.
void Dispatcher::recall_locked() {
  std::size_t free = 0;
  for (const Place& place : places_)
    if (place.seen.usable && place.sent < place.seen.workers) free += place.seen.workers - place.sent;
  if (free == 0 || places_.size() == 1) return;
  const Clock::time_point now = Clock::now();
  for (std::size_t at = 0; at < places_.size() && free != 0; ++at) {
    Place& place = places_[at];
    if (place.sent <= place.seen.workers || place.recalling || now - place.moved < kStuck) continue;
    std::vector<std::uint32_t> slots;
    const std::size_t most = std::min(free, place.sent - place.seen.workers);
    for (; slots.size() < most && !place.order.empty(); place.order.pop_back()) {
      const Waiting last = place.order.back();
      const Task& task = tasks_[last.slot];
      if (task.job && task.generation == last.generation && task.node == static_cast<int>(at))
        slots.push_back(last.slot);
    }
    if (slots.empty()) continue;
    place.recalling = true;
    free -= slots.size();
    ask_back_locked(at, slots);
  }
}

void Dispatcher::ask_back_locked(std::size_t at, const std::vector<std::uint32_t>& slots) {
  NodeMessage packet(Kind::kRecall, pool_);
  packet.put(static_cast<std::uint64_t>(slots.size()));
  for (const std::uint32_t slot : slots) packet.put(static_cast<std::uint64_t>(slot));
  exchange_->post(places_[at].rank, std::move(packet));
}

// --- from the nodes

void Dispatcher::came(int from, Kind kind, Reader& reader) {
  std::unique_lock lock(mutex_);
  const auto at = std::ranges::find(places_, from, &Place::rank);
  if (at == places_.end()) return;
  Place& place = *at;
  switch (kind) {
    case Kind::kAnswers: answered_locked(place, reader); break;
    case Kind::kPids: {
      place.answered = true;
      while (reader.has_more()) place.seen.pids.push_back(reader.take<pid_t>());
      break;
    }
    case Kind::kRefused: {
      place.recalling = false;
      place.moved = Clock::now();
      while (reader.has_more()) tasks_[reader.take<std::uint64_t>()].refused = true;
      break;
    }
    case Kind::kFailed: failed_locked(place, reader.take_text()); break;
    case Kind::kEnded: place.gone = place.answered = true; break;
    default: break;
  }
  finish(lock);
}

void Dispatcher::answered_locked(Place& place, Reader& reader) {
  const auto count = reader.take<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) answer_locked(place, reader);
  const Clock::time_point now = place.moved = Clock::now();
  place.counted += count;
  const std::chrono::duration<double> elapsed = now - place.since;
  if (elapsed < kSettled) return;
  const double rate = static_cast<double>(place.counted) / elapsed.count();
  place.rate = place.rate == 0 ? rate : (place.rate + rate) / 2;
  place.counted = 0;
  place.since = now;
  if (place.order.size() < 4 * place.sent + 1024) return;
  const int number = static_cast<int>(&place - places_.data());
  std::erase_if(place.order, [&](const Waiting& each) {
    const Task& task = tasks_[each.slot];
    return !task.job || task.generation != each.generation || task.node != number;
  });
}

void Dispatcher::answer_locked(Place& place, Reader& reader) {
  const auto slot = static_cast<std::uint32_t>(reader.take<std::uint64_t>());
  const auto ending = reader.take<workers::Ending>();
  const auto pid = reader.take<pid_t>();
  const auto exitcode = reader.take<int>();
  Payload payload = reader.take_payload();
  if (slot >= tasks_.size() || !tasks_[slot].job) return;  // of a pool that was terminated
  Task& task = tasks_[slot];
  --place.sent;
  const bool came_back = ending == workers::Ending::kCancelled && !task.cancelled;
  if (ending == workers::Ending::kStopped && place.seen.usable) failed_locked(place, "its pool has stopped");
  if (!task.job) return;  // that was the last node, so all tasks have ended
  if (came_back || (ending == workers::Ending::kStopped && trouble_.ok())) {
    task.node = kNowhere;
    waiting_.push_front({slot, task.generation});
    return;
  }
  ++place.seen.ended;
  end_locked(slot, answer_of(ending, pid, exitcode, std::move(payload)));
}

workers::Answer Dispatcher::answer_of(workers::Ending ending, pid_t pid, int exitcode, Payload payload) {
  workers::Answer answer;
  answer.ending = ending;
  answer.pid = pid;
  answer.exitcode = exitcode;
  std::vector<arena::LeasePtr> leases;
  std::string missing;
  for (Buffer& each : payload.buffers) {
    if (!each.lease)
      missing = "its result has come, but the driver's memory for tensors has no room for " +
                std::to_string(each.size) + " bytes of it";
    leases.push_back(std::move(each.lease));
  }
  if (!missing.empty()) {
    answer.ending = workers::Ending::kUnreadable;
    leases.clear();
    payload.size = missing.size();
  }
  auto bytes = std::make_unique_for_overwrite<std::byte[]>(payload.size);
  const void* const source = missing.empty() ? static_cast<const void*>(payload.bytes.get()) : missing.data();
  if (payload.size != 0) std::memcpy(bytes.get(), source, payload.size);
  answer.payload = channel::Incoming(std::move(bytes), payload.size, std::move(leases), payload.codec);
  return answer;
}

void Dispatcher::failed_locked(Place& place, const std::string& why) {
  if (!place.seen.usable || terminated_) return;
  place.seen.usable = false;
  place.answered = true;
  const std::string words = "the node of rank " + std::to_string(place.rank) + " (" + place.seen.host +
                            ") cannot have workers of a pool: " + why;
  if (std::ranges::any_of(places_, [](const Place& each) { return each.seen.usable; }))
    return log(Severity::kWarning, words + ". Its tasks go to other nodes");
  trouble_ = {Code::kPeerDied, words};
  end_all_locked();
}

void Dispatcher::end_locked(std::uint32_t slot, workers::Answer answer) {
  Task& task = tasks_[slot];
  answer.index = task.index;
  const std::shared_ptr<RemoteJob> job = std::move(task.job);
  task.job = nullptr;
  task.message = {};
  ++task.generation;
  free_.push_back(slot);
  --outstanding_;
  note_end_locked(*job, std::move(answer));
  close_if_done_locked();
}

void Dispatcher::end_all_locked() {
  for (std::uint32_t slot = 0; slot < tasks_.size(); ++slot)
    if (tasks_[slot].job) end_locked(slot, answer_of(workers::Ending::kStopped, 0, 0, {}));
  waiting_.clear();
}

// Tells those who wait, and makes the calls that follow the end of jobs.
void Dispatcher::finish(std::unique_lock<std::mutex>& lock) {
  std::vector<std::function<void()>> calls;
  calls.swap(calls_);
  lock.unlock();
  changed_.notify_all();
  for (const std::function<void()>& call : calls) call();
}

}  // namespace forklift::inline abi_0_1::mpi
