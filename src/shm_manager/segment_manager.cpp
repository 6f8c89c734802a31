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
#include "shm_manager/answer.h"

namespace forklift::inline abi_0_1::shm_manager {

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
  manager->node_->domain().mark_service();
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
    const bool unused = !node_->domain().has_users() && clients_->empty() && node_->segments().live() == 0;
    if (unused && finish()) return;
    look_after_stand_by();
    members_.watch(node_->domain());
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

void SegmentManager::wait() {
  std::vector<pollfd> items;
  items.push_back({stand_by_pidfd_.get(), POLLIN, 0});
  const std::size_t members = items.size();
  members_.add_to(items);
  const std::size_t clients = items.size();
  clients_->watch(items);
  const int slice = node_->segments().has_handed_over() ? kShortSliceMs : kSliceMs;
  if (::poll(items.data(), items.size(), slice) <= 0) {
    for (pollfd& item : items) item.revents = 0;
  }
  if (items[0].revents != 0) stand_by_pidfd_.close();
  members_.look_at(items, members);
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
  if (arguments.role == segment::Role::kStandBy) {
    Result<segment::OwnerLock> lock = segment::OwnerLock::watch(arguments.folder, arguments.token);
    if (!lock || !lock->manage(true)) return EXIT_FAILURE;
  }
  Result<std::unique_ptr<SegmentManager>> manager = SegmentManager::start(arguments);
  if (!manager) {
    say(arguments.ready, manager.status().to_string());
    return EXIT_FAILURE;
  }
  say(arguments.ready, "R");
  if (!*manager) return EXIT_SUCCESS;
  (void)segment::sweep(arguments.folder);
  (*manager)->serve();
  return EXIT_SUCCESS;
}

}  // namespace forklift::inline abi_0_1::shm_manager
