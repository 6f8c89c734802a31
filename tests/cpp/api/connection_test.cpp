// Connection<In, Out> and waiting on many, as a program sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "forklift/multiprocessing.h"
#include "node/wait_any.h"
#include "support/asleep.h"
#include "support/child.h"
#include "support/status_check.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

TEST(ConnectionTest, BothWaysBetweenProcesses) {
  auto [parent, child] = make_pipe<int, std::string>();
  auto worker = Process::fork([&] {
                  parent.close();
                  for (const int number : child)
                    child.put(std::string(static_cast<std::size_t>(number), 'x'));
                }).start();
  child.close();
  EXPECT_FALSE(parent.poll());
  for (const int n : {0, 3, 100'000}) {
    parent.put(n);
    EXPECT_EQ(parent.get().size(), static_cast<std::size_t>(n));
  }
  parent.close();
  EXPECT_TRUE(parent.closed());
  EXPECT_THROW(parent.put(1), Error);
  EXPECT_THROW((void)parent.poll(), Error);
  worker.join();
  EXPECT_EQ(worker.exitcode(), 0);
}

TEST(ConnectionTest, OneWayTensorsAndTheEnd) {
  auto [writer, reader] = make_pipe<Tensor, void>();
  const Tensor image = Tensor::zeros({1000}, DType::kFloat32);
  writer.put(image);
  EXPECT_TRUE(reader.poll());
  const Tensor got = reader.get();
  got.span<float>()[7] = 3;
  EXPECT_EQ(image.span<float>()[7], 3);
  EXPECT_EQ(reader.try_get(10ms), std::nullopt);
  EXPECT_FALSE(reader.poll(1ms));
  writer.close();
  EXPECT_TRUE(reader.poll(10s));
  EXPECT_THROW((void)reader.get(), Closed);
}

TEST(ConnectionTest, AMovedTensorIsGivenAway) {
  auto [writer, reader] = make_pipe<Tensor, void>();
  Tensor tensor = Tensor::zeros({100}, DType::kFloat32);
  const std::uint64_t leases = stats().leases;
  const auto gives = [&, &end = reader](auto&& send) {
    send(std::move(tensor));
    EXPECT_EQ(tensor.numel(), 0);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(stats().leases, leases) << "the message has the sender's own";
    tensor = end.get();
  };
  gives([&end = writer](Tensor&& t) { end.put(std::move(t)); });
  gives([&end = writer](Tensor&& t) { EXPECT_TRUE(end.try_put(std::move(t), std::stop_token())); });
  gives([&end = writer](Tensor&& t) { EXPECT_TRUE(end.try_put(std::move(t), 5s)); });
  gives([&end = writer](Tensor&& t) { EXPECT_TRUE(end.try_put(std::move(t), {5s, std::stop_token()})); });
}

TEST(ConnectionTest, NobodyReads) {
  auto [writer, reader] = make_pipe<std::string, void>();
  EXPECT_TRUE(writer.try_put(std::string(60'000, 'x'), 1s));
  EXPECT_FALSE(writer.try_put(std::string(60'000, 'x'), 10ms));
  reader.close();
  try {
    writer.put("more");
    FAIL() << "nobody can read it";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().errno_value(), EPIPE);
  }
}

class WaitManyTest : public testing::Test {
 protected:
  Queue<int> numbers;
  Queue<std::string> words;
};

TEST_F(WaitManyTest, Queues) {
  EXPECT_THAT(try_wait_any({numbers, words}, 0s), IsEmpty());
  EXPECT_THAT(try_wait_any({numbers, words}, 10ms), IsEmpty());
  words.put("x");
  EXPECT_THAT(wait_any({numbers, words}), ElementsAre(1));
  numbers.put(1);
  EXPECT_THAT(wait_any({numbers, words}), ElementsAre(0, 1));
  (void)numbers.get();
  (void)words.get();
  const std::jthread late = test::when_asleep([&] { numbers.put(2); });
  EXPECT_THAT(wait_any({words, numbers}), ElementsAre(1));
  EXPECT_THAT(try_wait_any(std::span<const Waitable>{}, 1ms), IsEmpty());
  words.reset();
  EXPECT_THROW((void)wait_any({words}), Error);
}

TEST_F(WaitManyTest, EverythingTogether) {
  auto [parent, child] = make_pipe<int>();
  test::Gate go;
  auto worker = Process::fork([&] { go.wait(); }).start();
  int plain[2];
  ASSERT_EQ(::pipe(plain), 0);
  const auto all = [&] {
    return std::vector<Waitable>{numbers, parent, Waitable::descriptor(plain[0]), worker};
  };
  EXPECT_THAT(try_wait_any(all(), 5ms), IsEmpty());
  {
    const std::jthread thread = test::when_asleep([&] { numbers.put(1); });
    EXPECT_THAT(wait_any(all()), ElementsAre(0));
    (void)numbers.get();
  }
  {
    const std::jthread thread = test::when_asleep([&] { child.put(1); });
    EXPECT_THAT(wait_any(all()), ElementsAre(1));
    (void)parent.get();
  }
  {
    const std::jthread thread = test::when_asleep([&] { ASSERT_EQ(::write(plain[1], "x", 1), 1); });
    EXPECT_THAT(wait_any(all()), ElementsAre(2));
    char byte{};
    ASSERT_EQ(::read(plain[0], &byte, 1), 1);
  }
  {
    const std::jthread thread = test::when_asleep([&] { go.open(); });
    EXPECT_THAT(wait_any(all()), ElementsAre(3));
  }
  worker.join();
  child.close();
  EXPECT_THAT(wait_any({numbers, parent}), ElementsAre(1));
  ::close(plain[0]);
  ::close(plain[1]);
}

TEST_F(WaitManyTest, ADescriptorThatIsNotOpenIsAnError) {
  int plain[2];
  ASSERT_EQ(::pipe(plain), 0);
  ::close(plain[1]);
  EXPECT_THAT(wait_any({Waitable::descriptor(plain[0])}), ElementsAre(0)) << "at its end";
  ::close(plain[0]);
  for (const bool mixed : {false, true}) {
    std::vector<Waitable> objects{Waitable::descriptor(plain[0])};
    if (mixed) objects.emplace_back(numbers);
    try {
      (void)wait_any(objects);
      ADD_FAILURE() << "no exception";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kSystem);
      EXPECT_EQ(error.status().errno_value(), EBADF);
    }
  }
}

TEST_F(WaitManyTest, AStopEndsIt) {
  auto [parent, child] = make_pipe<int>();
  for (const bool mixed : {false, true}) {
    std::stop_source stop;
    const std::jthread later = test::when_asleep([&] { stop.request_stop(); });
    const std::vector<Waitable> objects =
        mixed ? std::vector<Waitable>{numbers, words, parent} : std::vector<Waitable>{numbers, words};
    EXPECT_THAT(try_wait_any(objects, stop.get_token()), IsEmpty());
    EXPECT_THAT(try_wait_any(objects, {10s, stop.get_token()}), IsEmpty());  // requested already
  }
}

TEST_F(WaitManyTest, WithoutTheOneCallItIsTheSame) {
  const detail::ChannelPtr first = ChannelRef(numbers).get();
  const detail::ChannelPtr second = ChannelRef(words).get();
  const node::Source sources[] = {{first.get()}, {second.get()}};
  std::vector<std::size_t> ready;
  EXPECT_CODE(Code::kTimeout,
              node::wait_any(sources, os::Deadline::after_seconds(0.01), {}, ready, nullptr, false));
  const std::jthread late = test::when_asleep([&] { words.put("x"); });
  ASSERT_OK(node::wait_any(sources, os::Deadline::never(), {}, ready, nullptr, false));
  EXPECT_THAT(ready, ElementsAre(1));
}

TEST_F(WaitManyTest, AnotherProcesssMessageWakes) {
  auto worker = Process::fork([&, waiter = ::getpid()] {
                  (void)test::eventually_asleep(waiter);
                  words.put("x");
                }).start();
  EXPECT_THAT(wait_any({numbers, words}), ElementsAre(1));
  worker.join();
}

TEST_F(WaitManyTest, WhoOnlyLooksKeepsNobodyFromTaking) {
  test::Sleeper takes, looks;
  std::jthread taker([&] {
    takes.is_me();
    EXPECT_EQ(numbers.get(), 1);
  });
  EXPECT_TRUE(takes.asleep());
  std::jthread looker([&] {
    looks.is_me();
    (void)wait_any({numbers, words});
  });
  EXPECT_TRUE(looks.asleep());
  numbers.put(1);
  taker.join();
  words.put("and the looker ends, too");
}

TEST_F(WaitManyTest, IdleItCostsNothing) {
  auto [parent, child] = make_pipe<int>();
  const double before = processor_seconds();
  EXPECT_THAT(try_wait_any({numbers, words}, 500ms), IsEmpty());
  EXPECT_THAT(try_wait_any({numbers, parent}, 500ms), IsEmpty());
  EXPECT_LT(processor_seconds() - before, 0.01);
}

}  // namespace
}  // namespace forklift
