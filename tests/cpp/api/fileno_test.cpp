// The descriptors of futures and processes: for loops of the program's own.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>

#include <chrono>
#include <csignal>

#include "forklift/multiprocessing.h"
#include "os/fd.h"
#include "support/child.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using testing::ElementsAre;

int square(int x) { return x * x; }
const Registered<&square> kSquare{"fileno square"};

// The event that a task waits for is known to the workers by its name.
constexpr const char* kGo = "fileno_go";

class PublishedEvent : public Event {
 public:
  PublishedEvent() { Domain::own().publish(kGo, *static_cast<Event*>(this)); }
  PublishedEvent(const PublishedEvent&) = delete;
  PublishedEvent& operator=(const PublishedEvent&) = delete;
  ~PublishedEvent() { Domain::own().unpublish(kGo); }
};

int wait_for_event(int x) {
  Domain::own().open<Event>(kGo).wait();
  return x;
}
const Registered<&wait_for_event> kWaitForEvent{"fileno wait for event"};

int die() {
  Domain::own().open<Event>(kGo).wait();
  ::raise(SIGKILL);
  return 0;
}
const Registered<&die> kDie{"fileno die"};

bool readable(int fd, int timeout_ms = 0) {
  pollfd item{fd, POLLIN, 0};
  return ::poll(&item, 1, timeout_ms) == 1;
}

std::size_t open_descriptors() {
  std::size_t open = 0;
  for (int fd = 0; fd < 1024; ++fd) open += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return open;
}

class Fileno : public test::ProcessFixture {};

TEST_F(Fileno, AFuturesDescriptorIsReadableFromItsEndOn) {
  Pool pool({.workers = 1});
  PublishedEvent go;
  Future<int> future = pool.submit(wait_for_event, 7);
  const int fd = future.fileno();
  EXPECT_EQ(future.fileno(), fd) << "it has one";
  EXPECT_FALSE(readable(fd));
  os::Fd loop(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event interest{.events = EPOLLIN, .data = {.u64 = 9}};
  ASSERT_EQ(::epoll_ctl(loop.get(), EPOLL_CTL_ADD, fd, &interest), 0);
  go.set();
  epoll_event happened{};
  ASSERT_EQ(::epoll_wait(loop.get(), &happened, 1, 60'000), 1);
  EXPECT_EQ(happened.data.u64, 9U);
  EXPECT_TRUE(future.ready());
  EXPECT_TRUE(readable(fd)) << "it stays so";
  EXPECT_EQ(future.get(), 7);
  EXPECT_THROW((void)future.fileno(), Error) << "it was used up";
}

TEST_F(Fileno, AFutureWhoseTaskHasEndedAlready) {
  Pool pool({.workers = 1});
  Future<int> future = pool.submit(square, 3);
  future.wait();
  EXPECT_TRUE(readable(future.fileno()));
  EXPECT_THAT(try_wait_any({future}), ElementsAre(0));
  EXPECT_EQ(future.get(), 9);
}

TEST_F(Fileno, AFuturesDescriptorInEachOfItsEnds) {
  PublishedEvent go;
  Pool pool({.workers = 1});
  Future<int> dies = pool.submit(die);
  Future<int> cancelled = pool.submit(square, 2);
  EXPECT_FALSE(readable(cancelled.fileno()));
  EXPECT_FALSE(readable(dies.fileno()));
  EXPECT_TRUE(cancelled.cancel());
  EXPECT_TRUE(readable(cancelled.fileno(), 60'000));
  EXPECT_THROW((void)cancelled.get(), CancelledError);
  go.set();
  EXPECT_TRUE(readable(dies.fileno(), 60'000));
  EXPECT_THROW((void)dies.get(), WorkerDiedError);
  go.clear();
  Future<int> stopped = pool.submit(wait_for_event, 1);
  const int fd = stopped.fileno();
  pool.terminate();
  EXPECT_TRUE(readable(fd, 60'000)) << "the pool was terminated";
  EXPECT_THROW((void)stopped.get(), Error);
}

TEST_F(Fileno, ADescriptorAndACallbackTogether) {
  Pool pool({.workers = 1});
  PublishedEvent go;
  Future<int> future = pool.submit(wait_for_event, 4);
  (void)future.fileno();
  test::Gate called;
  std::move(future).then([&](Future<int> done) {
    EXPECT_TRUE(readable(done.fileno()));
    EXPECT_EQ(done.get(), 4);
    called.open();
  });
  go.set();
  EXPECT_TRUE(called.wait(60'000));
  pool.close();
  pool.join();
}

TEST_F(Fileno, FuturesLeaveNoDescriptors) {
  Pool pool({.workers = 1});
  (void)pool.submit(square, 1).fileno();  // dropped before its end; the pool has its threads from here on
  pool.submit(square, 1).wait();
  const auto rounds = [&] {
    for (int i = 0; i < 20; ++i) {
      Future<int> future = pool.submit(square, i);
      EXPECT_THAT(try_wait_any({future}, 60s), ElementsAre(0));
      EXPECT_EQ(future.get(), i * i);
    }
  };
  rounds();
  // Those of the last futures may be open for a moment still, here as after the rounds.
  const std::size_t before = open_descriptors();
  rounds();
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before; }, 30'000));
}

TEST_F(Fileno, AFutureBelongsToTheProcessThatMadeIt) {
  Pool pool({.workers = 1});
  PublishedEvent go;
  Future<int> future = pool.submit(wait_for_event, 1);
  (void)future.fileno();
  test::Child child([&] {
    try {
      (void)future.fileno();
      ADD_FAILURE() << "no exception";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalid);
    }
  });
  EXPECT_EQ(child.wait(), 0);
  go.set();
  EXPECT_EQ(future.get(), 1);
}

TEST_F(Fileno, AProcesssDescriptor) {
  Event go;
  Process process = Process::fork([&] { go.wait(); }).start();
  EXPECT_EQ(process.fileno(), process.sentinel());
  EXPECT_FALSE(readable(process.fileno()));
  go.set();
  EXPECT_TRUE(readable(process.fileno(), 60'000));
  process.join();
}

}  // namespace
}  // namespace forklift
