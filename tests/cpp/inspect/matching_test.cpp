// Which get took which put, who held which lock, and how long queues were.
#include "inspect/matching.h"

#include "support/recordings.h"

namespace forklift::inspect {
namespace {

using test::at_us;
using test::RecordingBuilder;
using trace::EventKind;

// {beginning of the put, beginning of the get} in us.
std::vector<std::pair<std::int64_t, std::int64_t>> links_of(const Timeline& timeline) {
  std::vector<std::pair<std::int64_t, std::int64_t>> links;
  for (const Link& link : timeline.links) {
    links.emplace_back((timeline.at(link.put).begin - timeline.began) / 1000,
                       (timeline.at(link.get).begin - timeline.began) / 1000);
  }
  return links;
}
using Links = std::vector<std::pair<std::int64_t, std::int64_t>>;
using Values = std::vector<std::pair<std::int64_t, std::int64_t>>;

Values values_of(const Timeline& timeline, const std::vector<Sample>& samples) {
  Values values;
  for (const Sample& sample : samples)
    values.emplace_back((sample.time - timeline.began) / 1000, sample.value);
  return values;
}

TEST(MatchingTest, AGetHasThePutOfItsSequence) {
  RecordingBuilder built(1000);
  built.thread(10).put(0, 10, 3, 1).put(20, 30, 3, 2).put(40, 50, 4, 1);
  built.thread(11).get(100, 110, 3, 1).get(120, 130, 4, 1);
  built.thread(12).get(25, 35, 3, 2);
  const Timeline timeline = timeline_of(*built);
  EXPECT_EQ(links_of(timeline), (Links{{0, 100}, {20, 25}, {40, 120}}));
  // Both ends know their link.
  for (std::uint32_t i = 0; i < timeline.links.size(); ++i) {
    EXPECT_EQ(timeline.at(timeline.links[i].put).link, i);
    EXPECT_EQ(timeline.at(timeline.links[i].get).link, i);
  }
}

TEST(MatchingTest, WhatHasNoCounterpartHasNoLink) {
  RecordingBuilder built(1000);
  built.thread(10).put(0, 10, 3, 1).put(500, 510, 3, 7);
  built.thread(11).get(100, 110, 3, 5).get(400, 410, 3, 7).get(420, 430, 3, 1).get(440, 450, 3, 1);
  const Timeline timeline = timeline_of(*built);
  EXPECT_EQ(links_of(timeline), (Links{{0, 420}}));  // 7 was taken before it was put: that was another one
  EXPECT_EQ(timeline.threads[1].slices[0].link, Slice::kNoLink);
  EXPECT_EQ(timeline.threads[0].slices[1].link, Slice::kNoLink);
}

TEST(MatchingTest, SequencesWrapAndRowsAreUsedAgain) {
  constexpr std::uint32_t kLast = (1u << 30) - 1;
  RecordingBuilder built(1000);
  built.thread(10).put(0, 10, 3, kLast).put(20, 30, 3, 0).put(500, 510, 3, kLast).put(520, 530, 3, 0);
  built.thread(11).get(40, 50, 3, kLast).get(60, 70, 3, 0).get(600, 610, 3, kLast).get(620, 630, 3, 0);
  EXPECT_EQ(links_of(timeline_of(*built)), (Links{{0, 40}, {20, 60}, {500, 600}, {520, 620}}));
}

TEST(MatchingTest, APutWhoseGetWasLostGivesItsSequenceToTheNext) {
  RecordingBuilder built(1000);
  built.thread(10).put(0, 10, 3, 1).put(500, 510, 3, 1);
  built.thread(11).get(600, 610, 3, 1);
  EXPECT_EQ(links_of(timeline_of(*built)), (Links{{500, 600}}));
}

TEST(MatchingTest, AGetMayBeginBeforeThePut) {
  RecordingBuilder built(1000);
  built.thread(10).put(100, 120, 3, 1);
  built.thread(11).get(90, 110, 3, 1);
  EXPECT_EQ(links_of(timeline_of(*built)), (Links{{100, 90}}));
}

TEST(MatchingTest, APublishedMessageHasManyReads) {
  RecordingBuilder built(1000);
  const auto message = trace::row_and_sequence(2, 5);
  built.thread(10).span(EventKind::kPublish, 0, 10, message, 8).put(12, 14, 2, 5);
  built.thread(11).span(EventKind::kRead, 20, 30, message, 8);
  built.thread(12).span(EventKind::kRead, 15, 18, message, 8);
  built.thread(13).get(50, 60, 2, 5);  // a queue's row is none of a topic's
  const Timeline timeline = timeline_of(*built);
  EXPECT_EQ(links_of(timeline), (Links{{0, 15}, {0, 20}, {12, 50}}));
  EXPECT_EQ(timeline.threads[0].slices[0].link, 0u);
}

TEST(MatchingTest, AQueueIsAsLongAsItsPutsAndGetsSay) {
  RecordingBuilder built(1000);
  built.thread(10).put(0, 10, 3, 1).put(20, 30, 3, 2).put(100, 140, 3, 3);
  built.thread(11)
      .get(40, 50, 3, 1)
      .get(60, 70, 3, 2)
      .get(110, 120, 3, 3);  // 3 was taken before its put returned
  const Timeline timeline = timeline_of(*built);
  const std::vector<QueueLength> lengths = queue_lengths(timeline);
  ASSERT_EQ(lengths.size(), 1u);
  EXPECT_EQ(lengths[0].row, 3u);
  EXPECT_EQ(values_of(timeline, lengths[0].samples),
            (Values{{0, 0}, {10, 1}, {30, 2}, {50, 1}, {70, 0}, {120, 0}}));
}

TEST(MatchingTest, AQueueBeginsWithWhatIsTakenWithoutAPut) {
  RecordingBuilder built(1000);
  built.thread(11).get(0, 10, 3, 1).get(10, 20, 3, 2).put(20, 30, 3, 3);
  const Timeline timeline = timeline_of(*built);
  EXPECT_EQ(values_of(timeline, queue_lengths(timeline)[0].samples),
            (Values{{0, 2}, {10, 1}, {20, 0}, {30, 1}}));
}

TEST(MatchingTest, CountsBytesOfBlocks) {
  RecordingBuilder built(1000);
  built.thread(10).moment(EventKind::kAllocated, 10, 1, 4096).moment(EventKind::kReleased, 30, 9, 1024);
  built.thread(11).moment(EventKind::kAllocated, 20, 2, 100).moment(EventKind::kReleased, 40, 1, 4096);
  const Timeline timeline = timeline_of(*built);
  EXPECT_EQ(values_of(timeline, memory_in_use(timeline)),
            (Values{{0, 924}, {10, 5020}, {20, 5120}, {30, 4096}, {40, 0}}));
}

TEST(MatchingTest, ALockIsHeldFromItsAcquisitionToItsRelease) {
  RecordingBuilder built(1000);
  auto& dead = built.process(12, "dead");
  dead.ended_ns = at_us(500);
  dead.left_in_order = false;
  built.thread(10)
      .moment(EventKind::kLocked, 10, 1, 0)
      .moment(EventKind::kLocked, 20, 2, 0)
      .moment(EventKind::kUnlocked, 30, 1, 0)  // they need not nest
      .moment(EventKind::kUnlocked, 40, 2, 0)
      .moment(EventKind::kLocked, 900, 4, 0);  // is held at the end
  built.thread(11).moment(EventKind::kUnlocked, 5, 1, 0).moment(EventKind::kUnlocked, 60, 3, 0);
  built.thread(12).moment(EventKind::kLocked, 50, 3, 0).moment(EventKind::kLocked, 70, 3, 0);
  built.thread(13).moment(EventKind::kLocked, 600, 3, 1).moment(EventKind::kUnlocked, 650, 3, 0);
  const Timeline timeline = timeline_of(*built);
  struct Expected {
    std::uint32_t thread, lock;
    std::int64_t begin, end;
    bool taken_over, unfinished;
  };
  const Expected expected[] = {{0, 1, 10, 30, false, false},  {0, 2, 20, 40, false, false},
                               {2, 3, 50, 60, false, false},  // released by another thread
                               {2, 3, 70, 500, false, true},  // it died
                               {3, 3, 600, 650, true, false}, {0, 4, 900, 1000, false, true}};
  ASSERT_EQ(timeline.holds.size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    const Hold& hold = timeline.holds[i];
    EXPECT_EQ(hold.thread, expected[i].thread) << i;
    EXPECT_EQ(hold.lock, expected[i].lock) << i;
    EXPECT_EQ(hold.begin, at_us(expected[i].begin)) << i;
    EXPECT_EQ(hold.end, at_us(expected[i].end)) << i;
    EXPECT_EQ(hold.taken_over, expected[i].taken_over) << i;
    EXPECT_EQ(hold.unfinished, expected[i].unfinished) << i;
  }
}

}  // namespace
}  // namespace forklift::inspect
