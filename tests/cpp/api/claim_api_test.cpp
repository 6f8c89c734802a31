// Queue<T, Delivery::kAtLeastOnce> and Claim<T>: the four ends of a claim, its ways to other processes, bad use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "forklift/multiprocessing.h"
#include "support/asleep.h"
#include "support/child.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using test::Child;
using test::Gate;

struct Job {
  int number;
};
template <class T>
using Reliable = Queue<T, Delivery::kAtLeastOnce>;
using Jobs = Reliable<Job>;

class ClaimApiTest : public test::ProcessFixture {};

template <class Call>
Code code_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::kOk;
}

TEST_F(ClaimApiTest, TheEndOfTheScopeAcknowledges) {
  Jobs jobs;
  jobs.put({1});
  {
    const Claim<Job> job = jobs.get();
    EXPECT_EQ(job->number, 1);
    EXPECT_EQ((*job).number, 1);
    EXPECT_EQ(job.tries(), 1U);
    EXPECT_EQ(jobs.unacknowledged(), 1U);
    EXPECT_TRUE(jobs.empty());
  }
  EXPECT_EQ(jobs.unacknowledged(), 0U);
  EXPECT_FALSE(jobs.try_get());
  EXPECT_TRUE(jobs.try_join());
}

TEST_F(ClaimApiTest, AnExceptionGivesItBack) {
  Jobs jobs;
  jobs.put({1});
  jobs.put({2});
  EXPECT_THROW(
      {
        const Claim<Job> job = jobs.get();
        throw std::runtime_error("work failed");
      },
      std::runtime_error);
  const Claim<Job> again = jobs.get();
  EXPECT_EQ(again->number, 1);
  EXPECT_EQ(again.tries(), 2U);
}

