#include "node/wait_set.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "node/node.h"
#include "watch/lookout.h"

namespace forklift::inline abi_0_1::node {

namespace {
// What epoll calls the descriptors that are no members.
constexpr std::uint64_t kAlarm = ~std::uint64_t{0};
constexpr std::uint64_t kMarks = kAlarm - 1;

Status add_to(int epoll, int fd, std::uint64_t name) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = name;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return Status::system("epoll_ctl", errno, "descriptor " + std::to_string(fd) + " in a wait set");
}
}  // namespace

WaitSet::WaitSet(Node& node) : node_(node), owner_(node.domain().self()) {}

WaitSet::~WaitSet() = default;

bool WaitSet::mine() const noexcept { return node_.domain().attached() && node_.domain().self() == owner_; }

Status WaitSet::need_set() { return part_of(node_).status(); }

Result<WaitSet::Part*> WaitSet::part_of(Node& node) {
  for (const std::unique_ptr<Part>& part : parts_) {
    if (&part->node == &node) return part.get();
  }
  if (&node != &node_) {
    // Several sets at once are waited for in epoll only.
    if (Status status = need_epoll(); !status) return status;
  }
  Result<std::unique_ptr<watch::Set>> made = watch::Set::make(node.watches());
  if (!made) return made.status();
  auto part = std::unique_ptr<Part>(new Part{node, *std::move(made), {}, {}});
  if (parts_.empty()) {
    set_ = part->set.get();
  } else {
    if (Status status = poll_part(*part); !status) return status;
    if (as_descriptor_) {
      if (Status status = watch::Lookout::keep(node.watches()); !status) return status;
      node.watches().deliver_to(part->set->number());
    }
  }
  parts_.push_back(std::move(part));
  return parts_.back().get();
}

Status WaitSet::poll_part(Part& part) {
  Result<int> marks = part.set->descriptor();
  if (!marks) return marks.status();
  return add_to(epoll_.get(), *marks, kMarks);
}

Status WaitSet::need_epoll() {
  if (epoll_.valid()) return {};
  if (Status status = need_set(); !status) return status;
  Result<int> marks = set_->descriptor();
  if (!marks) return marks.status();
  os::Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return Status::system("epoll_create1", errno, "for a wait set");
  os::Fd alarm(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!alarm.valid()) return Status::system("eventfd", errno, "for a wait set");
  if (Status status = add_to(epoll.get(), *marks, kMarks); !status) return status;
  if (Status status = add_to(epoll.get(), alarm.get(), kAlarm); !status) return status;
  alarm_ = std::move(alarm);
  epoll_ = std::move(epoll);
  set_->wake();  // a wait that sleeps without it
  return {};
}

Result<WaitSet::Key> WaitSet::add(const Source& source) {
  if (!mine()) return node_.domain().not_attached();
  const std::lock_guard<std::mutex> lock(mutex_);
  return Watched::fits(source) ? add_shared(source) : add_polled(source);
}

Result<WaitSet::Key> WaitSet::add_shared(const Source& source) {
  if (Status status = need_set(); !status) return status;
  Result<Watched> watched = Watched::of(source);
  if (!watched) return watched.status();
  Node* const node = &watched->domain() == &node_.domain() ? &node_ : Node::of(watched->arena());
  if (node == nullptr)
    return Status(Code::kInvalid,
                  "this object is of another domain than the wait set, and this process is not in it");
  Result<Part*> part = part_of(*node);
  if (!part) return part.status();
  Result<std::uint32_t> member = (*part)->set->add(watched->event());
  if (!member) return member.status();
  const Key key = next_key_++;
  if (watched->is_lock()) locks_.push_back(key);
  shared_.emplace(key, Shared{*std::move(watched), *part, *member});
  std::vector<Key>& key_of = (*part)->key_of;
  if (*member >= key_of.size()) key_of.resize(*member + 1);
  key_of[*member] = key;
  return key;
}

Result<WaitSet::Key> WaitSet::add_polled(const Source& source) {
  if (Status status = need_epoll(); !status) return status;
  Polled polled{source.pipe != nullptr ? source.pipe->fd() : source.descriptor, source.pipe, {}};
  if (source.pipe != nullptr) {
    if (!source.pipe->in()) return Status(Code::kInvalid, "an end of a pipe that is for writing only");
    if (Status status = source.pipe->make_selectable(); !status) return status;
  }
  const Key key = next_key_;
  Status added = add_to(epoll_.get(), polled.fd, key);
  if (!added && added.errno_value() == EEXIST) {
    polled.duplicate = os::Fd(::fcntl(polled.fd, F_DUPFD_CLOEXEC, 0));
    if (!polled.duplicate.valid()) return Status::system("dup", errno, "for a wait set");
    polled.fd = polled.duplicate.get();
    added = add_to(epoll_.get(), polled.fd, key);
  }
  if (!added && added.errno_value() == EPERM) {
    polled.always = true;
    always_.push_back(key);
    set_->wake();
  } else if (!added) {
    return added;
  }
  ++next_key_;
  polled_.emplace(key, std::move(polled));
  return key;
}

