// Rings of events: what a reader finds, what is overwritten, and what is left of threads and processes that are gone.
#include "trace/tracer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace forklift::trace {
namespace {

constexpr std::uint64_t kSelf = std::uint64_t{1} << 63;

class TracerTest : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;

  void SetUp() override {
    memory_ = std::make_unique<std::vector<std::byte>>(kBytes + 64);
    void* at = memory_->data();
    std::size_t room = memory_->size();
    region_ = {static_cast<std::byte*>(std::align(64, kBytes, at, room)), kBytes};
    on_off_.categories.store(kEverything);
    self_.store(kSelf | std::uint64_t{7} << 32 | 3);
    tracer_.open(region_, on_off_, self_);
  }

  Region region() const { return Region(region_); }
  // Of the ring: every event that is still there.
  std::vector<Event> events(std::uint64_t ring = 0, std::uint64_t from = 0) {
    std::vector<Event> found;
    lost_ = 0;
    next_ = read_ring(region(), ring, from, found, lost_);
    return found;
  }
  std::uint64_t cells() const { return region().plan().cells; }

  std::unique_ptr<std::vector<std::byte>> memory_;
  std::span<std::byte> region_;
  Tracer::Switch on_off_{};
  Word self_{0};
  Tracer tracer_;
  std::uint64_t lost_ = 0;
  std::uint64_t next_ = 0;
};

TEST_F(TracerTest, AProcessThatBeginsWhileNobodyRecordsTakesNoRingForIt) {
  on_off_.categories.store(kByDefault);
  tracer_.begin_process(10, 9);
  EXPECT_EQ(region().table().rings_used.load(), 0u);
  tracer_.moment(Category::kLocks, EventKind::kLocked, 5, 0);  // not traced
  EXPECT_EQ(region().table().rings_used.load(), 0u);
  tracer_.moment(Category::kLife, EventKind::kForked, 0, 0);
  tracer_.moment(Category::kLife, EventKind::kForked, 0, 0);
  const std::vector<Event> found = events();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].kind, EventKind::kThread);
  EXPECT_EQ(found[1].kind, EventKind::kStarted);
  EXPECT_EQ(found[1].object, 10u);
  EXPECT_EQ(found[1].value, 9u);
  EXPECT_GT(found[1].time, 0);
  EXPECT_LE(found[1].time, found[2].time);
  EXPECT_EQ(found[2].kind, EventKind::kForked);
  EXPECT_EQ(found[3].kind, EventKind::kForked);
}

TEST_F(TracerTest, AProcessThatBeginsWhileSomebodyRecordsSaysSoAtOnce) {
  on_off_.categories.store(kByDefault);  // whoever records asked for these alone
  on_off_.until.store(std::uint64_t{1} << 62);
  tracer_.begin_process(10, 9);
  ASSERT_EQ(events().size(), 2u);
  EXPECT_EQ(events()[1].kind, EventKind::kStarted);
  on_off_.until.store(0);
  on_off_.categories.store(kEverything);
  tracer_.begin_process(11, 10);
  ASSERT_EQ(events().size(), 3u);
  EXPECT_EQ(events()[2].object, 11u);
  // A child that begins so has not its parent's start to tell.
  on_off_.categories.store(kByDefault);
  tracer_.begin_process(12, 11);
  on_off_.categories.store(kEverything & ~bit(Category::kLife));
  tracer_.begin_process(13, 12);
  tracer_.moment(Category::kLocks, EventKind::kLocked, 5, 0);
  ASSERT_EQ(events().size(), 4u);
  EXPECT_EQ(events()[3].kind, EventKind::kLocked);
}

TEST_F(TracerTest, ARingBeginsWithWhoseItIs) {
  tracer_.moment(Category::kLocks, EventKind::kLocked, 5, 0);
  const std::vector<Event> found = events();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].kind, EventKind::kThread);
  EXPECT_EQ(found[0].object >> 32, static_cast<std::uint64_t>(::getpid()));
  EXPECT_EQ(found[1].kind, EventKind::kLocked);
  EXPECT_EQ(found[1].object, 5u);
  EXPECT_GT(found[1].time, 0);
  EXPECT_EQ(lost_, 0u);
}

