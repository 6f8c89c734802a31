#include "mpi/messenger.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "api/attached.h"

namespace forklift::inline abi_0_1::mpi {
void Messenger::post(int to, NodeMessage packet) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back({to, std::move(packet)});
    woken_ = true;
  }
  waking_.notify_one();
}

void Messenger::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  waking_.notify_one();
}

bool Messenger::is_sending() {
  const std::lock_guard lock(mutex_);
  return !posted_.empty() || !leaving_.empty();
}

void Messenger::step() {
  std::vector<std::pair<int, NodeMessage>> came;
  bool active = false;
  {
    std::deque<Posted> posted;
    {
      const std::lock_guard lock(mutex_);
      posted.swap(posted_);
    }
    const std::unique_lock lock = job_.serialized();
    for (Posted& each : posted) {
      active = true;
      if (each.to == job_.rank()) {
        came.emplace_back(each.to, std::move(each.packet));
        continue;
      }
      Leaving& leaving = leaving_.emplace_back();
      leaving.head = head_of(each.packet);
      leaving.packet = std::move(each.packet);
      const auto begin = [&](const std::byte* data, std::size_t bytes, int tag) {
        JobCore::check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, each.to, tag, job_.world(),
                                 &leaving.requests.emplace_back()),
                       "MPI_Isend");
      };
      begin(leaving.head.data(), leaving.head.size(), kHeadTag);
      for (const Buffer& buffer : leaving.packet.buffers) {
        for (std::size_t at = 0; at < buffer.size; at += kPiece)
          begin(buffer.data() + at, std::min(kPiece, buffer.size - at), kBufferTag);
      }
    }
    active |= receive(came);
    active |= send();
  }
  for (auto& [from, packet] : came) came_(from, std::move(packet));
  if (!active) return sleep();
  active_ = std::chrono::steady_clock::now();
  polls_ = 0;
}

bool Messenger::is_complete(std::vector<MPI_Request>& requests) {
  int done = 0;
  JobCore::check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
                 "MPI_Testall");
  return done != 0;
}

// Forgets what has been sent.
bool Messenger::send() {
  const std::size_t before = leaving_.size();
  std::erase_if(leaving_, [](Leaving& each) { return is_complete(each.requests); });
  return leaving_.size() != before;
}

bool Messenger::receive(std::vector<std::pair<int, NodeMessage>>& came) {
  bool received = false;
  if (job_.size() == 1) return false;
  while (true) {
    int flag = 0, bytes = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    JobCore::check(MPI_Improbe(MPI_ANY_SOURCE, kHeadTag, job_.world(), &flag, &message, &status),
                   "MPI_Improbe");
    if (flag == 0) break;
    JobCore::check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    Coming& coming = coming_[status.MPI_SOURCE].emplace_back();
    coming.head.resize(static_cast<std::size_t>(bytes));
    JobCore::check(MPI_Imrecv(coming.head.data(), bytes, MPI_BYTE, &message, &coming.requests.emplace_back()),
                   "MPI_Imrecv");
    received = true;
  }
  for (auto& [from, several] : coming_) received |= go_on(from, several, came);
  std::erase_if(coming_, [](const auto& each) { return each.second.empty(); });
  return received;
}

bool Messenger::go_on(int from, std::deque<Coming>& several, std::vector<std::pair<int, NodeMessage>>& came) {
  bool received = false;
  for (Coming& each : several) {
    if (!each.has_head && is_complete(each.requests)) {
      receive_buffers(from, each);
      received = true;
    }
    if (!each.has_head) break;  // the buffers of the next ones come after those of this one
  }
  while (!several.empty() && several.front().has_head && is_complete(several.front().requests)) {
    came.emplace_back(from, std::move(several.front().packet));
    several.pop_front();
    received = true;
  }
  return received;
}

void Messenger::receive_buffers(int from, Coming& coming) {
  coming.has_head = true;
  coming.requests.clear();
  for (const Announced& each : announced(coming.head)) {
    Buffer& buffer = coming.packet.buffers.emplace_back();
    buffer.size = each.size;
    if (!each.heap)
      buffer.lease =
          forklift::detail::home_node().arena().allocate(arena::Kind::kShare, each.size).value_or(nullptr);
    if (!buffer.lease) buffer.heap = std::make_shared_for_overwrite<std::byte[]>(each.size);
    for (std::size_t at = 0; at < each.size; at += kPiece) {
      const auto bytes = static_cast<int>(std::min(kPiece, each.size - at));
      JobCore::check(MPI_Irecv(buffer.data() + at, bytes, MPI_BYTE, from, kBufferTag, job_.world(),
                               &coming.requests.emplace_back()),
                     "MPI_Irecv");
    }
  }
  coming.packet.fields = fields_of(coming.head);
  coming.head = {};
}

void Messenger::sleep() {
  // While data is on its way, MPI moves it only here.
  const Polling polling = leaving_.empty() && coming_.empty() ? Polling::kSleeps : Polling::kYields;
  const std::chrono::duration<double> pause =
      sleep_between(polling, std::chrono::steady_clock::now() - active_, ++polls_);
  if (pause.count() == 0) {
    ::sched_yield();
    return;
  }
  std::unique_lock lock(mutex_);
  waking_.wait_for(lock, pause, [this] { return woken_; });
  woken_ = false;
}

}  // namespace forklift::inline abi_0_1::mpi
