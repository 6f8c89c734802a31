// Recordings made by hand, and what must become of them.
#include "inspect/timeline.h"

#include "inspect/slice_text.h"
#include "support/recordings.h"

namespace forklift::inspect {
namespace {

using test::at_us;
using test::RecordingBuilder;
using trace::EventKind;

std::vector<std::string> names_of(const Timeline& timeline, std::size_t thread = 0) {
  std::vector<std::string> names;
  for (const Slice& slice : timeline.threads[thread].slices)
    names.push_back(slice_name(*timeline.recording, slice));
  return names;
}

// In each lane, a slice lies in those that are open when it begins, and its depth is their number.
void expect_nested(const Timeline& timeline) {
  for (const ThreadTimeline& thread : timeline.threads) {
    std::map<std::uint16_t, std::vector<std::int64_t>> lanes;
    std::int64_t last = 0;
    for (const Slice& slice : thread.slices) {
      EXPECT_LE(last, slice.begin);
      last = slice.begin;
      EXPECT_LE(slice.begin, slice.end);
      EXPECT_LE(timeline.began, slice.begin);
      EXPECT_LE(slice.end, timeline.ended);
      EXPECT_LT(slice.lane, thread.lanes);
      std::vector<std::int64_t>& open = lanes[slice.lane];
      while (!open.empty() && open.back() <= slice.begin) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(slice.end, open.back());
      }
      EXPECT_EQ(slice.depth, open.size());
      open.push_back(slice.end);
    }
  }
}

TEST(TimelineTest, AnEmptyRecordingIsEmpty) {
  const Recording nothing;
  const Timeline timeline = timeline_of(nothing);
  EXPECT_TRUE(timeline.threads.empty() && timeline.links.empty() && timeline.holds.empty());
  EXPECT_EQ(timeline.duration(), 0);
  EXPECT_TRUE(queue_lengths(timeline).empty());
  EXPECT_TRUE(memory_in_use(timeline).empty());
}

TEST(TimelineTest, SlicesNestWhereTheirTimesDo) {
  RecordingBuilder built(1000);
  built.process(10, "loader");
  built.queue(3, "frames");
  built.thread(10).task(100, 500, 1, 1).put(200, 300, 3, 1).wait(210, 290, 301, 2);
  const Timeline timeline = timeline_of(*built);
  ASSERT_EQ(timeline.threads.size(), 1u);
  EXPECT_EQ(names_of(timeline), (std::vector<std::string>{"train", "puts into queue \"frames\"",
                                                          "waits for room in queue \"frames\""}));
  const std::vector<Slice>& slices = timeline.threads[0].slices;
  EXPECT_EQ(slices[0].depth, 0);
  EXPECT_EQ(slices[1].depth, 1);
  EXPECT_EQ(slices[2].depth, 2);
  EXPECT_EQ(slices[0].begin, at_us(100));
  EXPECT_EQ(slices[0].duration(), 400'000);
  EXPECT_FALSE(slices[0].unfinished);
  expect_nested(timeline);
}

TEST(TimelineTest, SlicesOfAWaitAreOneWait) {
  RecordingBuilder built(1000);
  built.queue(3, "frames");
  built.thread(10)
      .wait(0, 50, 300, 1, 1)  // a spin
      .wait(50, 250, 300)      // and sleeps, for the same
      .wait(260, 460, 300)
      .wait(500, 520, 300)     // 40 us later: another wait
      .wait(521, 530, 301, 2)  // for something else
      .moment(EventKind::kUnlocked, 531, 4, 0)
      .wait(532, 540, 301, 2)       // after another event
      .wait(541, 1000, 301, 2, 2);  // has not ended
  const Timeline timeline = timeline_of(*built);
  const std::vector<Slice>& slices = timeline.threads[0].slices;
  ASSERT_EQ(slices.size(), 4u);
  EXPECT_EQ(slices[0].duration(), 460'000);
  EXPECT_EQ(slices[1].duration(), 20'000);
  EXPECT_EQ(slices[2].duration(), 9'000);
  EXPECT_EQ(slices[3].duration(), 468'000);
  EXPECT_FALSE(slices[2].unfinished);
  EXPECT_TRUE(slices[3].unfinished);
}

TEST(TimelineTest, EventsMayBeOutOfOrder) {
  RecordingBuilder built(1000);
  built.thread(10).task(600, 700, 2, 2).task(100, 500, 1, 1).span(EventKind::kCopy, 200, 300, 0, 4096);
  const Timeline timeline = timeline_of(*built);
  EXPECT_EQ(names_of(timeline), (std::vector<std::string>{"train", "copies into the arena", "load"}));
  expect_nested(timeline);
}

TEST(TimelineTest, TimesLieInTheRecording) {
  RecordingBuilder built(1000);
  built.thread(10)
      .span(EventKind::kRange, -500, 100, 0, 3)
      .span(EventKind::kRange, 900, 99'000, 0, 3)
      .span(EventKind::kRange, 2000, 3000, 0, 3)
      .span(EventKind::kRange, -3000, -2000, 0, 3)
      .span(EventKind::kRange, 500, 400, 0, 3)  // it takes -100 us
      .moment(EventKind::kForked, -1, 0, 0)
      .moment(EventKind::kForked, 1001, 0, 0);
  built->threads[0].events.push_back(
      {at_us(950), std::numeric_limits<std::int64_t>::max(), EventKind::kCopy, 0, 0});
  const Timeline timeline = timeline_of(*built);
  const std::vector<Slice>& slices = timeline.threads[0].slices;
  ASSERT_EQ(slices.size(), 4u);
  EXPECT_EQ(slices[0].duration(), 100'000);
  EXPECT_EQ(slices[1].duration(), 0);
  EXPECT_EQ(slices[2].duration(), 100'000);
  EXPECT_EQ(slices[3].duration(), 50'000);
  EXPECT_TRUE(timeline.threads[0].moments.empty());
  expect_nested(timeline);
}

TEST(TimelineTest, ARecordingWithoutBoundsHasThoseOfItsEvents) {
  RecordingBuilder built(1000);
  built.thread(10).task(100, 500, 1, 1);
  built->ended_ns = 0;
  const Timeline timeline = timeline_of(*built);
  EXPECT_EQ(timeline.began, at_us(100));
  EXPECT_EQ(timeline.ended, at_us(500));
}

TEST(TimelineTest, UnknownKindsAreCountedAndLeftOut) {
  RecordingBuilder built(1000);
  built.thread(10)
      .span(EventKind::kNone, 0, 10, 0, 0)
      .span(static_cast<EventKind>(9), 0, 10, 0, 0)
      .moment(static_cast<EventKind>(200), 5, 0, 0)
      .task(20, 30, 1, 1);
  const Timeline timeline = timeline_of(*built);
  EXPECT_EQ(timeline.unknown, 3u);
  EXPECT_EQ(names_of(timeline), std::vector<std::string>{"train"});
}

TEST(TimelineTest, WhatOverlapsGetsALaneOfItsOwn) {
  RecordingBuilder built(1000);
  built.thread(10)
      .span(EventKind::kRange, 0, 100, 0, 1)
      .span(EventKind::kRange, 50, 150, 0, 2)
      .span(EventKind::kRange, 60, 90, 0, 3)
      .span(EventKind::kRange, 100, 120, 0, 3);
  const Timeline timeline = timeline_of(*built);
  const std::vector<Slice>& slices = timeline.threads[0].slices;
  EXPECT_EQ(timeline.threads[0].lanes, 2);
  EXPECT_EQ(slices[1].lane, 1);
  EXPECT_EQ(slices[2].lane, 0);
  EXPECT_EQ(slices[2].depth, 1);
  EXPECT_EQ(slices[3].lane, 0);
  EXPECT_EQ(slices[3].depth, 0);
  for (const Slice& slice : slices) EXPECT_GE(slice.duration(), 20'000);
  expect_nested(timeline);
}

TEST(TimelineTest, ManyOverlapsStillNest) {
  RecordingBuilder built(1000);
  built.thread(10);
  for (int i = 0; i < 50; ++i) built.span(EventKind::kRange, i, 100 + i, 0, 1);
  const Timeline timeline = timeline_of(*built);
  EXPECT_EQ(timeline.threads[0].slices.size(), 50u);
  EXPECT_LE(timeline.threads[0].lanes, 8);
  expect_nested(timeline);
}

TEST(TimelineTest, ATaskWithoutAnEndLastsUntilItsThreadsEnd) {
  RecordingBuilder built(1000);
  auto& killed = built.process(10, "worker 1");
  killed.ended_ns = at_us(700);
  killed.left_in_order = false;
  built.thread(10)
      .task(100, 200, 1, 1)
      .moment(EventKind::kTaskBegan, 300, trace::row_and_sequence(9, 2), 2)
      .span(EventKind::kCopy, 310, 320, 0, 10);
  built.thread(11)
      .moment(EventKind::kTaskBegan, 400, trace::row_and_sequence(9, 3), 1)
      .moment(EventKind::kRangeBegan, 450, 0, 3);
  const Timeline timeline = timeline_of(*built);
  EXPECT_EQ(names_of(timeline), (std::vector<std::string>{"train", "load", "copies into the arena"}));
  const Slice& second = timeline.threads[0].slices[1];
  EXPECT_TRUE(second.unfinished);
  EXPECT_EQ(second.end, at_us(700));
  EXPECT_EQ(names_of(timeline, 1), (std::vector<std::string>{"train", "epoch"}));
  EXPECT_EQ(timeline.threads[1].slices[0].end, at_us(1000));
  EXPECT_TRUE(timeline.threads[1].slices[1].unfinished);
  expect_nested(timeline);
}

TEST(TimelineTest, ALostEndIsNoLongerThanTheNextTasksBeginning) {
  RecordingBuilder built(1000);
  built.thread(10)
      .moment(EventKind::kTaskBegan, 100, trace::row_and_sequence(9, 1), 1)
      .task(300, 400, 2, 1)
      .span(EventKind::kRange, 500, 600, 0, 3)  // the moment of its beginning stands behind it
      .moment(EventKind::kRangeBegan, 500, 0, 3);
  built->threads[0].lost = 5;
  const Timeline timeline = timeline_of(*built);
  const std::vector<Slice>& slices = timeline.threads[0].slices;
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_TRUE(slices[0].unfinished);
  EXPECT_EQ(slices[0].end, at_us(300));
  EXPECT_FALSE(slices[2].unfinished);
  EXPECT_EQ(timeline.threads[0].lost, 5u);
}

// A ring has events from before the recording, where tracing was on already.
TEST(TimelineTest, ATaskMayHaveBegunBeforeTheRecording) {
  RecordingBuilder built(1000);
  built.thread(10).task(-500, 100, 1, 1).moment(EventKind::kTaskBegan, 200, trace::row_and_sequence(9, 2), 2);
  built.thread(11)
      .task(-500, -400, 3, 1)
      .moment(EventKind::kTaskBegan, -300, trace::row_and_sequence(9, 4), 2);
  const Timeline timeline = timeline_of(*built);
  EXPECT_EQ(names_of(timeline), (std::vector<std::string>{"train", "load"}));
  EXPECT_FALSE(timeline.threads[0].slices[0].unfinished);
  EXPECT_EQ(names_of(timeline, 1), std::vector<std::string>{"load"});
  EXPECT_EQ(timeline.threads[1].slices[0].duration(), 1000 * 1000);
  expect_nested(timeline);
}

TEST(TimelineTest, AnyEventsNest) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Recording recording = test::wild_recording(seed);
    expect_nested(timeline_of(recording));
  }
}

TEST(TimelineTest, RingsOfOneThreadAreOneThread) {
  RecordingBuilder built(1000);
  built.thread(10).task(500, 600, 2, 2);
  built.thread(10).task(100, 200, 1, 1);
  built->threads[1].lost = 3;
  const Timeline timeline = timeline_of(*built);
  ASSERT_EQ(timeline.threads.size(), 1u);
  EXPECT_EQ(names_of(timeline), (std::vector<std::string>{"train", "load"}));
  EXPECT_EQ(timeline.threads[0].lost, 3u);
  ASSERT_EQ(timeline.processes.size(), 1u);  // nothing was said of process 10
  EXPECT_EQ(timeline.processes[0].name, "process 10");
}

TEST(TimelineTest, NamesAreAsRecordedOrNumbers) {
  RecordingBuilder built(1000);
  built->names[1] = "a\"b\n\xff\xc0\x80z";
  built->pools[9] = "pool of process 10";
  built.thread(10).task(0, 10, 1, 1).task(10, 20, 1, 99).put(20, 30, 9, 1).put(30, 40, 5, 1).wait(50, 60, 77);
  const Timeline timeline = timeline_of(*built);
  EXPECT_EQ(names_of(timeline), (std::vector<std::string>{"a\"b\n\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz", "?",
                                                          "puts into tasks of pool of process 10",
                                                          "puts into queue 5", "waits"}));
  EXPECT_EQ(utf8("\xf0\x9f\x98\x80 \xed\xa0\x80"), "\xf0\x9f\x98\x80 \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace forklift::inspect
