// What recordings made by hand are said to be about, word for word.
#include "inspect/sentences.h"

#include <gmock/gmock.h>

#include "support/recordings.h"

namespace forklift::inspect {
namespace {

using test::at_us;
using test::RecordingBuilder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using trace::EventKind;

// A pool of `workers` that work `busy` of every 1000 us, for 20 rounds; process 10 puts the tasks, and waits never.
RecordingBuilder pool_of(int workers, std::int64_t busy) {
  RecordingBuilder built(20'000);
  built.process(10, "loader");
  built->pools[9] = "pool of process 10";
  built.place(900, 7, "task", "a task of pool of process 10");
  for (int i = 0; i < workers; ++i) built.process(20 + i, "worker " + std::to_string(i + 1), 10);
  built.thread(10);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < workers; ++i)
      built.put(round * 1000 + i, round * 1000 + i + 1, 9, static_cast<std::uint32_t>(round * workers + i));
  }
  for (int i = 0; i < workers; ++i) {
    built.thread(20 + i);
    for (int round = 0; round < 20; ++round) {
      built.task(round * 1000, round * 1000 + busy, static_cast<std::uint32_t>(round * workers + i), 1)
          .wait(round * 1000 + busy, round * 1000 + 1000, 900, 7);
    }
  }
  return built;
}

TEST(SentencesTest, SaysThatWorkersAreIdle) {
  RecordingBuilder built = pool_of(4, 290);
  EXPECT_THAT(
      breakdown_of(*built).sentences,
      ElementsAre("The 4 workers of the pool of process 10 wait 71 % of their time for tasks: more workers "
                  "will not help; what puts the tasks (loader) works 100 % of the time"));
}

TEST(SentencesTest, SaysNothingWhereNothingMatters) {
  RecordingBuilder built = pool_of(4, 600);
  EXPECT_THAT(breakdown_of(*built).sentences, IsEmpty());
  RecordingBuilder quiet(1000);
  quiet.process(10, "main");
  quiet.thread(10).put(0, 10, 3, 1).get(20, 30, 3, 1);
  EXPECT_THAT(breakdown_of(*quiet).sentences, IsEmpty());
}

TEST(SentencesTest, SaysThatMoreWorkersHelp) {
  RecordingBuilder built = pool_of(2, 950);
  built.thread(10);
  for (std::uint32_t i = 0; i < 30; ++i) built.put(10, 11, 9, 1000 + i);  // tasks that nobody has taken yet
  // The gets of pool_of's tasks are not recorded, so they count as waiting, too.
  EXPECT_THAT(
      breakdown_of(*built).sentences,
      ElementsAre(HasSubstr("The 2 workers of the pool of process 10 work 95 % of their time, and ")));
}

TEST(SentencesTest, SaysThatAQueueIsFull) {
  RecordingBuilder built(1000);
  built.process(10, "loader");
  built.process(20, "trainer");
  built.queue(3, "frames");
  built.thread(10).put(100, 740, 3, 1).wait(105, 735, 301, 2);
  built.thread(20).get(730, 740, 3, 1);
  EXPECT_THAT(
      breakdown_of(*built).sentences,
      ElementsAre("Queue \"frames\" is full 63 % of the time: its reader (trainer) is the bottleneck"));
}

TEST(SentencesTest, SaysThatAQueueIsEmpty) {
  RecordingBuilder built(1000);
  built.process(10, "loader");
  built.process(20, "trainer");
  built.queue(3, "frames");
  built.thread(10).put(790, 800, 3, 1);
  built.thread(20).wait(0, 800, 300).get(800, 810, 3, 1);
  EXPECT_THAT(
      breakdown_of(*built).sentences,
      ElementsAre(
          "Queue \"frames\" is empty while its reader (trainer) waits 80 % of its time: what puts into "
          "it (loader) is the bottleneck, and works 100 % of the time"));
}

TEST(SentencesTest, SaysThatCopiesTakeTime) {
  RecordingBuilder built(1000);
  built.process(10, "loader");
  built.thread(10).span(EventKind::kCopy, 0, 200, 0, 1 << 20).wait(500, 1000, 1);
  EXPECT_THAT(
      breakdown_of(*built).sentences,
      ElementsAre("Copies take 40 % of the time that loader does not wait: share() or freeze() what is sent "
                  "again"));
}

TEST(SentencesTest, SaysWhichLockCosts) {
  RecordingBuilder built(1000);
  for (pid_t pid = 10; pid < 14; ++pid) built.process(pid, "worker " + std::to_string(pid - 9));
  built->locks[4] = "Lock \"state\"";
  built.place(40, 3, "lock", "Lock \"state\"");
  built.thread(10).moment(EventKind::kLocked, 100, 4, 0).moment(EventKind::kUnlocked, 800, 4, 0);
  for (pid_t pid = 11; pid < 14; ++pid) built.thread(pid).wait(100, 800, 40, 3);
  EXPECT_THAT(
      breakdown_of(*built).sentences,
      ElementsAre(
          "Lock \"state\" makes worker 2, worker 3 and worker 4 wait 70 % of their time; worker 1 holds "
          "it longest, 70 % of its time: hold it for less, or divide what it guards"));
}

TEST(SentencesTest, SaysWhatStartingCosts) {
  RecordingBuilder built(1000);
  for (pid_t pid = 10; pid < 12; ++pid) {
    built.process(pid, "worker").began_ns = at_us(200);
    built.thread(pid).task(600, 1000, static_cast<std::uint32_t>(pid), 1);
  }
  EXPECT_THAT(
      breakdown_of(*built).sentences,
      ElementsAre(
          "Starting takes 50 % of the time of the 2 processes that began meanwhile, 0.40 ms each: keep "
          "them for more work, or start them by the fork server"));
}

TEST(SentencesTest, SaysThatOneTaskKeepsTheOthersWaiting) {
  RecordingBuilder built(1000);
  built.process(10, "worker 1");
  built.process(11, "worker 2");
  built.place(900, 7, "task", "a task");
  built.thread(10);
  for (int i = 0; i < 10; ++i) built.task(i * 40, i * 40 + 40, static_cast<std::uint32_t>(i), 1);
  built.task(400, 900, 50, 1);
  built.thread(11).task(360, 400, 40, 1).wait(400, 800, 900, 7);
  EXPECT_THAT(
      breakdown_of(*built).sentences,
      ElementsAre("One task of train takes 0.50 ms, 12 times the median, and the other workers wait 80 % of "
                  "that time: start the long ones first, or make the pieces smaller (chunksize)"));
}

TEST(SentencesTest, SaysWhoWasKilled) {
  RecordingBuilder built(10'000'000);
  auto& killed = built.process(10, "worker 1");
  killed.ended_ns = at_us(5'000'000);
  killed.left_in_order = false;
  built.thread(10).moment(EventKind::kTaskBegan, 1'800'000, trace::row_and_sequence(9, 2), 1);
  EXPECT_THAT(
      breakdown_of(*built).sentences,
      ElementsAre(
          "Worker 1, in the task train for 3.2 s, ended without leaving in order: its exit code, or the "
          "kernel's log if memory was short, says why"));
}

TEST(SentencesTest, SaysAtMostThreeThings) {
  RecordingBuilder built = pool_of(4, 100);
  for (std::uint32_t row = 20; row < 26; ++row) {
    built.queue(row, "queue" + std::to_string(row));
    built.process(static_cast<pid_t>(100 + row), "writer");
    built.thread(static_cast<pid_t>(100 + row))
        .wait(0, 500 * static_cast<std::int64_t>(row), row * 100 + 1, 2);
  }
  const std::vector<std::string> sentences = breakdown_of(*built).sentences;
  ASSERT_EQ(sentences.size(), 3u);
  EXPECT_THAT(sentences[0], HasSubstr("wait 90 %"));
  EXPECT_THAT(sentences[1], HasSubstr("is full 62 % of the time: nobody took anything from it"));
}

}  // namespace
}  // namespace forklift::inspect
