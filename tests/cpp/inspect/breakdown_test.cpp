// Where time went in recordings made by hand, with the numbers that must come out.
#include "inspect/breakdown.h"

#include <gmock/gmock.h>

#include "support/recordings.h"

namespace forklift::inspect {
namespace {

using test::at_us;
using test::RecordingBuilder;
using testing::ElementsAre;
using testing::IsEmpty;
using trace::EventKind;

constexpr std::int64_t kUs = 1000;

// A share in microseconds.
std::int64_t us(const ThreadTime& thread, Share share) { return thread[share] / kUs; }
void expect_exclusive(const Breakdown& breakdown) {
  for (const ThreadTime& thread : breakdown.threads) {
    std::int64_t sum = 0;
    for (const std::int64_t ns : thread.ns) {
      EXPECT_GE(ns, 0);
      sum += ns;
    }
    EXPECT_EQ(sum, thread.lifetime_ns) << thread.name;
  }
}
// "name: what us" for each part of the path.
std::vector<std::string> lines_of(const std::vector<PathSegment>& path) {
  std::vector<std::string> lines;
  std::int64_t last = 0;
  for (const PathSegment& segment : path) {
    if (last != 0) {
      EXPECT_EQ(segment.begin, last);
    }
    last = segment.end;
    lines.push_back(segment.process + ": " + segment.what + ' ' +
                    std::to_string((segment.end - segment.begin) / kUs));
  }
  return lines;
}

TEST(BreakdownTest, AnEmptyRecordingHasNothingToSay) {
  const Breakdown breakdown = breakdown_of(Recording{});
  EXPECT_THAT(breakdown.threads, IsEmpty());
  EXPECT_THAT(breakdown.sentences, IsEmpty());
  EXPECT_THAT(breakdown.path, IsEmpty());
}

TEST(BreakdownTest, EachMomentBelongsToOneShare) {
  RecordingBuilder built(1000);
  built.process(10, "worker").began_ns = at_us(100);
  built.queue(3, "frames");
  built.place(40, 3, "lock", "Lock 4");
  built.place(50, 4, "event", "Event 5");
  built.thread(10)
      .wait(200, 300, 300)  // for a message
      .get(300, 310, 3, 1)
      .task(310, 710, 1, 1)
      .span(EventKind::kCopy, 320, 350, 0, 100)
      .wait(400, 450, 300)  // for a message, in a task
      .put(500, 600, 3, 2)
      .wait(510, 560, 301, 2)  // for room
      .span(EventKind::kCopy, 560, 580, 0, 100)
      .wait(600, 620, 40, 3)
      .wait(620, 630, 50, 4)
      .span(EventKind::kRange, 710, 760, 0, 3);
  const Breakdown breakdown = breakdown_of(*built);
  expect_exclusive(breakdown);
  const ThreadTime& thread = breakdown.threads[0];
  EXPECT_EQ(thread.lifetime_ns, 900 * kUs);
  EXPECT_EQ(us(thread, Share::kStarting), 100);
  EXPECT_EQ(us(thread, Share::kWaitingForWork), 100);
  EXPECT_EQ(us(thread, Share::kCopying), 50);
  EXPECT_EQ(us(thread, Share::kPassing), 10 + 30);  // the get, and the put without its wait and its copy
  EXPECT_EQ(us(thread, Share::kWaitingForRoom), 50);
  EXPECT_EQ(us(thread, Share::kWaitingForLocks), 20);
  EXPECT_EQ(us(thread, Share::kWaitingOther), 50 + 10);
  EXPECT_EQ(us(thread, Share::kWorking), 400 - 30 - 50 - 100 - 30 + 50);
  EXPECT_EQ(us(thread, Share::kUnknown), 240);
  EXPECT_EQ(thread.pool, 9u);
  EXPECT_EQ(thread.waits[0].text, "a message in queue \"frames\"");
  EXPECT_EQ(thread.waits[0].ns, 150 * kUs);
}

TEST(BreakdownTest, WhatOverlapsCountsOnce) {
  RecordingBuilder built(1000);
  built.thread(10)
      .span(EventKind::kRange, 0, 600, 0, 1)
      .span(EventKind::kRange, 400, 900, 0, 2)
      .wait(500, 700, 1);
  built.thread(10, 11, "helper")
      .span(EventKind::kRange, 300, 900, 0, 1)
      .span(EventKind::kCopy, 800, 5000, 0, 1);
  const Breakdown breakdown = breakdown_of(*built);
  expect_exclusive(breakdown);
  EXPECT_EQ(us(breakdown.threads[0], Share::kWorking), 700);
  EXPECT_EQ(us(breakdown.threads[0], Share::kWaitingOther), 200);
  EXPECT_EQ(us(breakdown.threads[0], Share::kUnknown), 100);
  // Of a thread that is not the main one is known what lies between its first and its last event.
  EXPECT_EQ(breakdown.threads[1].lifetime_ns, 700 * kUs);
  EXPECT_EQ(breakdown.threads[1].name, "process 10, helper");
}

TEST(BreakdownTest, SharesAndPathAddUpWhateverTheEventsAre) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Breakdown breakdown = breakdown_of(test::wild_recording(seed));
    expect_exclusive(breakdown);
    lines_of(breakdown.path);
    EXPECT_LE(breakdown.sentences.size(), 3u);
  }
}

