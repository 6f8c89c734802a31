#include "process/door.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "os/thread.h"
#include "process/join.h"

namespace forklift::process {

// This process's doors, for the fork handlers and for the end of the program. Its mutex is held across a
// fork.
struct Doors {
  std::mutex mutex;
  std::vector<Door*> open;
  std::vector<Place*> beginning;  // stands taken by serve(), of which a child shall have no copy

  // A place of serve(), while it is one's own.
  class Beginning {
   public:
    explicit Beginning(Place& place) : place_(place) {
      const std::lock_guard<std::mutex> lock(all().mutex);
      all().beginning.push_back(&place);
    }
    ~Beginning() {
      const std::lock_guard<std::mutex> lock(all().mutex);
      std::erase(all().beginning, &place_);
    }
    Beginning(const Beginning&) = delete;
    Beginning& operator=(const Beginning&) = delete;
    // A step that makes or closes descriptors: no fork comes in between.
    template <class Step>
    auto step(Step&& take) const {
      const std::lock_guard<std::mutex> lock(all().mutex);
      return take(place_);
    }

   private:
    Place& place_;
  };

  static Doors& all() {
    static Doors* const doors = new Doors;  // at-fork handlers outlive main
    return *doors;
  }
  static void before_fork() {
    all().mutex.lock();
    for (Door* door : all().open) door->stop();
  }
  static void after_fork_in_parent() {
    for (Door* door : all().open) {
      // Out of threads: the name goes to somebody who has one.
      if (door->threaded_ && !door->start()) door->abandon();
    }
    all().mutex.unlock();
  }
  static void after_fork_in_child() {
    for (Door* door : all().open) door->abandon();
    all().open.clear();
    for (Place* place : all().beginning) place->abandon();
    all().beginning.clear();
    all().mutex.unlock();
  }
  static void at_exit() {
    for (;;) {
      Door* last = nullptr;
      {
        const std::lock_guard<std::mutex> lock(all().mutex);
        if (all().open.empty()) return;
        last = all().open.back();
      }
      last->close();
    }
  }
  static void install() {
    // After the domain's own handlers, so that this thread stops before them.
    static std::once_flag installed;
    std::call_once(installed, [] {
      ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
      std::atexit(at_exit);
    });
  }
};

namespace {

Status served_already(const Place& place) {
  const pid_t pid = place.server();
  return {Code::kExists, "\"" + place.name() + "\" is served already" +
                             (pid > 0 ? " by process " + std::to_string(pid) : std::string())};
}

}  // namespace

Result<DoorPtr> Door::serve(std::string_view name, const DoorOptions& options) {
  Result<Place> place = Place::find(name);
  if (!place) return place.status();
  Patience patience(options);
  Doors::install();
  const Doors::Beginning beginning(*place);
  for (;;) {
    const Result<bool> mine = beginning.step([](Place& here) { return here.begin(); });
    if (!mine) return mine.status();
    if (*mine) break;
    const Result<bool> served = place->taken(Stand::kServer);
    if (served && *served) return served_already(*place);
    beginning.step([](Place& here) { here.forget_lock(); });
    // Its server has just gone, and another member takes over; or somebody looks whether it is served.
    Status waited = patience.wait();
    if (!waited) return waited.code() == Code::kTimeout ? does_not_answer(*place) : waited;
  }
  // Not before: who only finds that the name is served may still attach.
  Result<channel::Hub*> hub = channel::Hub::current();
  if (!hub) {
    place->clear();
    return hub.status();
  }
  Result<os::Fd> listener = place->open_door();
  if (!listener) return listener.status();
  if (Status settled = beginning.step([](Place& here) { return here.settle(); }); !settled) return settled;
  return make(**hub, *std::move(place), *std::move(listener), os::Fd(), true);
}

Result<DoorPtr> Door::attach(std::string_view name, const DoorOptions& options) {
  Result<Place> place = Place::find(name);
  if (!place) return place.status();
  Result<os::Fd> connection = join_at(*place, options);
  if (!connection) return connection.status();
  return make(*channel::Hub::existing(), *std::move(place), os::Fd(), *std::move(connection),
              options.stand_by);
}

Result<DoorPtr> Door::meet(std::string_view name, const DoorOptions& options) {
  Patience patience(options);
  for (;;) {
    Result<DoorPtr> attached = attach(name, options);
    if (attached || attached.code() != Code::kNotFound) return attached;
    Result<DoorPtr> served = serve(name, options);
    if (served || served.code() != Code::kExists) return served;
    if (Status waited = patience.wait(); !waited) return waited;
  }
}

Door::Door(channel::Hub& hub, Place place, os::Fd listener, os::Fd connection)
    : hub_(hub), name_(place.name()), place_(std::move(place)), connection_(std::move(connection)) {
  if (listener.valid()) {
    reception_ = std::make_unique<Reception>(hub_, std::move(listener));
    serving_.store(true, std::memory_order_release);
  }
}

Result<DoorPtr> Door::make(channel::Hub& hub, Place place, os::Fd listener, os::Fd connection,
                           bool threaded) {
  Doors::install();
  DoorPtr door(new Door(hub, std::move(place), std::move(listener), std::move(connection)));
  Doors& doors = Doors::all();
  const std::lock_guard<std::mutex> lock(doors.mutex);
  door->threaded_ = threaded;
  if (threaded) {
    if (Status started = door->start(); !started) {
      door->abandon();
      return started;
    }
  }
  doors.open.push_back(door.get());
  return door;
}

Door::~Door() { close(); }

void Door::close() noexcept {
  Doors& doors = Doors::all();
  const std::lock_guard<std::mutex> lock(doors.mutex);
  // Closed before, or a forked child, which has no part in it.
  if (std::erase(doors.open, this) == 0) return;
  stop();
  serving_.store(false, std::memory_order_release);
  reception_.reset();
  connection_.close();
  place_.clear();
  place_.abandon();
  stop_.close();
}

void Door::abandon() noexcept {
  serving_.store(false, std::memory_order_release);
  reception_.reset();
  connection_.close();
  place_.abandon();
  stop_.close();
}

Status Door::start() {
  if (!stop_.valid()) stop_ = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_.valid()) return Status::system("eventfd", errno, "the door of a domain");
  std::uint64_t rung = 0;
  (void)!::read(stop_.get(), &rung, sizeof rung);
  return os::start_thread(
      thread_, [this] { run(); }, "the door of a domain");
}

