// Records of threads that sleep: what another process reads of them, and that a death leaves none.
#include "domain/wait_records.h"

#include <signal.h>
#include <unistd.h>

#include <thread>

#include "domain/waiting.h"
#include "os/clock.h"
#include "os/thread.h"
#include "support/node_fixture.h"

namespace forklift {
namespace {

using domain::Domain;
using domain::Waiting;
using domain::WaitRecord;

using domain::WaitKind;
using os::Deadline;

class WaitRecordsTest : public test::NodeFixture {
 protected:
  std::vector<Waiting> waits() { return domain::read_waits(domain().region(domain::Region::kWaits)); }
  sync::EventCount& event() { return node().locks().row(0).event; }
  std::uint64_t offset_of(const void* place) {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(place) - domain().base());
  }
};

TEST_F(WaitRecordsTest, AWaitingThreadHasOneAndAnAwakeOneHasNone) {
  EXPECT_TRUE(waits().empty());
  const std::int64_t before = os::now_ns();
  {
    const Deadline until = Deadline::after_seconds(60);
    const WaitRecord record(domain(), &event(), WaitKind::kEvent, until);
    const std::vector<Waiting> seen = waits();
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].slot.index, domain().self().index);
    EXPECT_EQ(seen[0].thread, os::thread_id());
    EXPECT_EQ(seen[0].kind, WaitKind::kEvent);
    EXPECT_EQ(seen[0].values, std::vector<std::uint64_t>{offset_of(&event())});
    EXPECT_GE(seen[0].since_ns, before);
    EXPECT_EQ(seen[0].until_ns, until.when_ns());
    EXPECT_EQ(seen[0].call_site, "");
  }
  EXPECT_TRUE(waits().empty());
}

TEST_F(WaitRecordsTest, SlicesOfOneWaitKeepItsBeginning) {
  std::int64_t began = 0;
  {
    const WaitRecord record(domain(), &event(), WaitKind::kEvent, Deadline::never());
    began = waits().at(0).since_ns;
    record.goes_on(nullptr);
  }
  {
    const WaitRecord record(domain(), &event(), WaitKind::kEvent, Deadline::never());
    EXPECT_EQ(waits().at(0).since_ns, began);
  }
  const WaitRecord record(domain(), &event(), WaitKind::kEvent, Deadline::never());
  EXPECT_GT(waits().at(0).since_ns, began);
}

TEST_F(WaitRecordsTest, AProcessAndSeveralEventsCanBeWaitedFor) {
  {
    const WaitRecord record(domain(), ::getppid(), Deadline::never());
    EXPECT_EQ(waits().at(0).kind, WaitKind::kProcess);
    EXPECT_EQ(waits().at(0).values, std::vector<std::uint64_t>{static_cast<std::uint64_t>(::getppid())});
  }
  sync::EventCount own{};
  std::vector<const sync::EventCount*> events{&own};
  std::vector<std::uint64_t> offsets;
  for (std::uint32_t i = 0; i < 6; ++i) {
    events.push_back(&node().locks().row(i).event);
    if (offsets.size() < domain::kWaitEvents) offsets.push_back(offset_of(events.back()));
  }
  const WaitRecord record(domain(), events, Deadline::never());
  EXPECT_EQ(waits().at(0).kind, WaitKind::kSeveral);
  EXPECT_EQ(waits().at(0).count, 7u);
  EXPECT_EQ(waits().at(0).values, offsets);
}

TEST_F(WaitRecordsTest, AnEventOutsideOfTheControlSegmentHasNoneUnlessItsPurposeIsSaid) {
  sync::EventCount own{};
  {
    const WaitRecord record(domain(), &own, WaitKind::kEvent, Deadline::never());
    EXPECT_TRUE(waits().empty());
  }
  const WaitRecord record(domain(), &own, WaitKind::kTask, Deadline::never());
  EXPECT_EQ(waits().at(0).kind, WaitKind::kTask);
  EXPECT_TRUE(waits().at(0).values.empty());
}

class Hooks final : public domain::WaitHooks {
 public:
  Status poll() override { return {}; }
  std::string call_site() override { return ++asked_, text_; }
  std::string text_ = "reader.py:12 in read";
  int asked_ = 0;
};

