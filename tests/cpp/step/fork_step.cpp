// A fork's hand-over of slot and leases, killed after every instruction: on the parent's side, on the
// child's, and where the fork fails.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <memory>

#include "step/stepper.h"
#include "step/world.h"

namespace forklift::test {
namespace {

constexpr std::uint64_t kGrandchildsNumber = 3'000'000;

class Fork : public ChannelOperation {
 public:
  Fork() : ChannelOperation({}, {.bytes = 64, .blocks = {9000}, .kind = Kind::kPrivate}) {}

  // The forking process holds a channel, shared memory, and a received private payload.
  void enter() override {
    shared_ = must(world_.node().arena().allocate(Kind::kShare, 500));
    fill_pattern(shared_->data(), shared_->size(), 5);
    must(channel_->get(received_, os::Deadline::after_seconds(2)));
    for (const LeasePtr& lease : received_.leases()) must(lease->arena().privatise(*lease));
  }

  void act() override {
    const pid_t pid = fork();
    if (pid == 0) be_the_child();
    if (pid < 0) std::abort();
  }

 protected:
  void fill() override {
    put(1);
    put(2);
  }
  // The new process: everything that was held is there, and the channel takes its message.
  [[noreturn]] virtual void be_the_child() {
    if (!is_pattern(shared_->data(), shared_->size(), 5)) _exit(2);
    Findings found;
    if (read_message(received_, shape_, found) != 1 || !found.empty()) _exit(3);
    must(Message(world_.node(), {}, kGrandchildsNumber).put(*channel_));
    _exit(0);
  }

  void check(const Death& death, Findings& found) override {
    if (death.forked != 0) {
      // Its parent is dead and it has not run yet: it lives all the same, and keeps what it was handed.
      if (death.point % 2 == 1) world_.node().domain().reap();
      ptrace(PTRACE_DETACH, death.forked, nullptr, nullptr);
      int status = 0;
      while (waitpid(death.forked, &status, __WALL) < 0 && errno == EINTR) {
      }
      if (status != 0) found.add("the forked child ended with status " + std::to_string(status));
      forked_once_ = true;
    }
    ChannelOperation::check(death, found);
  }

  void check_numbers(const Death& death, const std::vector<std::uint64_t>& there, Findings& found) override {
    std::vector<std::uint64_t> wanted = {2};
    if (death.forked != 0) wanted.push_back(kGrandchildsNumber);
    if (there != wanted) found.add("there is " + numbers_text(there));
  }

 public:
  bool forked_once_ = false;

 protected:
  LeasePtr shared_;
  Incoming received_;
};

TEST(ForkStep, ParentSide) {
  Fork operation;
  EXPECT_TRUE(survives_every_kill("fork, parent's side", operation));
  EXPECT_TRUE(operation.forked_once_);
}

class ForkChildSide : public Fork {
 protected:
  [[noreturn]] void be_the_child() override {
    end_marker();
    _exit(0);
  }
};

TEST(ForkStep, ChildSide) {
  ForkChildSide operation;
  EXPECT_TRUE(survives_every_kill("fork, child's side", operation, {.step_forked_child = true}));
}

// A fork that fails: the handlers run all the same, and nobody tells them.
class ForkFails : public Fork {
 public:
  void enter() override {
    Fork::enter();
    const auto refuse = [](std::uint32_t call) {
      return std::array<sock_filter, 2>{sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
                                        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN)};
    };
    std::vector<sock_filter> filter = {
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
    for (const std::uint32_t call : {std::uint32_t{SYS_clone}, std::uint32_t{SYS_clone3}}) {
      const auto part = refuse(call);
      filter.insert(filter.end(), part.begin(), part.end());
    }
    filter.push_back(sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      std::abort();
    slots_ = world_.node().domain().live_slots();
  }
  void act() override {
    if (fork() >= 0 || errno != EAGAIN) std::abort();
    if (world_.node().domain().live_slots() != slots_) std::abort();
  }

 private:
  std::uint32_t slots_ = 0;
};

TEST(ForkStep, Fails) {
  ForkFails operation;
  EXPECT_TRUE(survives_every_kill("fork that fails", operation));
}

}  // namespace
}  // namespace forklift::test
