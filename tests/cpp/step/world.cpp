#include "step/world.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include "os/clock.h"

namespace forklift::test {

namespace {

constexpr std::int64_t kBoundNs = 500'000'000;

// Runs `action` and adds a finding when it took longer than a survivor may be held up.
template <class Action>
void in_bounded_time(const char* what, Findings& found, Action&& action) {
  const std::int64_t begin = os::now_ns();
  action();
  const std::int64_t took = os::now_ns() - begin;
  if (took > kBoundNs) found.add(std::string(what) + " took " + std::to_string(took / 1'000'000) + " ms");
}

std::unique_ptr<Node> make_node(std::uint64_t address_space) {
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  if (address_space != 0) {
    const rlimit small{address_space, before.rlim_max};
    setrlimit(RLIMIT_AS, &small);
  }
  Result<std::unique_ptr<Node>> node = Node::create();
  setrlimit(RLIMIT_AS, &before);
  must(node.status());
  return *std::move(node);
}

}  // namespace

World::World(std::uint64_t address_space) : node_(make_node(address_space)) {
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);  // children of killed children come to us
  mark();
}

World::Counts World::count() {
  const arena::Stats stats = node_->arena().stats();
  return {stats.leases,
          stats.held_blocks,
          node_->channels().live(),
          node_->topics().live_topics(),
          node_->locks().live_locks(),
          node_->locks().live_cells(),
          node_->domain().live_slots(),
          node_->calls().live()};
}

void World::mark() { marked_ = count(); }

void World::expect_marked(Findings& found) {
  in_bounded_time("reaping", found, [&] { node_->domain().reap(); });
  const Counts now = count();
  const auto compare = [&](const char* what, std::uint64_t is, std::uint64_t was) {
    if (is != was)
      found.add(std::to_string(is) + " " + what + " are there, " + std::to_string(was) + " should be");
  };
  compare("leases", now.leases, marked_.leases);
  compare("held blocks", now.held_blocks, marked_.held_blocks);
  compare("channels", now.channels, marked_.channels);
  compare("topics", now.topics, marked_.topics);
  compare("locks", now.locks, marked_.locks);
  compare("holders' records", now.records, marked_.records);
  compare("slots", now.slots, marked_.slots);
  compare("calls and servers", now.calls, marked_.calls);
  found.add(node_->audit());
}

void World::expect_goes_on(Findings& found) {
  in_bounded_time("going on", found, [&] {
    Result<ChannelPtr> channel = channel::Channel::create(node_->channels(), {});
    if (!channel) return found.add("no new channel: " + channel.status().to_string());
    const Shape shape{.bytes = 100, .blocks = {64, 5000}};
    if (Status put = Message(*node_, shape, 77).put(**channel); !put)
      return found.add("no put after the death: " + put.to_string());
    Incoming message;
    if (Status got = (*channel)->get(message, os::Deadline::after_seconds(2)); !got)
      return found.add("no get after the death: " + got.to_string());
    if (read_message(message, shape, found) != 77) found.add("another message came");
  });
}

void ChannelOperation::prepare() {
  before_.clear();
  channel_ = must(channel::Channel::create(world_.node().channels(), options_));
  fill();
}

void ChannelOperation::put(const Shape& shape, std::uint64_t number) {
  must(Message(world_.node(), shape, number).put(*channel_));
  before_.push_back(number);
}

std::uint64_t ChannelOperation::get() {
  Incoming message;
  must(channel_->get(message, os::Deadline::after_seconds(2)));
  before_.erase(before_.begin());
  Findings ignored;
  return read_message(message, shape_, ignored);
}

// A bounded channel takes exactly as many as it should: no place was lost, none invented.
void ChannelOperation::check_capacity(std::size_t there, Findings& found) {
  if (options_.capacity == 0) return;
  std::size_t taken = 0;
  while (taken <= options_.capacity &&
         Message(world_.node(), {}, 5000 + taken).put(*channel_, os::Deadline::after_ns(0)).ok())
    ++taken;
  if (there + taken != options_.capacity) {
    found.add("a channel for " + std::to_string(options_.capacity) + " messages held " +
              std::to_string(there) + " and took " + std::to_string(taken) + " more");
  }
}

void ChannelOperation::check(const Death& death, Findings& found) {
  // Half of the survivors learn of the death by touching what it left, half by reaping.
  if (death.point % 2 == 1) world_.node().domain().reap();
  constexpr std::uint64_t kSurvivorsNumber = 2'000'000;
  const std::int64_t begin = os::now_ns();
  const bool room = options_.capacity == 0 || channel_->size() < options_.capacity;
  if (room) {
    if (Status put = Message(world_.node(), {}, kSurvivorsNumber).put(*channel_); !put)
      found.add("the survivor cannot put: " + put.to_string());
  }
  std::vector<std::uint64_t> there;
  {
    Incoming message;
    while (found.empty()) {
      const Status got = channel_->get(message, os::Deadline::after_ns(0));
      if (got.code() == Code::kTimeout) break;
      if (!got) {
        found.add("the survivor cannot get: " + got.to_string());
        break;
      }
      there.push_back(read_message(message, shape_, found));
    }
  }
  if (os::now_ns() - begin > kBoundNs) found.add("the survivor was held up");
  if (room && (there.empty() || there.back() != kSurvivorsNumber))
    found.add("the survivor's message is not the last: " + numbers_text(there));
  else if (room)
    there.pop_back();
  check_numbers(death, there, found);
  check_capacity(0, found);
  channel_.reset();
  world_.expect_marked(found);
  world_.expect_goes_on(found);
}

std::string numbers_text(const std::vector<std::uint64_t>& numbers) {
  std::string text;
  for (const std::uint64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

}  // namespace forklift::test
