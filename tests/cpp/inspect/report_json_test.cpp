// The JSON that a page shows: what is kept of a timeline, and that its sums stay exact.
#include "inspect/report_json.h"

#include <gmock/gmock.h>

#include "inspect/downsampling.h"
#include "inspect/json.h"
#include "support/recordings.h"

namespace forklift::inspect {
namespace {

using test::at_us;
using test::RecordingBuilder;
using testing::HasSubstr;
using testing::Not;
using trace::EventKind;

TEST(JsonTest, WritesWhatReadersOfJsonRead) {
  Json json;
  json.object([&] {
    json("text", "a\"b\\c\n\t\x01")("number", -3)("large", std::uint64_t{1} << 63)("half", 0.5)("yes", true);
    json("none", std::numeric_limits<double>::infinity());
    json.array("list", [&] {
      json.add(1);
      json.row(2, "x");
      json.array([] {});
      json.object([&] { json("inner", false); });
    });
    json.object("empty", [] {});
  });
  EXPECT_EQ(
      json.take(),
      R"({"text":"a\"b\\c\u000a\u0009\u0001","number":-3,"large":9223372036854775808,"half":0.5,"yes":true,)"
      R"("none":null,"list":[1,[2,"x"],[],{"inner":false}],"empty":{}})");
}

TEST(JsonTest, MayStandInAPage) {
  Json json;
  json.add("</script><!-- \xff \xe2\x80\xa8\xe2\x80\xa9 &");
  EXPECT_EQ(json.take(), "\"\\u003c/script\\u003e\\u003c!-- \xef\xbf\xbd \\u2028\\u2029 \\u0026\"");
}

std::pair<std::uint64_t, std::int64_t> sums_of(const std::vector<Block>& blocks) {
  std::uint64_t count = 0;
  std::int64_t ns = 0;
  for (const Block& block : blocks) {
    count += block.count;
    ns += block.total_ns;
  }
  return {count, ns};
}

TEST(DownsamplingTest, FewSlicesStayAsTheyAre) {
  RecordingBuilder built(1000);
  built.thread(10).task(0, 10, 1, 1).task(10, 20, 2, 1);
  const Timeline timeline = timeline_of(*built);
  const std::vector<Block> blocks = downsample(timeline.threads[0], 2);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].count, 1u);
  EXPECT_TRUE(downsample(timeline_of(*RecordingBuilder(10).thread(10)).threads[0], 4).empty());
}