TEST_F(TracerTest, ASpanKeepsItsBeginningAndItsDuration) {
  const std::int64_t began = tracer_.begin(Category::kMessages);
  ASSERT_NE(began, 0);
  tracer_.write(EventKind::kPut, began, began + 12345, row_and_sequence(3, 9), bytes_and_count(100, 2));
  const Event put = events().back();
  EXPECT_EQ(put.time, began);
  EXPECT_EQ(put.duration, 12345);
  EXPECT_EQ(put.row(), 3u);
  EXPECT_EQ(put.sequence(), 9u);
  EXPECT_EQ(put.value >> kCountShift, 2u);
}

TEST_F(TracerTest, WhatIsSwitchedOffWritesNothing) {
  tracer_.switch_on(bit(Category::kLocks), 0);
  EXPECT_EQ(tracer_.begin(Category::kMessages), 0);
  tracer_.span(EventKind::kPut, tracer_.begin(Category::kMessages), 1, 1);
  tracer_.moment(Category::kMemory, EventKind::kAllocated, 1, 1);
  EXPECT_TRUE(events().empty());
  tracer_.moment(Category::kLocks, EventKind::kLocked, 1, 0);
  EXPECT_EQ(events().size(), 2u);
}

TEST_F(TracerTest, WritingEndsByItselfOnceTheTimeIsOver) {
  tracer_.switch_on(kEverything, os::now_ns() + 1);
  while (tracer_.on(Category::kLocks)) tracer_.moment(Category::kLocks, EventKind::kLocked, 1, 0);
  EXPECT_EQ(tracer_.categories(), kByDefault);
}

TEST_F(TracerTest, AFullRingOverwritesTheOldest) {
  const std::uint64_t count = 3 * cells();
  for (std::uint64_t i = 0; i < count; ++i) tracer_.moment(Category::kLocks, EventKind::kLocked, i, 0);
  const std::vector<Event> found = events();
  // The cell of the next event may be half written, so one less than all.
  ASSERT_EQ(found.size(), cells() - 1);
  EXPECT_EQ(lost_, count + 1 - (cells() - 1));
  EXPECT_EQ(found.back().object, count - 1);
  EXPECT_EQ(found.front().object, count - (cells() - 1));
}

TEST_F(TracerTest, AReaderGoesOnWhereItWas) {
  tracer_.moment(Category::kLocks, EventKind::kLocked, 1, 0);
  EXPECT_EQ(events().size(), 2u);
  const std::uint64_t next = next_;
  tracer_.moment(Category::kLocks, EventKind::kLocked, 2, 0);
  const std::vector<Event> found = events(0, next);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].object, 2u);
}

TEST_F(TracerTest, AReaderWhosePlaceIsWrongGetsNothing) {
  tracer_.moment(Category::kLocks, EventKind::kLocked, 1, 0);
  EXPECT_TRUE(events(0, 1'000'000).empty());
  EXPECT_EQ(next_, 2u);
}

// Events whose words belong together, however fast the ring is overwritten meanwhile.
TEST_F(TracerTest, WhatAReaderGetsIsWhole) {
  std::atomic<bool> stop{false};
  std::atomic<bool> began{false};
  std::thread writer([&] {
    for (std::uint64_t i = 1; !stop; ++i) {
      const auto time = static_cast<std::int64_t>(i);
      tracer_.write(EventKind::kTask, time, time + static_cast<std::int64_t>(i % 1000), i, ~i);
      began = true;
    }
  });
  while (!began) std::this_thread::yield();
  std::uint64_t from = 0;
  std::uint64_t seen = 0;
  std::uint64_t last = 0;
  while (seen < 200'000) {
    std::vector<Event> found;
    from = read_ring(region(), 0, from, found, lost_);
    for (const Event& event : found) {
      if (event.kind == EventKind::kThread) continue;
      ASSERT_EQ(event.kind, EventKind::kTask);
      ASSERT_EQ(static_cast<std::uint64_t>(event.time), event.object);
      ASSERT_EQ(event.value, ~event.object);
      ASSERT_EQ(static_cast<std::uint64_t>(event.duration), event.object % 1000);
      ASSERT_GT(event.object, last);
      last = event.object;
    }
    seen += found.size();
  }
  stop = true;
  writer.join();
}

TEST_F(TracerTest, EachThreadHasARingAndAnEndedThreadsIsUsedAgain) {
  tracer_.moment(Category::kLocks, EventKind::kLocked, 1, 0);
  for (int i = 0; i < 20; ++i)
    std::thread([this, i] {
      tracer_.moment(Category::kLocks, EventKind::kLocked, 100 + static_cast<std::uint64_t>(i), 0);
    }).join();
  EXPECT_EQ(region().table().rings_used.load(), 2u);
  const std::vector<Event> found = events(1);
  ASSERT_EQ(found.size(), 40u);
  for (std::size_t i = 0; i < found.size(); i += 2) {
    EXPECT_EQ(found[i].kind, EventKind::kThread);
    EXPECT_EQ(found[i + 1].object, 100 + i / 2);
  }
}