TEST(BreakdownTest, TasksByTheirFunction) {
  RecordingBuilder built(100'000);
  built.process(10, "worker");
  built.thread(10);
  std::int64_t time = 0;
  for (int i = 1; i <= 200; ++i) {  // 1 us, 2 us, ...
    built.task(time, time + i, static_cast<std::uint32_t>(i), 1);
    time += i;
  }
  built.task(time, time + 5000, 500, 2)
      .moment(EventKind::kTaskBegan, time + 5000, trace::row_and_sequence(9, 501), 2);
  const Breakdown breakdown = breakdown_of(*built);
  ASSERT_EQ(breakdown.tasks.size(), 2u);
  const TaskTimes& train = breakdown.tasks[0];
  EXPECT_EQ(train.name, "train");
  EXPECT_EQ(train.count, 200u);
  EXPECT_EQ(train.total_ns, 20'100 * kUs);
  EXPECT_EQ(train.median_ns, 100 * kUs);
  EXPECT_EQ(train.p99_ns, 198 * kUs);
  EXPECT_EQ(train.most_ns, 200 * kUs);
  EXPECT_EQ(breakdown.tasks[1].count, 1u);
  EXPECT_EQ(breakdown.tasks[1].unfinished, 1u);
  ASSERT_EQ(breakdown.slowest.size(), 10u);
  EXPECT_TRUE(breakdown.slowest[0].unfinished);
  EXPECT_EQ(breakdown.slowest[1].ns, 5000 * kUs);
  EXPECT_EQ(breakdown.slowest[2].name, "train");
  EXPECT_EQ(breakdown.slowest[9].ns, 193 * kUs);
}

TEST(BreakdownTest, QueuesAndLocks) {
  RecordingBuilder built(1000);
  built.queue(3, "frames");
  built->locks[4] = "Lock \"state\"";
  built.place(40, 3, "lock", "Lock \"state\"");
  built.thread(10).put(100, 200, 3, 1).wait(100, 190, 301, 2).put(300, 320, 3, 2).wait(500, 600, 40, 3);
  built.thread(11).wait(150, 250, 301, 2).get(240, 250, 3, 1).get(700, 720, 3, 2);
  built.thread(12).moment(EventKind::kLocked, 400, 4, 0).moment(EventKind::kUnlocked, 600, 4, 0);
  const Breakdown breakdown = breakdown_of(*built);
  ASSERT_EQ(breakdown.queues.size(), 1u);
  const QueueTimes& queue = breakdown.queues[0];
  EXPECT_EQ(queue.name, "queue \"frames\"");
  EXPECT_EQ(queue.puts, 2u);
  EXPECT_EQ(queue.gets, 2u);
  EXPECT_EQ(queue.bytes, 200u);
  EXPECT_EQ(queue.most, 1);
  EXPECT_DOUBLE_EQ(queue.mean, (50 + 400) / 1000.0);
  EXPECT_EQ(queue.full_ns, 150 * kUs);  // two wait at once for 40 us
  EXPECT_EQ(queue.transit_ns, 150 * kUs);
  EXPECT_THAT(queue.writers, ElementsAre(0u));
  EXPECT_THAT(queue.readers, ElementsAre(1u));
  ASSERT_EQ(breakdown.locks.size(), 1u);
  EXPECT_EQ(breakdown.locks[0].waited_ns, 100 * kUs);
  EXPECT_EQ(breakdown.locks[0].held_ns, 200 * kUs);
  EXPECT_EQ(breakdown.locks[0].holder, 2u);
}

TEST(BreakdownTest, TheCriticalPathGoesThroughWhatEndedEachWait) {
  RecordingBuilder built(1000);
  built.process(10, "main");
  built.process(20, "loader", 10).began_ns = at_us(50);
  built.process(30, "worker", 10).began_ns = at_us(60);
  built.queue(3, "frames");
  built->locks[4] = "Lock 4";
  built.place(40, 3, "lock", "Lock 4");
  built.thread(10).wait(100, 903, 500).get(903, 910, 5, 1).span(EventKind::kRange, 910, 1000, 0, 3);
  built.thread(20)
      .span(EventKind::kRange, 100, 390, 0, 2)
      .put(390, 400, 3, 1)
      .moment(EventKind::kLocked, 450, 4, 0);
  built.thread(20).moment(EventKind::kUnlocked, 600, 4, 0);
  built.thread(30)
      .wait(80, 405, 300)
      .get(405, 406, 3, 1)
      .task(410, 895, 1, 1)
      .wait(500, 602, 40, 3)
      .put(895, 900, 5, 1);
  const Breakdown breakdown = breakdown_of(*built);
  EXPECT_THAT(lines_of(breakdown.path),
              ElementsAre("main: own code 50", "loader: own code 50", "loader: load 290",
                          "loader: own code 210", "worker: wakes up 2", "worker: train 293",
                          "worker: own code 5", "main: wakes up 3", "main: own code 7", "main: epoch 90"));
  EXPECT_EQ(breakdown.path_shares[0].what, "train");
  EXPECT_EQ(breakdown.path_shares[2].process, "loader");
  EXPECT_EQ(breakdown.path_shares[2].what, "own code");
  EXPECT_EQ(breakdown.path_shares[2].ns, 260 * kUs);
}

TEST(BreakdownTest, AWaitWithoutACauseIsPartOfThePath) {
  RecordingBuilder built(1000);
  built.process(10, "main");
  built.place(70, 5, "event", "Event 7");
  built.thread(10).wait(100, 600, 70, 5).span(EventKind::kRange, 600, 900, 0, 3).wait(900, 1000, 70, 5, 2);
  EXPECT_THAT(lines_of(breakdown_of(*built).path),
              ElementsAre("main: own code 100", "main: waits for Event 7 500", "main: epoch 300"));
}

TEST(BreakdownTest, ThePathGoesThroughAFullQueue) {
  RecordingBuilder built(1000);
  built.process(10, "main");
  built.process(20, "reader", 10);
  built.queue(3, "frames");
  built.thread(10).put(100, 404, 3, 2).wait(101, 402, 301, 2).span(EventKind::kRange, 404, 900, 0, 3);
  built.thread(20).task(0, 390, 1, 1).get(395, 400, 3, 1).task(410, 790, 2, 2);
  EXPECT_THAT(lines_of(breakdown_of(*built).path),
              ElementsAre("reader: train 390", "reader: own code 10", "main: wakes up 2", "main: own code 2",
                          "main: epoch 496"));
}

TEST(BreakdownTest, ThePathGoesThroughTheEndOfAProcess) {
  RecordingBuilder built(1000);
  built.process(10, "main");
  built.process(20, "child", 10).ended_ns = at_us(800);
  built.place(20, 6, "process", "process 20");
  built.thread(10).wait(500, 803, 20, 6).span(EventKind::kRange, 803, 900, 0, 3);
  built.thread(20).task(0, 400, 1, 1).task(400, 800, 2, 2);
  EXPECT_THAT(lines_of(breakdown_of(*built).path),
              ElementsAre("child: train 400", "child: load 400", "main: wakes up 3", "main: epoch 97"));
}

TEST(BreakdownTest, ManyTasksInARowAreOnePartOfThePath) {
  RecordingBuilder built(1000);
  built.process(10, "main");
  built.thread(10);
  for (std::uint32_t i = 0; i < 100; ++i) built.task(10 * i, 10 * i + 9, i, i % 3 == 0 ? 2 : 1);
  EXPECT_THAT(lines_of(breakdown_of(*built).path), ElementsAre("main: train 999"));
}

// Causes at the same time in a circle: the walk ends.
TEST(BreakdownTest, ThePathEndsWhereTimesAreWrong) {
  RecordingBuilder built(1000);
  built.process(10, "a");
  built.process(20, "b");
  built.thread(10).wait(100, 500, 1).get(100, 500, 3, 1).put(100, 500, 4, 1);
  built.thread(20).wait(100, 500, 2).get(100, 500, 4, 1).put(100, 500, 3, 1);
  const Breakdown breakdown = breakdown_of(*built);
  std::int64_t sum = 0;
  for (const PathSegment& segment : breakdown.path) sum += segment.end - segment.begin;
  EXPECT_EQ(sum, 500 * kUs);
}

}  // namespace
}  // namespace forklift::inspect