TEST(DownsamplingTest, SmallSlicesAreMergedAndSumsAreExact) {
  RecordingBuilder built(10'000'000);
  built.thread(10);
  std::int64_t expected_ns = 0;
  for (int i = 0; i < 50'000; ++i) {
    const std::int64_t begin = 200 * i;
    const std::int64_t length = i == 25'000 ? 150'000 : 50 + i % 100;  // one is long
    if (i > 25'000 && i < 25'760) continue;
    built.task(begin, begin + length, static_cast<std::uint32_t>(i), 1 + i % 2)
        .put(begin + 1, begin + 2, 3, 1);
    expected_ns += (length + 1) * 1000;
  }
  const Timeline timeline = timeline_of(*built);
  const std::vector<Block> blocks = downsample(timeline.threads[0], kMostSlicesOfThread);
  EXPECT_LE(blocks.size(), kMostSlicesOfThread);
  EXPECT_GT(blocks.size(), kMostSlicesOfThread / 8);
  EXPECT_EQ(sums_of(blocks), std::pair(std::uint64_t{2 * (50'000 - 759)}, expected_ns));
  bool found = false;
  std::map<std::uint16_t, std::int64_t> ends;
  for (const Block& block : blocks) {
    found = found || (block.count == 1 && block.total_ns == 150'000'000);
    EXPECT_LE(ends[block.row], block.begin);  // blocks of a row do not overlap
    ends[block.row] = block.end;
  }
  EXPECT_TRUE(found) << "the long task was merged";
}

TEST(DownsamplingTest, ASamplesPeakIsKept) {
  std::vector<Sample> samples;
  for (int i = 0; i < 10'000; ++i) samples.push_back({i, i == 5'001 ? 99 : i % 3});
  const std::vector<Sample> kept = downsample(samples, 100);
  EXPECT_LE(kept.size(), 100u);
  std::int64_t most = 0;
  for (const Sample& sample : kept) most = std::max(most, sample.value);
  EXPECT_EQ(most, 99);
}

TEST(DownsamplingTest, ALongPathIsReducedWithoutGaps) {
  std::vector<PathSegment> path;
  std::int64_t time = 0;
  for (std::size_t i = 0; i < 100'000; ++i) {
    const std::int64_t ns = i % 5'000 == 0 ? 10'000'000 : 100;
    path.push_back({i % 3, "p", "w", time, time + ns});
    time += ns;
  }
  const std::vector<PathSegment> kept = downsample(path, 1000);
  EXPECT_LE(kept.size(), 1000u);
  for (std::size_t i = 1; i < kept.size(); ++i) EXPECT_EQ(kept[i - 1].end, kept[i].begin);
  EXPECT_EQ(kept.front().begin, 0);
  EXPECT_EQ(kept.back().end, time);
}

TEST(ReportTest, AnEmptyRecordingIsAReport) {
  const std::string text = report_json(Recording{});
  EXPECT_THAT(text, HasSubstr(R"("threads":[],"links_total":0,)"));
  EXPECT_THAT(text, HasSubstr(R"("sentences":[])"));
}

TEST(ReportTest, HasWhatThePageShows) {
  RecordingBuilder built(1000);
  built.process(10, "load</script>er");
  built.queue(3, "frames");
  built.thread(10)
      .task(100, 200, 7, 1)
      .put(300, 310, 3, 5, 4096)
      .wait(400, 500, 301, 2)
      .wait(900, 1000, 300, 1, 2);
  built.thread(11).get(320, 330, 3, 5, 4096).span(EventKind::kRange, 400, 450, 0, 3);
  built->threads[1].lost = 4;
  const std::string text = report_json(*built);
  EXPECT_THAT(text, Not(HasSubstr("<")));
  EXPECT_THAT(text, HasSubstr(R"("name":"load\u003c/script\u003eer")"));
  EXPECT_THAT(text, HasSubstr(R"("lost":4)"));
  // [begin, duration, row, kind, name, has no end, bytes, number]
  EXPECT_THAT(text, HasSubstr("\"slices\":[[100000,100000,0,0,0,0,0,7],[300000,10000,0,2,1,0,4096,5],"
                              "[400000,100000,0,8,2,0],[900000,100000,0,7,3,1]]"));
  EXPECT_THAT(text, HasSubstr("\"links_total\":1,\"links_step\":1,\"links\":[[0,300000,1,330000]]"));
  EXPECT_THAT(
      text, HasSubstr(R"("names":["train","puts into queue \"frames\"","waits for room in queue \"frames\"",)"
                      R"("waits for a message in queue \"frames\"","gets from queue \"frames\"","epoch")"));
  EXPECT_THAT(text, HasSubstr("\"length\":[[0,0],[310000,1],[330000,0]]"));
  EXPECT_THAT(text, HasSubstr(R"("tasks":[{"name":"train","count":1,"unfinished":0,"total":100000,)"));
}

TEST(ReportTest, AMillionEventsAreAPageOfSomeMegabytes) {
  RecordingBuilder built(2'000'000);
  for (pid_t pid = 10; pid < 20; ++pid) {
    built.thread(pid);
    for (int i = 0; i < 100'000; ++i)
      built.span(pid % 2 == 0 ? EventKind::kPut : EventKind::kGet, 20 * i, 20 * i + 5,
                 trace::row_and_sequence(static_cast<std::uint32_t>(pid / 2), static_cast<std::uint32_t>(i)),
                 10);
  }
  EXPECT_LT(report_json(*built).size(), 5'000'000u);
}

}  // namespace
}  // namespace forklift::inspect
