// Recordings of programs of which it is known what they did.
#include "inspect/recorder.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <map>
#include <set>

#include "domain/wait_records.h"
#include "forklift/trace.h"
#include "locks/mutex.h"
#include "support/node_fixture.h"

namespace forklift::inspect {
namespace {

using trace::Event;
using trace::EventKind;

class RecorderTest : public test::NodeFixture {
 protected:
  void TearDown() override {
    domain().reap();
    NodeFixture::TearDown();
  }
  Recorder start(std::uint64_t most = UINT64_MAX) {
    Result<Recorder> recorder = Recorder::start(View(domain()), trace::kEverything, most);
    EXPECT_OK(recorder.status());
    return *std::move(recorder);
  }
  static std::vector<Event> of_kind(const Recording& recording, EventKind kind) {
    std::vector<Event> found;
    for (const RecordedThread& thread : recording.threads)
      for (const Event& event : thread.events)
        if (event.kind == kind) found.push_back(event);
    return found;
  }
};

TEST_F(RecorderTest, CountsWhatAProgramDid) {
  const channel::ChannelPtr channel = make_channel();
  ASSERT_OK(channel->label().set("frames"));
  ASSERT_OK(test::put_text(*channel, "before"));
  Recorder recorder = start();
  for (int i = 0; i < 100; ++i) ASSERT_OK(test::put_text(*channel, "12345678"));
  for (int i = 0; i < 41; ++i) ASSERT_OK(test::get_text(*channel).status());
  const Recording recording = recorder.stop();
  ASSERT_OK(test::put_text(*channel, "after"));

  const std::vector<Event> puts = of_kind(recording, EventKind::kPut);
  const std::vector<Event> gets = of_kind(recording, EventKind::kGet);
  EXPECT_EQ(puts.size(), 100u);
  ASSERT_EQ(gets.size(), 41u);
  EXPECT_EQ(puts.front().value, 8u);
  EXPECT_EQ(recording.queues.at(puts.front().row()), "queue \"frames\"");
  std::set<std::uint32_t> sequences;
  for (const Event& put : puts) sequences.insert(put.sequence());
  EXPECT_EQ(sequences.size(), 100u);
  // The first get is that of the message from before.
  for (std::size_t i = 1; i < gets.size(); ++i) EXPECT_EQ(sequences.count(gets[i].sequence()), 1u);
  EXPECT_EQ(recording.threads.size(), 1u);
  EXPECT_EQ(recording.threads[0].lost, 0u);
  ASSERT_EQ(recording.processes.size(), 1u);
  EXPECT_EQ(recording.processes[0].pid, ::getpid());
  for (int i = 0; i < 61; ++i) ASSERT_OK(test::get_text(*channel).status());
}

TEST_F(RecorderTest, ABatchIsAsManyEventsAsMessages) {
  const channel::ChannelPtr channel = make_channel();
  Recorder recorder = start();
  const std::string text = "12345";
  const std::vector<channel::Outgoing> messages(10, channel::Outgoing{.bytes = test::bytes_of(text)});
  std::size_t count = 0;
  ASSERT_OK(channel->put_many(messages, count, os::Deadline::never()));
  for (int i = 0; i < 10; ++i) ASSERT_OK(test::get_text(*channel).status());
  const Recording recording = recorder.stop();
  const std::vector<Event> puts = of_kind(recording, EventKind::kPut);
  ASSERT_EQ(puts.size(), 10u);
  std::uint64_t bytes = 0;
  for (const Event& put : puts) bytes += put.value;
  EXPECT_EQ(bytes, 50u);
  std::multiset<std::uint32_t> put, got;
  for (const Event& each : puts) put.insert(each.sequence());
  for (const Event& each : of_kind(recording, EventKind::kGet)) got.insert(each.sequence());
  EXPECT_EQ(put, got);
}

TEST_F(RecorderTest, WhatAChildDidOutlivesIt) {
  const channel::ChannelPtr channel = make_channel();
  Recorder recorder = start();
  test::Child child([&] {
    for (int i = 0; i < 5; ++i) (void)test::put_text(*channel, "x");
    ::kill(::getpid(), SIGKILL);
  });
  const pid_t pid = child.pid();
  child.wait();
  for (int i = 0; i < 5; ++i) ASSERT_OK(test::get_text(*channel).status());
  domain().reap();
  const Recording recording = recorder.stop();
  std::size_t in_child = 0;
  for (const RecordedThread& thread : recording.threads) {
    if (thread.pid != pid) continue;
    for (const Event& event : thread.events) in_child += event.kind == EventKind::kPut ? 1 : 0;
  }
  EXPECT_EQ(in_child, 5u);
  const RecordedProcess* gone = nullptr;
  for (const RecordedProcess& each : recording.processes)
    if (each.pid == pid) gone = &each;
  ASSERT_NE(gone, nullptr);
  EXPECT_GE(gone->began_ns, recording.began_ns);
  EXPECT_GT(gone->ended_ns, gone->began_ns);
  EXPECT_FALSE(gone->left_in_order);
  EXPECT_EQ(gone->parent, ::getpid());
  EXPECT_EQ(of_kind(recording, EventKind::kForked).size(), 1u);
}

TEST_F(RecorderTest, WaitsSayWhatTheyAreFor) {
  const channel::ChannelPtr empty = make_channel();
  ASSERT_OK(empty->label().set("news"));
  Recorder recorder = start();
  test::Child child([&] {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)test::get_text(*empty, 60);
    (void)test::get_text(*empty, 60);
  });
  const auto sleeps = [&] {
    for (const domain::Waiting& each : domain::read_waits(domain().region(domain::Region::kWaits)))
      if (each.kind == domain::WaitKind::kEvent) return true;
    return false;
  };
  ASSERT_TRUE(test::eventually(sleeps));
  ASSERT_OK(test::put_text(*empty, "one"));
  ASSERT_TRUE(test::eventually([&] { return empty->size() == 0; }));
  ASSERT_TRUE(test::eventually(sleeps));
  const Recording recording = recorder.stop();
  ASSERT_OK(test::put_text(*empty, "two"));
  EXPECT_EQ(child.wait(), 0);

