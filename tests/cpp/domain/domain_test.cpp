// Slots: claimed, adopted, found dead, reaped. Every state change of domain/layout.h, with real processes.
#include "domain/domain.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "os/mapping.h"
#include "os/memfd.h"
#include "support/child.h"
#include "support/status_check.h"

namespace forklift::domain {
namespace {

using test::Child;
using test::eventually;
using test::Gate;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class DomainTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Domain>> made = Domain::create({});
    ASSERT_OK(made);
    domain_ = *std::move(made);
    domain_->header().ready.store(1);
    domain_->on_reap([this](SlotRef slot, bool clean) {
      reaped_.emplace_back(slot.index, clean);
      return true;
    });
  }
  void TearDown() override {
    domain_->reap();
    EXPECT_EQ(domain_->live_slots(), 1U);
  }

  // A child that lives in a slot of its own and runs the body there.
  Child member(const std::function<void()>& body, SlotRef* slot = nullptr) {
    Result<ChildSlot> reserved = domain_->reserve_child();
    EXPECT_OK(reserved);
    if (!reserved) return {};
    if (slot) *slot = reserved->slot;
    return Child([&] {
      domain_->adopt(*std::move(reserved));
      body();
    });
  }
  Slot& slot(SlotRef ref) {
    return reinterpret_cast<Slot*>(domain_->region(Region::kSlots).data())[ref.index];
  }

  std::unique_ptr<Domain> domain_;
  std::vector<std::pair<std::uint32_t, bool>> reaped_;  // index, clean
};

TEST_F(DomainTest, ItsMakerIsItsFirstMember) {
  EXPECT_TRUE(domain_->attached());
  EXPECT_EQ(domain_->live_slots(), 1U);
  EXPECT_EQ(domain_->pid_of(domain_->self()), static_cast<std::uint64_t>(::getpid()));
  EXPECT_FALSE(domain_->is_dead(domain_->self()));
  EXPECT_TRUE(domain_->descriptors_intact());
  EXPECT_NE(domain_->header().domain_id, 0U);
  EXPECT_EQ(domain_->reap(), 0U);
}

// What a failed fork leaves: a reserved slot whose description nobody has open.
TEST_F(DomainTest, AReservedSlotIsFreeAgainWhenItIsDropped) {
  SlotRef first;
  {
    Result<ChildSlot> reserved = domain_->reserve_child();
    ASSERT_OK(reserved);
    first = reserved->slot;
    EXPECT_FALSE(domain_->is_dead(first));
    EXPECT_EQ(domain_->reap(), 0U);
    EXPECT_EQ(domain_->live_slots(), 2U);
  }
  EXPECT_TRUE(domain_->is_dead(first));
  EXPECT_EQ(domain_->reap(), 1U);
  EXPECT_THAT(reaped_, ElementsAre(Pair(first.index, false)));
  Result<ChildSlot> second = domain_->reserve_child();
  ASSERT_OK(second);
  EXPECT_EQ(second->slot.index, first.index);
  EXPECT_EQ(second->slot.generation, first.generation + 1);
  EXPECT_TRUE(domain_->is_dead(first));  // by its generation
}

TEST_F(DomainTest, WhatDoesNotExistIsDead) {
  EXPECT_TRUE(domain_->is_dead({kSlotCount, 0}));
  EXPECT_TRUE(domain_->is_dead({kSlotCount - 1, 0}));
  EXPECT_TRUE(domain_->is_dead({domain_->self().index, domain_->self().generation + 1}));
  EXPECT_EQ(domain_->pid_of({domain_->self().index, 99}), 0U);
}

TEST_F(DomainTest, AMemberLivesUntilItIsKilled) {
  Gate ready;
  SlotRef its;
  Child child = member(
      [&] {
        EXPECT_EQ(domain_->self(), its);
        EXPECT_TRUE(domain_->attached());
        ready.open();
        ::pause();
      },
      &its);
  ASSERT_TRUE(ready.wait());
  EXPECT_FALSE(domain_->is_dead(its));
  EXPECT_EQ(domain_->pid_of(its), static_cast<std::uint64_t>(child.pid()));
  EXPECT_EQ(domain_->reap(), 0U);
  child.signal(SIGSTOP);
  EXPECT_FALSE(domain_->is_dead(its));
  child.signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return domain_->is_dead(its); }));  // while it is still a zombie
  EXPECT_EQ(domain_->reap(), 1U);
  EXPECT_EQ(domain_->reap(), 0U);
  EXPECT_THAT(reaped_, ElementsAre(Pair(its.index, false)));
}

