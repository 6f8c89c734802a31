// The forkserver's hand-over of a child, killed after every instruction: the zygote, the child before it is
// one, and who asked for it. Whoever dies, either the child runs and its parent knows it, or it never does,
// and nothing of it stays.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "node/node.h"
#include "os/socket.h"
#include "process/registry.h"
#include "process/start.h"
#include "process/zygote.h"
#include "process/zygote_wire.h"
#include "step/stepper.h"
#include "step/world.h"

namespace forklift::test {
namespace {

using channel::Channel;
using node::Invitation;

constexpr std::uint64_t kChilds = 42;
constexpr int kRan = 42;

// The zygote is the child that is stepped; this process is its parent and so, too, that of its children.
class ZygoteSide : public Operation {
 public:
  void prepare() override {
    channel_ = must(Channel::create(world_.node().channels(), {}));
    invitation_.emplace(must(world_.node().invite()));
    must(channel_->offer(invitation_->child.slot));
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    ours_ = os::Fd(ends[0]);
    theirs_ = os::Fd(ends[1]);
    auto [go, childs] = must(os::stream_pair());
    go_ = std::move(go);
    numbers_ = {invitation_->control.get(), invitation_->data.get(), invitation_->child.lock.get()};
    must(process::send_request(ours_.get(), {numbers_.begin(), numbers_.end()}, {"FORKLIFT_STEP=here"},
                               std::array{childs.get(), numbers_[0], numbers_[1], numbers_[2]}));
    shutdown(ours_.get(), SHUT_WR);  // one request, then the end
    if (let_go_first_) let_go();
  }

  // A zygote has none of its parent's descriptors.
  void enter() override {
    slot_ = invitation_->child.slot;
    invitation_.reset();
    ours_.close();
    go_.close();
  }

  void act() override {
    if (process::serve_requests(std::move(theirs_))) be_the_child();
  }

  void check(const Death& death, Findings& found) override {
    theirs_.close();
    const pid_t replied = reply();
    if (death.returned && replied == 0 && !let_go_first_) found.add("no reply, but it went on");
    if (death.forked != 0) check_child(death, replied, found);
    go_.close();
    ours_.close();
    invitation_.reset();
    channel_.reset();
    world_.expect_marked(found);
  }

 protected:
  // What a forkserver's child does in init(), and a message as a sign.
  [[noreturn]] virtual void be_the_child() {
    const char* variable = getenv("FORKLIFT_STEP");
    if (variable == nullptr || std::string(variable) != "here") _exit(2);
    Result<std::unique_ptr<Node>> node =
        Node::attach(os::Fd(numbers_[0]), os::Fd(numbers_[1]), domain::ChildSlot{slot_, os::Fd(numbers_[2])});
    if (!node) _exit(3);
    const Result<ChannelPtr> mine = Channel::open((*node)->channels(), channel_->id());
    if (!mine || !Message(**node, {}, kChilds).put(**mine).ok()) _exit(4);
    _exit(kRan);
  }

  void let_go() {
    const char byte = 1;
    (void)!send(go_.get(), &byte, 1, MSG_NOSIGNAL);
  }

  // It lives although its zygote is dead, and waits until its parent knows it.
  void check_child(const Death& death, pid_t replied, Findings& found) {
    ptrace(PTRACE_DETACH, death.forked, nullptr, nullptr);
    pid_t announced = 0;
    if (recv(go_.get(), &announced, sizeof announced, 0) != sizeof announced || announced != death.forked)
      found.add("the child announced " + std::to_string(announced));
    if (replied != 0 && replied != death.forked) found.add("another pid was told");
    const bool wanted = death.point % 3 != 0;
    if (wanted) let_go();
    go_.close();
    int status = 0;
    while (waitpid(death.forked, &status, __WALL) < 0 && errno == EINTR) {
    }
    if (status != (wanted ? W_EXITCODE(kRan, 0) : 0))
      found.add("the child ended with status " + std::to_string(status));
    Incoming message;
    const Status got = channel_->get(message, os::Deadline::after_ns(0));
    if (got.ok() != wanted) found.add(wanted ? "the child left no message" : "a child ran that nobody knows");
    forked_once_ = true;
  }

  pid_t reply() const {
    process::Reply told;
    return recv(ours_.get(), &told, sizeof told, MSG_DONTWAIT) == sizeof told ? told.pid : 0;
  }

 public:
  bool forked_once_ = false;

 protected:
  World world_;
  bool let_go_first_ = false;

 private:
  ChannelPtr channel_;
  std::optional<Invitation> invitation_;
  domain::SlotRef slot_;
  os::Fd ours_;
  os::Fd theirs_;
  os::Fd go_;
  std::array<int, 3> numbers_{};
};

TEST(ZygoteStep, ZygoteSide) {
  ZygoteSide operation;
  EXPECT_TRUE(survives_every_kill("forkserver, the zygote's side", operation));
  EXPECT_TRUE(operation.forked_once_);
}

class ZygotesChildSide : public ZygoteSide {
 public:
  ZygotesChildSide() { let_go_first_ = true; }

 protected:
  [[noreturn]] void be_the_child() override {
    end_marker();
    _exit(0);
  }
};

TEST(ZygoteStep, ChildSide) {
  ZygotesChildSide operation;
  EXPECT_TRUE(survives_every_kill("forkserver, the child's side", operation, {.step_forked_child = true}));
}

void sign_address() {}
const bool kSignRegistered = [] {
  process::register_function("step.sign", &sign_address, [](const ChannelPtr& channel) {
    must(Message(*node::Node::existing(), {}, kChilds).put(*channel));
    return 0;
  });
  return true;
}();

// The process that asks is stepped; the zygote and the child are what they are.
class RequesterSide : public Operation {
 public:
  void prepare() override { channel_ = must(Channel::create(world_.node().channels(), {})); }

  void enter() override {
    sigset_t child_ended;  // would stop a traced process
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ended, nullptr);
    start();  // makes the zygote
    Incoming message;
    must(channel_->get(message, os::Deadline::after_ns(0)));
  }

  void act() override { start(); }

  void check(const Death& death, Findings& found) override {
    // The zygote, and the child if there is one, are ours now; both end by themselves.
    while (waitpid(-1, nullptr, __WALL) > 0 || errno == EINTR) {
    }
    unsigned signs = 0;
    Incoming message;
    while (channel_->get(message, os::Deadline::after_ns(0)).ok()) ++signs;
    if (signs > 1) found.add(std::to_string(signs) + " children ran");
    if (death.returned && signs == 0) found.add("the child did not run");
    ran_ = ran_ || signs == 1;
    did_not_ = did_not_ || signs == 0;
    message.clear();
    channel_.reset();
    world_.expect_marked(found);
    world_.expect_goes_on(found);
  }

  bool ran_ = false;
  bool did_not_ = false;

 private:
  void start() {
    process::Order order{.method = StartMethod::kForkserver,
                         .call = {"step.sign", ChannelRef(channel_), {}, {}},
                         .reports = nullptr,
                         .identity = {"sign", -1, false}};
    process::Child child = must(process::start_registered(world_.node(), order));
    must(child.wait(os::Deadline::after_seconds(20)));
  }

  World world_;
  ChannelPtr channel_;
};

TEST(ZygoteStep, RequesterSide) {
  RequesterSide operation;
  EXPECT_TRUE(survives_every_kill("forkserver, who asks", operation, {.most_points = 1500}));
  EXPECT_TRUE(operation.ran_);
  EXPECT_TRUE(operation.did_not_);
}

}  // namespace
}  // namespace forklift::test
