#include "forklift/label.h"

#include <gtest/gtest.h>

#include <string>

#include "forklift/broadcast.h"
#include "forklift/claim.h"
#include "forklift/domain.h"
#include "forklift/joinable_queue.h"
#include "forklift/latest.h"
#include "forklift/lock.h"
#include "forklift/process.h"
#include "forklift/queue.h"
#include "forklift/semaphore.h"

namespace forklift {
namespace {

template <class Call>
std::string words_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Labels, AreInTheWordsOfQueues) {
  Queue<int> frames({.label = "frames"});
  EXPECT_EQ(label_of(frames), "frames");
  frames.close();
  EXPECT_NE(words_of([&] { frames.put(1); }).find("the queue \"frames\" is closed"), std::string::npos);
  EXPECT_NE(words_of([&] { (void)frames.get(); }).find("the queue \"frames\" is closed and empty"),
            std::string::npos);
  JoinableQueue<int> jobs;
  set_label(jobs, "jobs");
  EXPECT_NE(words_of([&] { jobs.task_done(); }).find("a queue \"jobs\""), std::string::npos);
  Queue<int> plain;
  plain.close();
  EXPECT_NE(words_of([&] { plain.put(1); }).find("the queue is closed"), std::string::npos);
}

TEST(Labels, OfQueuesWithClaims) {
  Queue<int, Delivery::kAtLeastOnce> work({.label = "work"});
  work.close();
  EXPECT_NE(words_of([&] { (void)work.get(); }).find("the queue \"work\" is closed"), std::string::npos);
}

TEST(Labels, OfLocksAndTopics) {
  Lock journal;
  set_label(journal, "journal");
  EXPECT_EQ(label_of(journal), "journal");
  EXPECT_NE(words_of([&] { journal.unlock(); }).find("a Lock \"journal\""), std::string::npos);
  Semaphore seats;
  set_label(seats, "seats");
  EXPECT_EQ(label_of(seats), "seats");
  Broadcast<int> prices;
  set_label(prices, "prices");
  prices.close();
  EXPECT_NE(words_of([&] { prices.put(1); }).find("the topic \"prices\" is closed"), std::string::npos);
  Latest<int> newest;
  EXPECT_EQ(label_of(newest), "");
}

TEST(Labels, AreSeenByOtherProcesses) {
  Queue<int> numbers({.label = "numbers"});
  Process child = Process::fork([&] {
    if (label_of(numbers) != "numbers") return 1;
    set_label(numbers, "renamed by the child");
    return 0;
  });
  child.start();
  child.join();
  EXPECT_EQ(child.exitcode(), 0);
  EXPECT_EQ(label_of(numbers), "renamed by the child");
}

TEST(Labels, ComeFromThePublishedName) {
  Queue<int> published;
  Queue<int> labelled({.label = "its own"});
  Domain domain = Domain::own();
  domain.publish("label-test.published", published);
  domain.publish("label-test.labelled", labelled);
  EXPECT_EQ(label_of(published), "label-test.published");
  EXPECT_EQ(label_of(labelled), "its own");
  EXPECT_TRUE(domain.unpublish("label-test.published"));
  EXPECT_TRUE(domain.unpublish("label-test.labelled"));
}

TEST(Labels, DoNotOutliveTheirObject) {
  for (int i = 0; i < 3; ++i) {
    Queue<int> queue;
    EXPECT_EQ(label_of(queue), "") << "a row that was used before";
    set_label(queue, "used");
    Lock lock;
    EXPECT_EQ(label_of(lock), "");
    set_label(lock, "used");
    Broadcast<int> topic;
    EXPECT_EQ(label_of(topic), "");
    set_label(topic, "used");
  }
}

TEST(Labels, RefuseWhatIsNotForPeople) {
  Queue<int> queue;
  EXPECT_NE(words_of([&] { set_label(queue, std::string(65, 'x')); }).find("65 bytes"), std::string::npos);
  EXPECT_NE(words_of([&] { set_label(queue, "a\tb"); }).find("control character"), std::string::npos);
  EXPECT_THROW(Queue<int>({.label = "a\nb"}), Error);
  EXPECT_THROW(set_label(Queue<int>(nullptr), "none"), Error);
  EXPECT_THROW((void)label_of(Lock(nullptr)), Error);
}

}  // namespace
}  // namespace forklift