TEST_F(DomainTest, AGoodByeIsToldFromADeath) {
  SlotRef its;
  Child child = member([&] { domain_->mark_clean(); }, &its);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(domain_->reap(), 1U);
  EXPECT_THAT(reaped_, ElementsAre(Pair(its.index, true)));
}

TEST_F(DomainTest, ExecGivesTheSlotUp) {
  test::add_helper("pause", [](const std::vector<std::string>&) { return ::pause(); });
  SlotRef its;
  Child child = member(
      [&] { ::execl("/proc/self/exe", "test", "--run-helper", "pause", static_cast<char*>(nullptr)); }, &its);
  EXPECT_TRUE(eventually([&] { return domain_->is_dead(its); }));
  EXPECT_EQ(::kill(child.pid(), 0), 0);
  EXPECT_EQ(domain_->reap(), 1U);
}

bool has_no_descriptors(pid_t pid) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    if (std::stoi(entry.path().filename()) > 2) return false;
  }
  return true;
}

TEST_F(DomainTest, WhoClosesAllDescriptorsIsNotDead) {
  SlotRef its;
  Gate ready;
  Result<ChildSlot> nascent = domain_->reserve_child();  // without a process that could be looked at
  ASSERT_OK(nascent);
  Child child = member(
      [&] {
        ready.open();
        nascent->lock.close();
        ::syscall(SYS_close_range, 3U, ~0U, 0U);
        EXPECT_FALSE(domain_->descriptors_intact());
        EXPECT_CODE(Code::kNotAttached, domain_->reserve_child());
        EXPECT_EQ(domain_->reap(), 0U);  // it knows nothing of others, so it claims nothing
        for (int i = 3; i < 30; ++i) ASSERT_EQ(::open("/dev/null", O_RDWR), i);
        EXPECT_EQ(domain_->reap(), 0U);
        // The numbers are somebody else's now: nobody closes them.
        domain_->detach();
        for (int i = 3; i < 30; ++i) EXPECT_GE(::fcntl(i, F_GETFD), 0) << i;
        ::syscall(SYS_close_range, 3U, ~0U, 0U);
        ::pause();
      },
      &its);
  ASSERT_TRUE(ready.wait());
  ASSERT_TRUE(eventually([&] { return has_no_descriptors(child.pid()); }));
  EXPECT_FALSE(domain_->is_dead(its));
  EXPECT_EQ(domain_->reap(), 0U);
  {
    // Without a free descriptor nothing can be learnt from /proc: no reason to take it for dead.
    rlimit old{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
    const rlimit none{0, old.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_FALSE(domain_->is_dead(its));
    EXPECT_EQ(domain_->reap(), 0U);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  }
  child.signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return domain_->is_dead(its); }));
  EXPECT_EQ(domain_->reap(), 1U);
  EXPECT_FALSE(domain_->is_dead(nascent->slot));
}

TEST_F(DomainTest, ACloneBehindForksBackIsNoMember) {
  SlotRef its;
  Gate ready;
  Gate go;
  Child parent = member(
      [&] {
        const long clone = ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
        if (clone != 0) ::_exit(0);  // its slot's description lives on in the clone
        EXPECT_FALSE(domain_->attached());
        EXPECT_CODE(Code::kNotAttached, domain_->reserve_child());
        EXPECT_THAT(std::string(domain_->not_attached().what()), HasSubstr("raw clone"));
        EXPECT_EQ(domain_->reap(), 0U);
        domain_->mark_clean();  // not in its parent's name
        ready.open();
        EXPECT_TRUE(go.wait());
        EXPECT_OK(domain_->try_attach());
        EXPECT_TRUE(domain_->attached());
        EXPECT_NE(domain_->self(), its);
        ready.open();
        ::_exit(HasFailure() ? 1 : 0);
      },
      &its);
  ASSERT_TRUE(ready.wait());
  EXPECT_EQ(parent.wait(), 0);
  EXPECT_TRUE(domain_->is_dead(its)) << "though the clone keeps its lock";
  EXPECT_EQ(domain_->reap(), 1U);
  EXPECT_THAT(reaped_, ElementsAre(Pair(its.index, false)));
  go.open();
  EXPECT_TRUE(ready.wait());
  EXPECT_TRUE(eventually([&] { return domain_->reap() == 1; }));
}