  std::size_t ended = 0;
  std::size_t lasting = 0;
  for (const Event& wait : of_kind(recording, EventKind::kWait)) {
    const RecordedPlace& place = recording.places.at({wait.object, wait.value & 0xff});
    EXPECT_EQ(place.noun, "message");
    EXPECT_EQ(place.text, "a message in queue \"news\"");
    const auto manner = static_cast<domain::WaitManner>(wait.value >> 8 & 0xff);
    (manner == domain::WaitManner::kStill ? lasting : ended) += 1;
    if (manner == domain::WaitManner::kStill) {
      EXPECT_EQ(wait.end(), recording.ended_ns);
    }
  }
  EXPECT_GE(ended, 1u);
  EXPECT_EQ(lasting, 1u);
}

TEST_F(RecorderTest, LocksRangesCountersAndBlocksAreThere) {
  Result<std::shared_ptr<locks::Mutex>> lock = locks::Mutex::create(node().locks(), false);
  ASSERT_OK(lock.status());
  Recorder recorder = start();
  trace::Tracer& tracer = domain().tracer();
  const std::int64_t range = tracer.begin(trace::Category::kRanges);
  const std::uint32_t name = tracer.name("step");
  ASSERT_EQ((*lock)->try_acquire(), locks::Took::kYes);
  ASSERT_EQ((*lock)->release(), locks::Released::kYes);
  allocate(arena::Kind::kShare, 100'000).reset();
  tracer.span(EventKind::kRange, range, 0, name);
  const Recording recording = recorder.stop();
  ASSERT_EQ(of_kind(recording, EventKind::kLocked).size(), 1u);
  EXPECT_EQ(of_kind(recording, EventKind::kUnlocked).size(), 1u);
  EXPECT_EQ(recording.locks.at((*lock)->id().index).substr(0, 5), "Lock ");
  ASSERT_EQ(of_kind(recording, EventKind::kAllocated).size(), 1u);
  EXPECT_EQ(of_kind(recording, EventKind::kAllocated)[0].value, 100'000u);
  ASSERT_EQ(of_kind(recording, EventKind::kReleased).size(), 1u);
  ASSERT_EQ(of_kind(recording, EventKind::kRange).size(), 1u);
  EXPECT_EQ(recording.name(of_kind(recording, EventKind::kRange)[0].value), "step");
}

TEST_F(RecorderTest, OnlyOneRecordsAtATime) {
  {
    Recorder first = start();
    EXPECT_EQ(Recorder::start(View(domain()), trace::kEverything).status().code(), Code::kRefused);
    (void)first.stop();
  }
  EXPECT_EQ(domain().tracer().categories(), trace::kByDefault);
  {
    const Recorder second = start();
    EXPECT_EQ(domain().tracer().categories(), trace::kEverything);
  }
  EXPECT_EQ(domain().tracer().categories(), trace::kByDefault);
  (void)start().stop();
}

TEST_F(RecorderTest, ARecorderThatIsKilledLeavesNothingSwitchedOn) {
  test::Child child([&] {
    Recorder recorder = start();
    ::kill(::getpid(), SIGKILL);
  });
  child.wait();
  EXPECT_EQ(domain().tracer().categories(), trace::kEverything);
  // As if its time were over.
  domain().header().trace.until.store(1);
  domain().tracer().moment(trace::Category::kLocks, EventKind::kLocked, 1, 0);
  EXPECT_EQ(domain().tracer().categories(), trace::kByDefault);
}

TEST_F(RecorderTest, WhatIsOverwrittenIsCountedAsLost) {
  domain().tracer().moment(trace::Category::kLife, EventKind::kForked, 0, 0);  // the ring begins
  Recorder recorder = start();
  constexpr std::uint64_t kCount = 100'000;  // a ring has 32,768 events
  trace::Tracer& tracer = domain().tracer();
  for (std::uint64_t i = 0; i < kCount; ++i) tracer.moment(trace::Category::kLocks, EventKind::kLocked, 0, 0);
  const Recording recording = recorder.stop();
  ASSERT_EQ(recording.threads.size(), 1u);
  EXPECT_EQ(recording.threads[0].events.size() + recording.threads[0].lost, kCount);
  EXPECT_EQ(recording.threads[0].events.size(), trace::Geometry::kMostCells - 1);
}

TEST_F(RecorderTest, AReaderThatKeepsUpLosesNothing) {
  Recorder recorder = start();
  constexpr std::uint64_t kCount = 100'000;
  trace::Tracer& tracer = domain().tracer();
  for (std::uint64_t i = 0; i < kCount; ++i) {
    tracer.moment(trace::Category::kLocks, EventKind::kLocked, 0, 0);
    if (i % 20'000 == 0) recorder.collect();
  }
  const Recording recording = recorder.stop();
  EXPECT_EQ(of_kind(recording, EventKind::kLocked).size(), kCount);
  EXPECT_EQ(recording.threads[0].lost, 0u);
}

TEST_F(RecorderTest, NoMoreThanAskedForIsKept) {
  Recorder recorder = start(10);
  trace::Tracer& tracer = domain().tracer();
  for (int i = 0; i < 25; ++i) tracer.moment(trace::Category::kLocks, EventKind::kLocked, 0, 0);
  EXPECT_EQ(recorder.events(), 0u);
  const Recording recording = recorder.stop();
  EXPECT_EQ(recording.threads[0].events.size(), 10u);
  EXPECT_EQ(recording.threads[0].lost, 15u);
}

TEST_F(RecorderTest, AViewForReadingOnlyCannotRecord) {
  test::Child child([&] {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::pause();
  });
  Result<std::vector<View>> views = views_of(child.pid());
  ASSERT_OK(views.status());
  EXPECT_EQ(Recorder::start(views->front(), trace::kEverything).status().code(), Code::kInvalid);
  Result<std::vector<View>> writable = views_of(child.pid(), Access::kWrite);
  ASSERT_OK(writable.status());
  Result<Recorder> recorder = Recorder::start(writable->front(), trace::kEverything);
  ASSERT_OK(recorder.status());
  (void)recorder->stop();
  ::kill(child.pid(), SIGKILL);
  child.wait();
}

}  // namespace
}  // namespace forklift::inspect