// An exception that was under way before the get unwinds another scope.
TEST_F(ClaimApiTest, AGetDuringAnUnwindingAcknowledges) {
  Jobs jobs;
  jobs.put({1});
  struct GetsAtItsEnd {
    Jobs& jobs;
    ~GetsAtItsEnd() { const Claim<Job> job = jobs.get(); }
  };
  try {
    const GetsAtItsEnd later{jobs};
    throw std::runtime_error("elsewhere");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(jobs.unacknowledged(), 0U);
  EXPECT_TRUE(jobs.empty());
}

TEST_F(ClaimApiTest, ExplicitEnds) {
  Jobs jobs;
  jobs.put({1});
  Claim<Job> job = jobs.get();
  EXPECT_TRUE(job);
  job.give_back();
  EXPECT_FALSE(job);
  EXPECT_EQ(jobs.size(), 1U);
  EXPECT_EQ(code_of([&] { job.acknowledge(); }), Code::kInvalid);
  job = jobs.get();
  job.acknowledge();
  EXPECT_EQ(job->number, 1) << "the message can be read after the end of its claim";
  EXPECT_EQ(code_of([&] { job.give_back(); }), Code::kInvalid);
  EXPECT_EQ(jobs.size() + jobs.unacknowledged(), 0U);
}

TEST_F(ClaimApiTest, MovesAndOutlivesItsHandle) {
  auto jobs = std::make_unique<Jobs>();
  jobs->put({1});
  jobs->put({2});
  Claim<Job> first = jobs->get();
  Claim<Job> second = std::move(first);
  EXPECT_FALSE(first);                                               // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(code_of([&] { (void)*first; }), Code::kInvalid);         // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(code_of([&] { first.acknowledge(); }), Code::kInvalid);  // NOLINT(bugprone-use-after-move)
  second = jobs->get();                                              // what it held is acknowledged
  EXPECT_EQ(jobs->unacknowledged(), 1U);
  Jobs other = *jobs;
  jobs.reset();
  second.give_back();
  EXPECT_EQ(other.get()->number, 2);
  Claim<Job> third = [] {
    Jobs shortlived;
    shortlived.put({3});
    return shortlived.get();
  }();
  EXPECT_EQ(third->number, 3);
  third.acknowledge();
}

TEST_F(ClaimApiTest, AKilledWorkersJobsAreDoneByAnother) {
  Jobs jobs;
  for (int i = 0; i < 100; ++i) jobs.put({i});
  jobs.close();
  Gate claimed;
  Child dies([&] {
    std::vector<Claim<Job>> held;
    for (int i = 0; i < 10; ++i) held.push_back(jobs.get());
    claimed.open();
    Gate never;
    never.wait(600'000);
  });
  ASSERT_TRUE(claimed.wait(60'000));
  dies.kill_now();
  std::vector<int> numbers;
  for (Claim<Job>& job : jobs) {
    EXPECT_LE(job.tries(), 2U);
    numbers.push_back(job->number);
  }
  std::sort(numbers.begin(), numbers.end());
  std::vector<int> all(100);
  for (int i = 0; i < 100; ++i) all[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(numbers, all);
  jobs.join();
}

TEST_F(ClaimApiTest, DeadLetters) {
  Queue<Job> failed;
  Jobs jobs({.tries = 2, .dead_letters = failed});
  jobs.put({13});
  for (int i = 0; i < 2; ++i) jobs.get().give_back();
  EXPECT_FALSE(jobs.try_get());
  EXPECT_EQ(failed.get().number, 13);
  Jobs without({.tries = 1});
  without.put({13});
  without.get().give_back();
  EXPECT_FALSE(without.try_get());
  EXPECT_EQ(without.dropped(), 1U);
  EXPECT_EQ(jobs.dropped(), 0U);
}

// All types, through their own encodings; the block behind a tensor lives until the acknowledgement.
TEST_F(ClaimApiTest, EverythingThatCanBeSent) {
  Reliable<std::string> words;
  words.put("short");
  words.put(std::string_view("view"));
  words.put(std::string(100'000, 'x'));
  EXPECT_EQ(*words.get(), "short");
  words.get().give_back();
  EXPECT_EQ(*words.get(), "view");
  EXPECT_EQ(words.get()->size(), 100'000U);

  Reliable<Value> values;
  values.put(Value(Value::List{Value(1), Value("two")}));
  values.get().give_back();
  EXPECT_EQ(values.get()->as<Value::List>().at(1).as<std::string>(), "two");

  Reliable<Tensor> tensors;
  Tensor sevens = Tensor::empty({100'000}, DType::kInt32);
  std::fill_n(sevens.data<int>(), 100'000, 7);
  tensors.put(std::move(sevens));
  {
    Claim<Tensor> tensor = tensors.get();
    tensor->data<int>()[3] = 8;
    tensor.give_back();
  }
  Claim<Tensor> again = tensors.get();
  EXPECT_EQ(again->data<int>()[3], 8) << "it is the same memory";
  const Tensor kept = *again;
  again.acknowledge();
  EXPECT_EQ(kept.data<int>()[99'999], 7) << "a tensor that was received lives on";

  Reliable<std::vector<double>> rows;
  {
    auto loaned = rows.loan(1000);
    loaned[999] = 0.5;
    rows.put(std::vector<double>{1});
    loaned.publish();
  }
  EXPECT_EQ(rows.get()->size(), 1U);
  EXPECT_EQ(rows.get()->at(999), 0.5);
}

TEST_F(ClaimApiTest, AForkedChildsCopyIsNone) {
  Jobs jobs;
  jobs.put({1});
  Claim<Job> job = jobs.get();
  Child child([&] {
    EXPECT_EQ(code_of([&] { (void)job->number; }), Code::kBrokenByFork);
    EXPECT_EQ(code_of([&] { job.acknowledge(); }), Code::kBrokenByFork);
    EXPECT_EQ(code_of([&] { job.give_back(); }), Code::kBrokenByFork);
    EXPECT_FALSE(jobs.try_get_into(job)) << "which acknowledges nothing";
    {
      const Claim<Job> gone = std::move(job);
    }  // its end does nothing
    EXPECT_EQ(jobs.unacknowledged(), 1U);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(jobs.unacknowledged(), 1U);
  EXPECT_EQ(job->number, 1);
}

TEST_F(ClaimApiTest, ClosedQueues) {
  Jobs jobs;
  jobs.put({1});
  Claim<Job> job = jobs.get();
  jobs.close();
  EXPECT_THROW(jobs.put({2}), Closed);
  EXPECT_FALSE(jobs.try_get()) << "what is claimed may come back";
  EXPECT_TRUE(try_wait_any({jobs}).empty());
  job.give_back();
  EXPECT_FALSE(try_wait_any({jobs}).empty());
  jobs.get().acknowledge();
  EXPECT_THROW((void)jobs.get(), Closed);
  EXPECT_FALSE(try_wait_any({jobs}).empty());
}

TEST_F(ClaimApiTest, WaitAnyIsWokenByWhatComesBack) {
  Jobs jobs;
  Queue<int> idle;
  jobs.put({1});
  Claim<Job> job = jobs.get();
  const std::jthread gives_back = test::when_asleep([&] { job.give_back(); });
  EXPECT_EQ(wait_any({idle, jobs}), std::vector<std::size_t>{1});
  EXPECT_EQ(jobs.get()->number, 1);
}

TEST_F(ClaimApiTest, AStopEndsAWait) {
  Jobs jobs;
  std::stop_source stop;
  const std::jthread stops = test::when_asleep([&] { stop.request_stop(); });
  EXPECT_FALSE(jobs.try_get(stop.get_token()));
}

TEST_F(ClaimApiTest, BadUse) {
  EXPECT_EQ(code_of([] { Jobs({.claims = 0}); }), Code::kInvalid);
  EXPECT_EQ(code_of([] { Jobs({.tries = 4096}); }), Code::kInvalid);
  Jobs jobs({.claims = 2});
  for (int i = 0; i < 3; ++i) jobs.put({i});
  std::vector<Claim<Job>> held;
  for (int i = 0; i < 2; ++i) held.push_back(jobs.get());
  EXPECT_EQ(code_of([&] { (void)jobs.get(); }), Code::kNoSpace);
  held.clear();
  EXPECT_EQ(jobs.get()->number, 2);

  Queue<Job> once;
  EXPECT_THROW(Queue<Job>{ChannelRef(jobs)}, TypeMismatch);
  EXPECT_THROW(Jobs{ChannelRef(once)}, TypeMismatch);
  EXPECT_THROW(Reliable<double>{ChannelRef(jobs)}, TypeMismatch);
  try {
    Queue<Job>{ChannelRef(jobs)};
    ADD_FAILURE();
  } catch (const TypeMismatch& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("Delivery::kAtLeastOnce"));
  }
  Jobs empty = jobs;
  empty.reset();
  EXPECT_EQ(code_of([&] { (void)empty.get(); }), Code::kClosed);
  EXPECT_EQ(code_of([&] { (void)empty.unacknowledged(); }), Code::kClosed);
}

TEST_F(ClaimApiTest, ByName) {
  Jobs jobs;
  Domain domain = Domain::own();
  domain.publish("jobs", jobs);
  EXPECT_THROW((void)domain.open<Queue<Job>>("jobs"), Error);
  Jobs opened = domain.open<Jobs>("jobs");
  opened.put({5});
  EXPECT_EQ(jobs.get()->number, 5);
  EXPECT_TRUE(domain.unpublish("jobs"));
}

// The child of each start method takes a job and is killed; the job comes back.
class ClaimEveryMethod : public test::EveryMethod {};

void take_and_stay(Jobs& jobs, Queue<int>& taken) {
  const Claim<Job> job = jobs.get();
  taken.put(job->number);
  for (;;) ::pause();
}
const Registered<&take_and_stay> kTakeAndStay{"claim: take and stay"};

TEST_P(ClaimEveryMethod, AStartedWorkerIsKilled) {
  Jobs jobs;
  Queue<int> taken;
  jobs.put({4});
  Process worker = context().process(take_and_stay, jobs, taken).start();
  EXPECT_EQ(taken.get(), 4);
  worker.kill();
  worker.join();
  Claim<Job> job = jobs.get();
  EXPECT_EQ(job->number, 4);
  EXPECT_EQ(job.tries(), 2U);
}
INSTANTIATE_TEST_SUITE_P(Methods, ClaimEveryMethod, test::kEveryMethod, test::method_name);

}  // namespace
}  // namespace forklift
