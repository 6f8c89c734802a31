// forklift::Pool: what goes wrong in workers, how they are replaced, and how a pool ends.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "forklift/multiprocessing.h"
#include "os/proc.h"
#include "support/child.h"
#include "support/leak_check.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using testing::HasSubstr;
using testing::IsEmpty;

int square(int x) { return x * x; }
const Registered<&square> kSquare{"pool life square"};

pid_t own_pid() { return ::getpid(); }
const Registered<&own_pid> kOwnPid{"pool life own pid"};

struct Plain {};
void fail(int how) {
  switch (how) {
    case 0: throw std::out_of_range("no such thing");
    case 1: throw Plain();
    case 2: std::terminate();
    case 3: ::_exit(7);
    case 4: ::raise(SIGKILL); break;
    case 5: test::expect_no_leak_report_here(), std::exit(0);
    default: std::this_thread::sleep_for(60s);
  }
}
const Registered<&fail> kFail{"pool life fail"};

int fork_and_return(int x) {
  const pid_t copy = ::fork();
  if (copy == 0) return -1;
  int status = 0;
  (void)::waitpid(copy, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 1 ? x : -2;
}
const Registered<&fork_and_return> kForkAndReturn{"pool life fork and return"};

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
const Registered<&sleep_ms> kSleep{"pool life sleep"};

// What an initializer leaves behind.
std::string& model() {
  static std::string name;
  return name;
}
void open_model(const std::string& name, Queue<int>& opened) {
  model() = name;
  opened.put(worker_id());
}
const Registered<&open_model> kOpenModel{"pool open model"};
std::string ask_model(int x) { return model() + std::to_string(x); }
const Registered<&ask_model> kAskModel{"pool ask model"};

// What an initializer is given for its worker's tasks.
struct Shared {
  Queue<int> queue;
  Broadcast<int> stream;
  Latest<std::string> latest;
  Lock lock;
};
std::optional<Shared>& shared() {
  static std::optional<Shared> given;
  return given;
}
void keep_shared(Queue<int> queue, Broadcast<int> stream, Latest<std::string> latest, Lock lock) {
  shared() = Shared{std::move(queue), std::move(stream), std::move(latest), std::move(lock)};
}
const Registered<&keep_shared> kKeepShared{"pool keep shared"};
std::string use_shared(int x) {
  const std::scoped_lock guard(shared()->lock);
  shared()->queue.put(x);
  shared()->stream.put(x * 10);
  return shared()->latest.peek().value_or("nothing") + std::to_string(x);
}
const Registered<&use_shared> kUseShared{"pool use shared"};

void cannot_open(const std::string& name) { throw std::runtime_error("no model " + name); }
const Registered<&cannot_open> kCannotOpen{"pool cannot open"};

int die_once(const SharedValue<int>& times) {
  if (times.atomic().fetch_add(1) == 0) ::raise(SIGKILL);
  return times.get();
}
const Registered<&die_once> kDieOnce{"pool die once"};

int not_registered(int x) { return x; }

class PoolLifeTest : public test::EveryMethod {
 protected:
  static PoolOptions options(std::size_t workers = 2) {
    PoolOptions made;
    made.workers = workers;
    made.context = context();
    return made;
  }
};

TEST_P(PoolLifeTest, FailuresAreOneTasksOwn) {
  Pool pool(options());
  EXPECT_THROW(pool.apply(fail, 0), RemoteError);
  try {
    pool.apply(fail, 1);
  } catch (const RemoteError& error) {
    EXPECT_THAT(error.type(), HasSubstr("Plain"));
  }
  struct Case {
    int how;
    int exitcode;
  };
  for (const Case each : {Case{2, -SIGABRT}, Case{3, 7}, Case{4, -SIGKILL}, Case{5, 0}}) {
    try {
      pool.apply(fail, each.how);
      ADD_FAILURE() << "no exception";
    } catch (const WorkerDiedError& error) {
      EXPECT_EQ(error.exitcode(), each.exitcode);
      EXPECT_EQ(error.signal(), each.exitcode < 0 ? -each.exitcode : 0);
      EXPECT_EQ(error.task(), "pool life fail");
      EXPECT_NE(error.pid(), ::getpid());
      EXPECT_EQ(error.code(), Code::kPeerDied);
    }
  }
  EXPECT_EQ(pool.apply(square, 3), 9);
}

TEST_P(PoolLifeTest, DeadlinesAndRetries) {
  Pool pool(options());
  EXPECT_THROW(pool.with({.timeout = 150ms}).apply(fail, 9), TaskTimeoutError);
  EXPECT_EQ(pool.with({.timeout = 20s}).apply(square, 3), 9);
  const SharedValue<int> times;
  EXPECT_EQ(pool.with({.retries = 1}).apply(die_once, times), 2);
  EXPECT_THROW(pool.with({.timeout = 150ms, .retries = 100}).apply(fail, 9), TaskTimeoutError);
  EXPECT_THROW(pool.with({.retries = 1}).apply(fail, 4), WorkerDiedError);
}

// The copy ends where the task does; it must not take the worker's slot.
TEST_P(PoolLifeTest, ATaskMayFork) {
  Pool pool(options(1));
  for (int i = 1; i < 4; ++i) EXPECT_EQ(pool.apply(fork_and_return, i), i);
  EXPECT_EQ(pool.apply(square, 5), 25);
}

TEST_P(PoolLifeTest, Cancel) {
  Pool pool(options(1));
  Future<void> first = pool.submit(sleep_ms, 200);
  Future<int> second = pool.submit(square, 2);
  Future<int> third = pool.submit(square, 3);
  EXPECT_TRUE(second.cancel());
  EXPECT_THROW((void)second.get(), CancelledError);
  EXPECT_EQ(third.get(), 9);
  EXPECT_FALSE(first.cancel());
  first.get();
}

TEST_P(PoolLifeTest, WorkersArePrepared) {
  Queue<int> opened;
  Pool pool(options(), open_model, "bert", opened);
  EXPECT_EQ(pool.apply(ask_model, 7), "bert7");
  const std::set<int> ids{opened.get(), opened.get()};
  EXPECT_EQ(ids, (std::set<int>{0, 1}));
  EXPECT_EQ(worker_id(), -1);
  EXPECT_THROW(pool.apply(fail, 4), WorkerDiedError);
  EXPECT_THAT(ids, testing::Contains(opened.get()));  // the one in its place is prepared, too
}

TEST_P(PoolLifeTest, QueuesBroadcastsAndLocksReachWorkersByTheInitializer) {
  Queue<int> queue;
  Broadcast<int> stream;
  Latest<std::string> latest;
  Lock lock;
  latest.put("task ");
  auto reader = stream.subscribe();
  Pool pool(options(), keep_shared, queue, stream, latest, lock);
  std::set<int> expected;
  std::vector<int> inputs;
  for (int i = 1; i <= 20; ++i) {
    inputs.push_back(i);
    expected.insert(i);
  }
  const std::vector<std::string> answers = pool.map(use_shared, inputs);
  EXPECT_EQ(answers.front(), "task 1");
  EXPECT_EQ(answers.back(), "task 20");
  std::set<int> queued;
  std::set<int> streamed;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    queued.insert(queue.get());
    streamed.insert(reader.get() / 10);
  }
  EXPECT_EQ(queued, expected);
  EXPECT_EQ(streamed, expected);
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST_P(PoolLifeTest, WorkersThatCannotBePreparedBreakThePool) {
  Pool pool(options(), cannot_open, "gpt");
  try {
    for (int i = 0; i < 1000; ++i) (void)pool.apply(square, 2);
    FAIL() << "no exception";
  } catch (const BrokenPoolError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no model gpt"));
    EXPECT_EQ(error.code(), Code::kPeerDied);
  }
  EXPECT_THROW((void)pool.submit(square, 2), BrokenPoolError);
}

TEST_P(PoolLifeTest, RecyclingWithASpare) {
  PoolOptions recycling = options(1);
  recycling.tasks_per_worker = 5;
  recycling.spares = 1;
  Pool pool(recycling);
  std::set<pid_t> pids;
  for (int i = 0; i < 20; ++i) pids.insert(pool.apply(own_pid));
  EXPECT_EQ(pids.size(), 4U);
}

TEST_P(PoolLifeTest, CloseAndJoin) {
  Pool pool(options());
  EXPECT_THROW(pool.join(), Error);
  Future<int> future = pool.submit(square, 5);
  pool.close();
  EXPECT_THROW((void)pool.submit(square, 5), Error);
  EXPECT_TRUE(pool.try_join(60s));
  EXPECT_EQ(future.get(), 25);
  EXPECT_THAT(pool.pids(), IsEmpty());
}

TEST_P(PoolLifeTest, TerminateAndFuturesThatOutliveThePool) {
  Future<void> future;
  Future<int> done;
  {
    Pool pool(options());
    future = pool.submit(sleep_ms, 60'000);
    done = pool.submit(square, 4);
    done.wait();
  }
  EXPECT_EQ(done.get(), 16);
  try {
    future.get();
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kClosed);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, PoolLifeTest, test::kEveryMethod, test::method_name);

class PoolMisuse : public test::ProcessFixture {};
class PoolLife : public test::ProcessFixture {};

TEST_F(PoolMisuse, IsToldPlainly) {
  EXPECT_THROW(Pool({.workers = 0}), Error);
  for (const PoolOptions& most :
       {PoolOptions{.workers = 100'000}, PoolOptions{.workers = 1, .spares = 4095}}) {
    try {
      const Pool crowd(most);
      ADD_FAILURE() << "no exception";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalid);
      EXPECT_THAT(error.what(), HasSubstr("a domain holds 4096 processes"));
    }
  }
  Pool pool({.workers = 1});
  try {
    (void)pool.apply(not_registered, 3);
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("Registered"));
  }
}

TEST_F(PoolMisuse, AForkedChildHasNoPart) {
  Pool pool({.workers = 1});
  Future<int> future = pool.submit(square, 3);
  test::Child child([&] {
    EXPECT_THROW((void)pool.submit(square, 3), Error);
    EXPECT_THROW((void)future.get(), Error);
    EXPECT_THROW(pool.close(), Error);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(future.get(), 9);
}

TEST_F(PoolLife, WorkersEndWithTheirParent) {
  Queue<pid_t> pids;
  test::Child parent([&] {
    Pool pool({.workers = 2});
    Future<void> busy = pool.submit(sleep_ms, 60'000);
    (void)pool.submit(sleep_ms, 60'000);
    for (const pid_t pid : pool.pids()) pids.put(pid);
    busy.wait();
  });
  const pid_t workers[] = {pids.get(), pids.get()};
  parent.kill_now();
  for (const pid_t pid : workers) {
    EXPECT_TRUE(eventually([&] { return os::is_gone(pid) || os::task_state(pid) == 'Z'; }, 2000));
  }
}

}  // namespace
}  // namespace forklift