TEST_F(DomainTest, AllSlotsTakenSaysSoUntilOneIsFree) {
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  if (old.rlim_max < kSlotCount + 100) GTEST_SKIP() << "too few descriptors are allowed";
  const rlimit more{old.rlim_max, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &more), 0);
  std::vector<ChildSlot> all;
  std::set<std::uint32_t> indices{domain_->self().index};
  for (std::uint32_t i = 1; i < kSlotCount; ++i) {
    Result<ChildSlot> reserved = domain_->reserve_child();
    ASSERT_OK(reserved);
    indices.insert(reserved->slot.index);
    all.push_back(*std::move(reserved));
  }
  EXPECT_EQ(indices.size(), kSlotCount);
  const Result<ChildSlot> none = domain_->reserve_child();
  EXPECT_CODE(Code::kNoSpace, none);
  EXPECT_THAT(std::string(none.status().what()), HasSubstr(std::to_string(kSlotCount)));
  const SlotRef dropped = all[700].slot;
  all.erase(all.begin() + 700);
  Result<ChildSlot> again = domain_->reserve_child();  // reaps for itself
  ASSERT_OK(again);
  EXPECT_EQ(again->slot.index, dropped.index);
  EXPECT_EQ(again->slot.generation, dropped.generation + 1);
  all.clear();
  again->lock.close();
  EXPECT_EQ(domain_->reap(), kSlotCount - 1);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
}

TEST_F(DomainTest, WhatADeadReaperBeganIsTakenUp) {
  SlotRef its;
  Gate ready;
  Child dead = member([] {}, &its);
  EXPECT_EQ(dead.wait(), 0);
  Child reaper = member([&] {
    domain_->on_reap([&](SlotRef, bool) { return ::kill(::getpid(), SIGKILL) == 0; });
    domain_->reap();
  });
  EXPECT_EQ(reaper.wait(), -SIGKILL);
  EXPECT_EQ(slot(its).state.load() & 0xff, static_cast<std::uint64_t>(SlotState::kReaping));
  EXPECT_TRUE(eventually([&] { return domain_->reap() > 0; }));
  EXPECT_THAT(reaped_, testing::Contains(Pair(its.index, false)));
  EXPECT_EQ(slot(its).state.load(), (std::uint64_t{its.generation} + 1) << 32);
}

TEST_F(DomainTest, ChecksForDeathsAreRare) {
  domain_->check_deaths();
  {
    ASSERT_OK(domain_->reserve_child());
  }
  for (int i = 0; i < 10; ++i) domain_->check_deaths();
  EXPECT_EQ(domain_->live_slots(), 2U);
  EXPECT_TRUE(eventually([&] {
    domain_->check_deaths();
    return domain_->live_slots() == 1;
  }));
}

// Claims, deaths and reapers all at once: no slot has two owners, none is lost.
TEST_F(DomainTest, NoSlotHasTwoOwners) {
  Result<os::Fd> file = os::create_memfd("forklift-test", kSlotCount * 8);
  ASSERT_OK(file);
  Result<os::Mapping> table = os::Mapping::shared(*file, 0, kSlotCount * 8);
  ASSERT_OK(table);
  auto* owners = reinterpret_cast<std::atomic<std::uint64_t>*>(table->data());
  const auto claim_and_drop = [&] {
    for (std::uint64_t round = 1; round <= 300; ++round) {
      Result<ChildSlot> mine = domain_->reserve_child();
      ASSERT_OK(mine);
      std::uint64_t nobody = 0;
      ASSERT_TRUE(owners[mine->slot.index].compare_exchange_strong(nobody, round)) << mine->slot.index;
      owners[mine->slot.index].store(0);
      mine->lock.close();
      if (round % 3 == 0) domain_->reap();
    }
  };
  std::vector<Child> children;
  for (int i = 0; i < 3; ++i) children.push_back(member(claim_and_drop));
  claim_and_drop();
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(eventually([&] { return domain_->reap(), domain_->live_slots() == 1; }));
}

}  // namespace
}  // namespace forklift::domain