void Door::stop() noexcept {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

bool Door::wait_for(int fd, std::int64_t ns) const {
  std::array<pollfd, 2> items{pollfd{stop_.get(), POLLIN, 0}, pollfd{fd, POLLIN, 0}};
  timespec time{};
  time.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
  time.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  (void)!::ppoll(items.data(), items.size(), ns < 0 ? nullptr : &time, nullptr);
  return items[1].revents != 0;
}

bool Door::stopping() const noexcept {
  pollfd item{stop_.get(), POLLIN, 0};
  return ::poll(&item, 1, 0) > 0;
}

void Door::run() {
  while (!stopping()) {
    if (reception_) {
      reception_->turn(stop_.get());
    } else if (lost_) {
      (void)wait_for(-1, -1);
    } else {
      stand_by();
    }
  }
}

void Door::stand_by() {
  constexpr std::int64_t kLongestPauseNs = 200'000'000;
  if (connection_.valid()) {
    // The server says nothing to its members: whatever there is to be read is its end.
    if (wait_for(connection_.get(), -1)) connection_.close();
    pause_ns_ = 500'000;
    return;
  }
  if (take_over() || find_server()) return;
  if (lost_) return;
  // Another one took over, and does not listen yet.
  (void)wait_for(-1, pause_ns_);
  pause_ns_ = std::min(pause_ns_ * 2, kLongestPauseNs);
}

bool Door::take_over() {
  const Result<bool> mine = place_.take(Stand::kServer);
  if (!mine || !*mine) return false;
  Result<os::Fd> listener = place_.open_door();
  if (!listener) {
    lost_ = true;
    return false;
  }
  reception_ = std::make_unique<Reception>(hub_, *std::move(listener));
  serving_.store(true, std::memory_order_release);
  reception_->expect_death();  // of the server that was
  return true;
}

bool Door::find_server() {
  Result<os::Fd> connection = report_at(place_, hub_, stop_.get(), 1'000'000'000);
  lost_ = connection.code() == Code::kInvalid;
  if (!connection) return false;
  connection_ = *std::move(connection);
  return true;
}

}  // namespace forklift::process