// A wait that has begun long ago, with a last slice that has just ended.
void wait_on(Domain& domain, const sync::EventCount& event, domain::WaitHooks* hooks) {
  const WaitRecord record(domain, &event, WaitKind::kEvent, Deadline::never());
  const std::int64_t began = os::now_ns();
  while (os::now_ns() - began <= domain::kDescribedAfterNs) {
  }
  record.goes_on(hooks);
}

TEST_F(WaitRecordsTest, ALongWaitSaysOnceWhereItIs) {
  Hooks hooks;
  wait_on(domain(), event(), &hooks);
  {
    const WaitRecord record(domain(), &event(), WaitKind::kEvent, Deadline::never());
    record.goes_on(&hooks);
    EXPECT_EQ(waits().at(0).call_site, "reader.py:12 in read");
  }
  EXPECT_EQ(hooks.asked_, 1);
  {
    const WaitRecord record(domain(), &event(), WaitKind::kEvent, Deadline::never());
    record.goes_on(&hooks);
  }
  const WaitRecord other(domain(), ::getppid(), Deadline::never());
  EXPECT_EQ(waits().at(0).call_site, "") << "that of an earlier wait";
}

TEST_F(WaitRecordsTest, ALongPlaceIsCut) {
  Hooks hooks;
  hooks.text_.assign(1000, 'x');
  wait_on(domain(), event(), &hooks);
  const WaitRecord record(domain(), &event(), WaitKind::kEvent, Deadline::never());
  EXPECT_EQ(waits().at(0).call_site, std::string(domain::kCallSiteBytes - 1, 'x'));
}

TEST_F(WaitRecordsTest, WithoutHooksThePlaceAreTheFrames) {
  wait_on(domain(), event(), nullptr);
  const WaitRecord record(domain(), &event(), WaitKind::kEvent, Deadline::never());
  EXPECT_NE(waits().at(0).call_site.find("+0x"), std::string::npos) << waits().at(0).call_site;
}

TEST_F(WaitRecordsTest, RowsOfThreadsThatHaveEndedAreUsedAgain) {
  constexpr int kThreads = 200;
  std::uint64_t rows = 0;
  for (int i = 0; i < kThreads; ++i) {
    std::thread([&] {
      const WaitRecord record(domain(), &event(), WaitKind::kEvent, Deadline::never());
      EXPECT_EQ(waits().size(), 1u);
    }).join();
    rows = reinterpret_cast<const domain::WaitTable*>(domain().region(domain::Region::kWaits).data())
               ->rows_used.load();
  }
  EXPECT_LE(rows, 8u);
}

TEST_F(WaitRecordsTest, TheReaperDropsThoseOfAKilledProcess) {
  test::Child child([&] {
    const WaitRecord record(domain(), &event(), WaitKind::kEvent, Deadline::never());
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(child.wait(), -SIGKILL);
  EXPECT_EQ(waits().size(), 1u);
  EXPECT_EQ(domain().reap(), 1u);
  EXPECT_TRUE(waits().empty());
}

class FewRows : public WaitRecordsTest {
 protected:
  void SetUp() override {
    WaitRecordsTest::SetUp();
    table().rows_used.store(domain::wait_rows_in(domain().region(domain::Region::kWaits).size()));
    for (domain::WaitRow& row : rows()) row.owner.store(kAnotherProcess);
  }
  void TearDown() override {
    for (domain::WaitRow& row : rows()) row.owner.store(0);
    WaitRecordsTest::TearDown();
  }
  static constexpr std::uint64_t kAnotherProcess = (std::uint64_t{7} << 22) | 1;
  domain::WaitTable& table() {
    return *reinterpret_cast<domain::WaitTable*>(domain().region(domain::Region::kWaits).data());
  }
  std::span<domain::WaitRow> rows() {
    return {reinterpret_cast<domain::WaitRow*>(&table() + 1), table().rows_used.load()};
  }
};

TEST_F(FewRows, AThreadThatGetsNoneWaitsWithoutOne) {
  const WaitRecord record(domain(), &event(), WaitKind::kEvent, Deadline::never());
  record.goes_on(nullptr);
  EXPECT_TRUE(waits().empty());
  EXPECT_EQ(table().rows_used.load(), rows().size());
}

}  // namespace
}  // namespace forklift