bool WaitSet::remove(Key key) {
  if (!mine()) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto found = shared_.find(key); found != shared_.end()) {
    Part& part = *found->second.part;
    part.set->remove(found->second.member);
    std::erase(part.held, found->second.member);
    std::erase(locks_, key);
    shared_.erase(found);
    return true;
  }
  const auto found = polled_.find(key);
  if (found == polled_.end()) return false;
  if (!found->second.always) (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
  std::erase(always_, key);
  polled_.erase(found);
  return true;
}

std::size_t WaitSet::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return shared_.size() + polled_.size();
}

void WaitSet::collect_shared(Part& part, std::vector<Key>& ready, bool all) {
  std::vector<std::uint32_t> look = std::move(part.held);
  part.held.clear();
  part.set->take_marks([&](std::uint32_t member) { look.push_back(member); }, all);
  if (all) {
    for (const Key key : locks_) {
      if (const Shared& lock = shared_.at(key); lock.part == &part) look.push_back(lock.member);
    }
  }
  std::sort(look.begin(), look.end());
  look.erase(std::unique(look.begin(), look.end()), look.end());
  for (const std::uint32_t member : look) {
    // A mark that was on its way when its member was removed.
    const auto found = member < part.key_of.size() ? shared_.find(part.key_of[member]) : shared_.end();
    if (found == shared_.end() || found->second.member != member || found->second.part != &part) continue;
    Watched& watched = found->second.watched;
    if (!watched.ready_after_deaths()) continue;
    watched.look_anew();
    part.held.push_back(member);
    ready.push_back(found->first);
  }
}

Status WaitSet::collect_polled(std::vector<Key>& ready) {
  ready.insert(ready.end(), always_.begin(), always_.end());
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t name = events[static_cast<std::size_t>(i)].data.u64;
    if (name == kAlarm) {
      std::uint64_t rung = 0;
      (void)!::read(alarm_.get(), &rung, sizeof rung);
    }
    const auto found = polled_.find(name);
    if (found == polled_.end()) continue;
    if (channel::PipeEnd* const pipe = found->second.pipe) {
      Status there = pipe->wait_readable(os::Deadline::after_ns(0));
      if (there.code() == Code::kTimeout) continue;
      if (!there) return there;
    }
    ready.push_back(name);
  }
  return {};
}

Status WaitSet::collect(std::vector<Key>& ready, bool all) {
  if (Status status = need_set(); !status) return status;
  for (const std::unique_ptr<Part>& part : parts_) collect_shared(*part, ready, all);
  if (epoll_.valid()) {
    if (Status status = collect_polled(ready); !status) return status;
  }
  std::sort(ready.begin(), ready.end());
  return {};
}

void WaitSet::wake() noexcept {
  woken_.store(true, std::memory_order_release);
  stir();
}

void WaitSet::stir() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (set_) set_->wake();
  const std::uint64_t one = 1;
  if (alarm_.valid()) (void)!::write(alarm_.get(), &one, sizeof one);
}

Status WaitSet::wait(std::vector<Key>& ready, os::Deadline deadline, const std::stop_token& stop,
                     domain::WaitHooks* hooks) {
  ready.clear();
  if (!mine()) return node_.domain().not_attached();
  const std::stop_callback on_stop(stop, [this] { stir(); });
  for (bool all = false;;) {
    bool polls = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      Status status = collect(ready, all);
      polls = epoll_.valid();
      if (as_descriptor_) {
        for (const std::unique_ptr<Part>& part : parts_) {
          if (!part->held.empty() || !part->set->arm()) part->node.watches().deliver_to(part->set->number());
        }
      }
      if (!status || !ready.empty()) return status;
    }
    if (woken_.exchange(false, std::memory_order_acq_rel)) return {Code::kInterrupted, "wake() was called"};
    if (stop.stop_requested()) return {Code::kInterrupted, "a stop was requested"};
    if (hooks) {
      if (Status status = hooks->poll(); !status) return status;
    }
    if (deadline.passed()) return {Code::kTimeout, "the deadline passed"};
    Status slept = polls ? sleep_in_epoll(deadline, hooks) : set_->wait(deadline, hooks);
    if (!slept && slept.code() != Code::kTimeout) return slept;
    all = !any_marked();
  }
}

bool WaitSet::any_marked() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->set->any_marked(); });
}

bool WaitSet::arm() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->set->arm(); });
}

Status WaitSet::sleep_in_epoll(os::Deadline deadline, domain::WaitHooks* hooks) {
  if (set_->spin() || !arm()) return {};
  const std::int64_t left = deadline.left_ns(domain::look_ns(hooks));
  const timespec time{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
  pollfd item{epoll_.get(), POLLIN, 0};
  if (::ppoll(&item, 1, &time, nullptr) != 0) return {};
  std::vector<Node*> nodes;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::unique_ptr<Part>& part : parts_) nodes.push_back(&part->node);
  }
  for (Node* const node : nodes) node->domain().check_deaths();
  return {};
}

Result<int> WaitSet::descriptor() {
  if (!mine()) return node_.domain().not_attached();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (Status status = need_epoll(); !status) return status;
  for (const std::unique_ptr<Part>& part : parts_) {
    if (Status status = watch::Lookout::keep(part->node.watches()); !status) return status;
    if (!as_descriptor_) part->node.watches().deliver_to(part->set->number());  // until a wait has looked
  }
  as_descriptor_ = true;
  return epoll_.get();
}

}  // namespace forklift::inline abi_0_1::node