TEST_F(TracerTest, AnotherProcessOfTheSameThreadTakesARingOfItsOwn) {
  tracer_.moment(Category::kLocks, EventKind::kLocked, 1, 0);
  self_.store(kSelf | std::uint64_t{8} << 32 | 1);  // as in a forked child
  tracer_.moment(Category::kLocks, EventKind::kLocked, 2, 0);
  EXPECT_EQ(events(0).size(), 2u);
  EXPECT_EQ(events(1).size(), 2u);
  self_.store(0);  // as in a child that got no slot
  tracer_.moment(Category::kLocks, EventKind::kLocked, 3, 0);
  EXPECT_EQ(region().table().rings_used.load(), 2u);
}

TEST_F(TracerTest, TheRingOfAReapedProcessIsWrittenOn) {
  tracer_.moment(Category::kLocks, EventKind::kLocked, 1, 0);
  tracer_.forget(7, 3);
  EXPECT_EQ(region().rings()[0].owner.load(), 0u);
  self_.store(kSelf | std::uint64_t{7} << 32 | 4);
  tracer_.moment(Category::kLocks, EventKind::kLocked, 2, 0);
  EXPECT_EQ(events(0).size(), 4u);
}

TEST_F(TracerTest, WhereNoRingIsLeftNothingIsWritten) {
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> written{0};
  const std::uint64_t count = region().plan().rings + 3;
  for (std::uint64_t i = 0; i < count; ++i)
    threads.emplace_back([&] {
      tracer_.moment(Category::kLocks, EventKind::kLocked, 1, 0);
      ++written;
      while (!stop) std::this_thread::yield();
    });
  while (written != count) std::this_thread::yield();
  EXPECT_EQ(region().table().dropped.load(), 3u);
  stop = true;
  for (std::thread& each : threads) each.join();
}

TEST_F(TracerTest, ANameHasOneNumber) {
  const std::uint32_t step = tracer_.name("step");
  EXPECT_NE(step, 0u);
  EXPECT_EQ(tracer_.name("step"), step);
  EXPECT_NE(tracer_.name("stop"), step);
  const std::string longest(100, 'x');
  const std::uint32_t cut = tracer_.name(longest);
  EXPECT_EQ(tracer_.name(longest.substr(0, 56)), cut);
  const std::vector<std::string> names = read_names(region());
  EXPECT_EQ(names[step], "step");
  EXPECT_EQ(names[cut], longest.substr(0, 56));
  EXPECT_EQ(names[0], "");
}

TEST_F(TracerTest, ANameWhoseMakerWasKilledIsPassedOver) {
  const std::uint32_t first = tracer_.name("task");
  NameRow& row = region().names()[first];
  row.state.store(row.state.load() & ~NameRow::kComplete);
  const std::uint32_t second = tracer_.name("task");
  EXPECT_NE(second, first);
  EXPECT_NE(second, 0u);
  EXPECT_EQ(read_names(region())[second], "task");
}

TEST_F(TracerTest, AFullTableOfNamesGivesNone) {
  const std::size_t rows = region().names().size();
  for (std::size_t i = 1; i < rows; ++i) ASSERT_NE(tracer_.name(std::to_string(i)), 0u);
  EXPECT_EQ(tracer_.name("one more"), 0u);
  EXPECT_NE(tracer_.name("1"), 0u);
}

TEST(TraceGeometry, FitsInRegionsOfEverySize) {
  for (std::uint64_t bytes = 0; bytes <= std::uint64_t{1} << 30; bytes = bytes == 0 ? 4096 : bytes * 2) {
    const Geometry plan = Geometry::of(bytes);
    if (bytes == 0) {
      EXPECT_EQ(plan.rings, 0u);
      continue;
    }
    EXPECT_GE(plan.rings, 2u) << bytes;
    EXPECT_TRUE(std::has_single_bit(plan.cells)) << bytes;
    EXPECT_LE(sizeof(Table) + plan.names * sizeof(NameRow) +
                  plan.rings * (sizeof(RingRow) + plan.cells * sizeof(Cell)),
              bytes);
  }
}

}  // namespace
}  // namespace forklift::trace
