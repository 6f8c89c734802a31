// forklift::mpi::Pool: the driver runs these tests, the other ranks host the workers (register.cmake starts the job).
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "forklift/mpi/pool.h"
#include "forklift/shared_value.h"

namespace {

using forklift::DType;
using forklift::Registered;
using forklift::Tensor;
using forklift::mpi::Pool;
using std::chrono::milliseconds;
using std::chrono::seconds;

forklift::mpi::Job* job = nullptr;  // NOLINT: one for the process

int square(int x) { return x * x; }
const Registered<&square> registered_square{"square"};

std::string join(const std::string& a, int b, const std::vector<double>& c) {
  return a + std::to_string(b) + std::to_string(std::accumulate(c.begin(), c.end(), 0.0));
}
const Registered<&join> registered_join{"join"};

Tensor doubled(const Tensor& x) {
  Tensor result = Tensor::empty(x.shape(), x.dtype());
  for (std::int64_t i = 0; i < x.numel(); ++i) result.data<float>()[i] = 2 * x.data<const float>()[i];
  return result;
}
const Registered<&doubled> registered_doubled{"doubled"};

std::vector<double> counted(std::int64_t many) {
  std::vector<double> numbers(static_cast<std::size_t>(many));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return numbers;
}
const Registered<&counted> registered_counted{"counted"};

int fails(int x) {
  if (x % 3 == 1) throw std::runtime_error("no " + std::to_string(x));
  return x;
}
const Registered<&fails> registered_fails{"fails"};

void nothing() {}
const Registered<&nothing> registered_nothing{"nothing"};

// The first attempt of each turn kills its worker.
int dies_once(const std::string& folder, int turn) {
  const std::filesystem::path note = std::filesystem::path(folder) / std::to_string(turn);
  if (!std::filesystem::exists(note)) {
    std::ofstream(note).put('x').flush();
    ::raise(SIGKILL);
  }
  return turn;
}
const Registered<&dies_once> registered_dies_once{"dies_once"};

int dies() {
  ::raise(SIGSEGV);
  return 0;
}
const Registered<&dies> registered_dies{"dies"};

int sleeps(int ms) {
  std::this_thread::sleep_for(milliseconds(ms));
  return ms;
}
const Registered<&sleeps> registered_sleeps{"sleeps"};

int agent() { return ::getppid(); }
const Registered<&agent> registered_agent{"agent"};

// Slow on one node.
int sleeps_under(int agent_pid, int ms) {
  if (::getppid() == agent_pid) std::this_thread::sleep_for(milliseconds(ms));
  return ::getppid();
}
const Registered<&sleeps_under> registered_sleeps_under{"sleeps_under"};

std::string prepared;  // NOLINT: a worker's
void prepare(const std::string& text, const Tensor& x) { prepared = text + std::to_string(x.numel()); }
const Registered<&prepare> registered_prepare{"prepare"};
std::string what_was_prepared() { return prepared; }
const Registered<&what_was_prepared> registered_what{"what_was_prepared"};
void cannot_prepare() { throw std::runtime_error("there is no model"); }
const Registered<&cannot_prepare> registered_cannot{"cannot_prepare"};

std::int64_t first_of(const forklift::SharedArray<std::int64_t>& shared) { return shared[0]; }
const Registered<&first_of> registered_first_of{"first_of"};

std::size_t all_workers() {
  std::size_t sum = 0;
  for (const forklift::mpi::Node& node : job->nodes()) sum += static_cast<std::size_t>(node.workers);
  return sum;
}

TEST(MpiPool, CallsOfAllKinds) {
  Pool pool(*job);
  EXPECT_EQ(pool.apply(square, 7), 49);
  std::vector<int> numbers(20'000), squares;
  std::iota(numbers.begin(), numbers.end(), -10'000);
  for (const int each : numbers) squares.push_back(each * each);
  EXPECT_EQ(pool.map(square, numbers), squares);
  EXPECT_EQ(pool.map(square, numbers), squares);  // with what is known of their duration
  std::vector<int> streamed;
  for (const int each : pool.imap(square, numbers)) streamed.push_back(each);
  EXPECT_EQ(streamed, squares);
  std::multiset<int> unordered;
  for (const int each : pool.imap_unordered(square, numbers)) unordered.insert(each);
  EXPECT_EQ(unordered, std::multiset<int>(squares.begin(), squares.end()));
  const std::vector<std::tuple<std::string, int, std::vector<double>>> tuples = {{"a", 1, {1, 2}},
                                                                                 {"b", 2, {}}};
  EXPECT_EQ(pool.starmap(join, tuples), (std::vector<std::string>{"a13.000000", "b20.000000"}));
  pool.apply(nothing);
  forklift::Future<int> later = pool.submit(square, 5);
  EXPECT_EQ(later.get(), 25);
  std::atomic<int> called{0};
  for (int i = 1; i <= 10; ++i)
    pool.submit(square, i).then([&](forklift::Future<int> done) { called += done.get(); });
  pool.close();
  pool.join();
  EXPECT_EQ(called, 385);
  EXPECT_THROW(pool.apply(square, 1), forklift::Error);
}

TEST(MpiPool, LargeArgumentsAndResults) {
  Pool pool(*job);
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{5'000}, std::int64_t{3'000'001}}) {
    Tensor x = Tensor::empty({count}, DType::kFloat32);
    for (std::int64_t i = 0; i < count; ++i) x.data<float>()[i] = static_cast<float>(i % 1000);
    const std::vector<Tensor> several(5, x);
    for (const Tensor& y : pool.map(doubled, several)) {
      ASSERT_EQ(y.numel(), count);
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(y.data<const float>()[i], 2 * static_cast<float>(i % 1000));
    }
    EXPECT_EQ(x.data<float>()[count - 1], static_cast<float>((count - 1) % 1000))
        << "the argument was changed";
  }
  EXPECT_EQ(pool.apply(counted, std::int64_t{1'000'000}), counted(1'000'000));
  EXPECT_EQ(pool.apply(join, std::string(100'000, 'x'), 1, std::vector<double>(100'000, 1.0)),
            std::string(100'000, 'x') + "1100000.000000");
  // A few elements of a large tensor, with gaps.
  Tensor large = Tensor::zeros({1000, 4000}, DType::kFloat32);
  large.fill(3.0F);
  EXPECT_EQ(pool.apply(doubled, Tensor(large.narrow(0, 500, 2).narrow(1, 7, 3))).at<float>({1, 2}), 6.0F);
}

TEST(MpiPool, WhatCannotLeaveItsNode) {
  Pool pool(*job);
  forklift::SharedArray<std::int64_t> shared(10);
  try {
    pool.apply(first_of, shared);
    ADD_FAILURE() << "a copy of a SharedArray was sent";
  } catch (const forklift::Error& error) {
    EXPECT_EQ(error.code(), forklift::Code::kInvalid);
    EXPECT_NE(std::string(error.what()).find("cannot leave its node"), std::string::npos) << error.what();
  }
  EXPECT_EQ(pool.apply(square, 2), 4);
}

TEST(MpiPool, ExceptionsOfTasks) {
  Pool pool(*job);
  try {
    pool.apply(fails, 4);
    ADD_FAILURE();
  } catch (const forklift::RemoteError& error) {
    EXPECT_NE(std::string(error.what()).find("no 4"), std::string::npos) << error.what();
  }
  EXPECT_THROW(pool.map(fails, std::vector<int>{0, 1, 2}), forklift::RemoteError);
  int good = 0, bad = 0;
  std::vector<int> inputs(300);
  std::iota(inputs.begin(), inputs.end(), 0);
  auto stream = pool.imap(fails, inputs);
  for (int i = 0; i < 300; ++i) {
    try {
      EXPECT_EQ(stream.get(), i);
      ++good;
    } catch (const forklift::RemoteError&) {
      ++bad;
    }
  }
  EXPECT_EQ(good, 200);
  EXPECT_EQ(bad, 100);
}

TEST(MpiPool, WorkersThatDie) {
  Pool pool(*job);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("forklift-mpi-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  std::vector<std::pair<std::string, int>> turns;
  std::vector<int> wanted;
  for (int turn = 0; turn < 12; ++turn) {
    turns.emplace_back(folder.string(), turn);
    wanted.push_back(turn);
  }
  EXPECT_EQ(pool.with({.retries = 3}).starmap(dies_once, turns), wanted);
  std::filesystem::remove_all(folder);
  try {
    pool.apply(dies);
    ADD_FAILURE();
  } catch (const forklift::WorkerDiedError& error) {
    EXPECT_EQ(error.task(), "dies");
    EXPECT_EQ(error.signal(), SIGSEGV);
    EXPECT_NE(error.pid(), 0);
  }
  // Killed from outside. The task may go on in a worker that is killed a moment later.
  forklift::Future<int> slow = pool.with({.retries = 3}).submit(sleeps, 500);
  std::this_thread::sleep_for(milliseconds(100));
  for (const forklift::mpi::PoolNode& node : pool.nodes())
    for (const pid_t pid : node.pids) ::kill(pid, SIGKILL);
  EXPECT_EQ(slow.get(), 500);
  EXPECT_EQ(pool.apply(square, 3), 9);
}

TEST(MpiPool, TasksThatTakeTooLong) {
  Pool pool(*job);
  EXPECT_THROW(pool.with({.timeout = milliseconds(200)}).apply(sleeps, 60'000), forklift::TaskTimeoutError);
  EXPECT_EQ(pool.apply(square, 3), 9);
  // The caller waits no longer, and its tasks that have not begun are gone.
  const std::vector<int> many(500, 100);
  EXPECT_THROW(pool.with({.wait = milliseconds(300)}).map(sleeps, many), forklift::Error);
  EXPECT_EQ(pool.apply(square, 4), 16);
}

TEST(MpiPool, Cancelling) {
  Pool pool(*job);
  std::vector<forklift::Future<int>> futures;
  for (std::size_t i = 0; i < 4 * all_workers(); ++i) futures.push_back(pool.submit(sleeps, 300));
  while (pool.nodes().front().running == 0) {
  }
  EXPECT_TRUE(futures.back().cancel());
  EXPECT_THROW(futures.back().get(), forklift::CancelledError);
  EXPECT_EQ(futures.front().get(), 300);
  forklift::Future<int> ended = pool.submit(square, 2);
  ended.wait();
  EXPECT_FALSE(ended.cancel());
  EXPECT_EQ(ended.get(), 4);
}

TEST(MpiPool, AnInitializer) {
  Tensor x = Tensor::zeros({100'000}, DType::kFloat64);
  {
    Pool pool(*job, {}, prepare, std::string("model"), x);
    const std::vector<forklift::Future<std::string>> none;
    for (std::size_t i = 0; i < 2 * all_workers(); ++i)
      EXPECT_EQ(pool.apply(what_was_prepared), "model100000");
  }
  Pool broken(*job, {}, cannot_prepare);
  try {
    broken.apply(square, 1);
    ADD_FAILURE();
  } catch (const forklift::BrokenPoolError& error) {
    EXPECT_NE(std::string(error.what()).find("there is no model"), std::string::npos) << error.what();
  }
}

TEST(MpiPool, AllNodesWork) {
  Pool pool(*job);
  const std::vector<forklift::mpi::PoolNode> nodes = pool.nodes();
  ASSERT_EQ(nodes.size(), job->nodes().size());
  std::vector<forklift::Future<int>> futures;
  for (std::size_t i = 0; i < all_workers(); ++i) futures.push_back(pool.submit(sleeps, 200));
  for (forklift::Future<int>& each : futures) each.get();
  std::uint64_t ended = 0;
  for (const forklift::mpi::PoolNode& node : pool.nodes()) {
    EXPECT_EQ(node.ended, node.workers) << "of rank " << node.agent;
    EXPECT_EQ(node.pids.size(), node.workers);
    EXPECT_TRUE(node.usable);
    ended += node.ended;
  }
  EXPECT_EQ(ended, all_workers());
}

// Tasks that wait on a slow node go to workers of another one that have nothing to do.
TEST(MpiPool, WhatWaitsOnASlowNodeGoesElsewhere) {
  if (job->nodes().size() == 1) GTEST_SKIP() << "there is one node";
  Pool pool(*job, {.workers = job->nodes().size()});
  const std::vector<int> numbers(5000, 1);
  (void)pool.map(square, numbers);  // so that a node gets many short tasks at a time
  const int slow = pool.apply(agent);
  std::vector<std::pair<int, int>> turns(40, {slow, 400});
  const auto begun = std::chrono::steady_clock::now();
  const std::vector<int> where = pool.starmap(sleeps_under, turns);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(4)) << "half of them would take 8 s there";
  EXPECT_LT(std::count(where.begin(), where.end(), slow), 10);
}

TEST(MpiPool, SeveralPoolsAndThreads) {
  Pool one(*job, {.workers = 1}), two(*job);
  std::vector<std::thread> threads;
  threads.reserve(4);
  std::atomic<int> sum{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) sum += (t % 2 == 0 ? one : two).apply(square, 1);
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(sum, 200);
}

TEST(MpiPool, TheDestructorWaitsForNoTask) {
  const auto begun = std::chrono::steady_clock::now();
  forklift::Future<int> future;
  {
    Pool pool(*job, {.workers = 2});
    future = pool.submit(sleeps, 60'000);
    EXPECT_EQ(pool.apply(square, 2), 4);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(8));
  EXPECT_THROW(future.get(), forklift::Error);
}

}  // namespace

namespace {

// Kills the agent of another node, or this process, while tasks run; the job ends with it.
[[noreturn]] void kill(const std::string& whom) {
  Pool pool(*job);
  std::set<int> agents;
  while (agents.size() < job->nodes().size()) agents.insert(pool.apply(agent));
  agents.erase(::getpid());
  const forklift::Future<int> running = pool.submit(sleeps, 60'000);
  ::kill(whom == "agent" ? *agents.begin() : ::getpid(), SIGKILL);
  while (true) (void)pool.apply(sleeps, 10);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  forklift::mpi::Job here(argc, argv);
  if (!here.is_driver()) return here.serve();
  job = &here;
  if (const char* whom = std::getenv("FORKLIFT_TEST_KILL")) kill(whom);
  return RUN_ALL_TESTS();
}
