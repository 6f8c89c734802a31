#include "shm_manager/segment_manager.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "os/clock.h"
#include "os/proc.h"
#include "segment/files.h"

namespace forklift::shm_manager {

namespace {

// A member that came since the last slice is not watched yet: its death is noticed a slice later at most.
constexpr int kSliceMs = 500;
// While something is kept for a moment.
constexpr int kShortSliceMs = 250;
// One that stands by and ends sooner is not replaced before the next slice.
constexpr std::int64_t kSoonNs = 100'000'000;

Result<os::Fd> copy_of(int file) {
  os::Fd inherited(file);
  Result<os::Fd> copy = inherited.duplicate();
  inherited.release();
  return copy;
}

void answer(int file, const std::string& words) {
  if (file < 0) return;
  const char* at = words.data();
  for (std::size_t left = words.size(); left > 0;) {
    const ssize_t done = ::write(file, at, left);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) break;
    at += done;
    left -= static_cast<std::size_t>(done);
  }
  ::close(file);
}

}  // namespace

Result<bool> SegmentManager::take_lock() {
  Result<segment::OwnerLock> lock = segment::OwnerLock::join(arguments_.folder, arguments_.token);
  if (!lock) return lock.status();
  Result<bool> mine = lock->manage();
  if (!mine || !*mine) return mine;
  lock_ = *std::move(lock);
  return true;
}

Result<std::unique_ptr<SegmentManager>> SegmentManager::start(const segment::ManagerArguments& arguments) {
  std::unique_ptr<SegmentManager> manager(new SegmentManager(arguments));
  const Result<bool> mine = manager->take_lock();
  if (!mine) return mine.status();
  if (!*mine) return std::unique_ptr<SegmentManager>();
  // Copies: those who stand by inherit the numbers that the arguments name.
  Result<os::Fd> control = copy_of(arguments.control);
  Result<os::Fd> data = copy_of(arguments.data);
  if (!control) return control.status();
  if (!data) return data.status();
  Result<std::unique_ptr<node::Node>> node =
      node::Node::attach(*std::move(control), *std::move(data), std::nullopt);
  if (!node) return node.status();
  manager->node_ = *std::move(node);
  manager->clients_ = std::make_unique<Clients>(manager->node_->segments());
  // Before the program that waits for us goes on. If it fails, each slice tries again.
  (void)manager->clients_->listen();
  return manager;
}

SegmentManager::~SegmentManager() { stop_stand_by(); }

void SegmentManager::serve() {
  for (;;) {
    node_->domain().try_reap();
    if (!look_after_files()) return;
    node_->segments().drop_abandoned(kMomentNs);
    const bool unused =
        node_->domain().live_slots() == 1 && clients_->empty() && node_->segments().live() == 0;
    if (unused && finish()) return;
    look_after_stand_by();
    watch_members();
    // A member may have died before it was watched.
    if (node_->domain().try_reap() == 0) wait();
  }
}

// Somebody may have emptied the folder. What can be made anew, is; the rest at the next slice.
bool SegmentManager::look_after_files() {
  if (!lock_.has_name()) {
    const Result<bool> mine = take_lock();
    if (mine && !*mine) return false;
    if (mine) stop_stand_by();  // it waits for the old file's lock
  }
  // Without a socket only clients outside of the domain miss something.
  (void)clients_->listen();
  return true;
}

void SegmentManager::look_after_stand_by() {
  if (stand_by_ > 0) {
    const pid_t ended = ::waitpid(stand_by_, nullptr, WNOHANG);
    if (ended == 0) return;
    stand_by_ = -1;
    stand_by_pidfd_.close();
    if (os::now_ns() - stand_by_began_ns_ < kSoonNs) return;
  }
  const Result<pid_t> started = segment::start_stand_by(arguments_);
  if (!started) return;
  stand_by_ = *started;
  stand_by_began_ns_ = os::now_ns();
  if (Result<os::Fd> pidfd = os::open_pidfd(stand_by_)) stand_by_pidfd_ = *std::move(pidfd);
}

void SegmentManager::stop_stand_by() {
  if (stand_by_ <= 0) return;
  ::kill(stand_by_, SIGKILL);
  while (::waitpid(stand_by_, nullptr, 0) < 0 && errno == EINTR) {
  }
  stand_by_ = -1;
  stand_by_pidfd_.close();
}

void SegmentManager::watch_members() {
  const domain::Domain& domain = node_->domain();
  const std::uint64_t used = domain.header().slots_used.load(std::memory_order_acquire);
  for (std::uint32_t index = 0; index < used && index < domain::kSlotCount; ++index) {
    const domain::SlotRef slot = domain.occupant(index);
    const auto known = watches_.find(index);
    if (known != watches_.end() && known->second.generation == slot.generation) continue;
    if (slot == domain.self() || domain.is_dead(slot)) {
      if (known != watches_.end()) watches_.erase(known);
      continue;
    }
    const std::uint64_t pid = domain.pid_of(slot);
    if (pid == 0) continue;  // its process does not run yet
    Result<os::Fd> pidfd = os::open_pidfd(static_cast<pid_t>(pid));
    // Without a descriptor for it, its death is noticed at the end of a slice.
    if (pidfd) watches_[index] = Watch{slot.generation, *std::move(pidfd)};
  }
}

void SegmentManager::wait() {
  std::vector<pollfd> items;
  std::vector<Watch*> watched;
  for (auto& [index, watch] : watches_) {
    if (!watch.pidfd.valid()) continue;
    items.push_back({watch.pidfd.get(), POLLIN, 0});
    watched.push_back(&watch);
  }
  const std::size_t stand_by = items.size();
  items.push_back({stand_by_pidfd_.get(), POLLIN, 0});
  const std::size_t clients = items.size();
  clients_->watch(items);
  const int slice = node_->segments().has_handed_over() ? kShortSliceMs : kSliceMs;
  if (::poll(items.data(), items.size(), slice) <= 0) {
    for (pollfd& item : items) item.revents = 0;
  }
  for (std::size_t i = 0; i < watched.size(); ++i) {
    // It stays readable, also while the kernel still counts the process as alive (a parent that does not wait
    // for it), so it is asked once.
    if (items[i].revents != 0) watched[i]->pidfd.close();
  }
  if (items[stand_by].revents != 0) stand_by_pidfd_.close();
  clients_->serve(items, clients);
}

// False: somebody lives who locks the file without being a member, such as a child that got no slot.
bool SegmentManager::finish() {
  if (lock_.has_others()) return false;
  stop_stand_by();
  const Result<bool> mine = lock_.own();
  if (!mine || !*mine) return false;
  clients_.reset();
  segment::remove_all(arguments_.folder, arguments_.token);
  lock_.remove();
  return true;
}

int run(const segment::ManagerArguments& arguments) {
  if (arguments.stand_by) {
    Result<segment::OwnerLock> lock = segment::OwnerLock::watch(arguments.folder, arguments.token);
    if (!lock || !lock->manage(true)) return EXIT_FAILURE;
  }
  Result<std::unique_ptr<SegmentManager>> manager = SegmentManager::start(arguments);
  if (!manager) {
    answer(arguments.ready, manager.status().to_string());
    return EXIT_FAILURE;
  }
  answer(arguments.ready, "R");
  if (!*manager) return EXIT_SUCCESS;
  (void)segment::sweep(arguments.folder);
  (*manager)->serve();
  return EXIT_SUCCESS;
}

}  // namespace forklift::shm_manager
