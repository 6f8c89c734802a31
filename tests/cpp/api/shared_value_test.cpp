#include "forklift/shared_value.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <stop_token>
#include <thread>

#include "forklift/process.h"
#include "forklift/queue.h"
#include "forklift/spawn.h"

namespace forklift {
namespace {

struct Pose {
  double x;
  double y;
  std::int32_t id;
};

void count_up(SharedValue<std::int64_t> counter, int times) {
  for (int i = 0; i < times; ++i) counter.atomic().fetch_add(1);
}
const Registered<&count_up> kCountUp{"count up"};

void fill(const SharedArray<Pose>& poses) {
  for (std::size_t i = 0; i < poses.size(); ++i) poses[i] = {1.5, 2.5, static_cast<std::int32_t>(i)};
}
const Registered<&fill> kFill{"fill"};

TEST(SharedValue, IsZeroedAndAHandle) {
  for (int round = 0; round < 3; ++round) {
    const SharedValue<std::int64_t> value;
    EXPECT_EQ(value.get(), 0);
    const SharedValue<std::int64_t> same = value;
    same.set(-1);
    EXPECT_EQ(*value, -1);
    const SharedArray<Pose> poses(1000);
    for (const Pose& pose : poses) ASSERT_EQ(pose.id, 0);
    fill(poses);
    EXPECT_EQ(poses.at(999).id, 999);
    EXPECT_THROW(poses.at(1000), std::out_of_range);
  }
  EXPECT_EQ(SharedValue<int>(7).get(), 7);
  EXPECT_TRUE(SharedArray<int>(0).empty());
  EXPECT_THROW(SharedArray<Pose>(SIZE_MAX / 2), Error);
}

TEST(SharedValue, AMovedHandleIsEmptyAndSaysSo) {
  const auto expect_closed = [](auto&& use) {
    try {
      use();
      ADD_FAILURE() << "no exception";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kClosed);
    }
  };
  // NOLINTBEGIN(bugprone-use-after-move)
  SharedArray<int> numbers(3);
  numbers[2] = 7;
  SharedArray<int> moved = std::move(numbers);
  EXPECT_EQ(numbers.size(), 0U);
  EXPECT_TRUE(numbers.empty());
  EXPECT_EQ(numbers.begin(), numbers.end());
  expect_closed([&] { (void)numbers.at(0); });
  expect_closed([&] { (void)numbers.atomic(0); });
  expect_closed([&] { (void)numbers.tensor(); });
  expect_closed([&] { Queue<SharedArray<int>>().put(numbers); });
  EXPECT_EQ(moved.size(), 3U);
  numbers = std::move(moved);
  EXPECT_EQ(numbers.at(2), 7);
  EXPECT_EQ(moved.size(), 0U);
  SharedValue<int> value(3);
  const SharedValue<int> value_moved = std::move(value);
  expect_closed([&] { (void)value.get(); });
  expect_closed([&] { value.set(1); });
  expect_closed([&] { *value = 1; });
  expect_closed([&] { (void)value.atomic(); });
  EXPECT_EQ(value_moved.get(), 3);
  // NOLINTEND(bugprone-use-after-move)
}

TEST(SharedValue, IsSeenByForkedAndSpawnedChildren) {
  const SharedValue<std::int64_t> counter;
  const SharedArray<Pose> poses(50);
  Process forked = Process::fork([&] { count_up(counter, 1000); });
  forked.start();
  Process spawned = Process::spawn(count_up, counter, 1000);
  spawned.start();
  Process filler = Process::spawn(fill, poses);
  filler.start();
  forked.join();
  spawned.join();
  filler.join();
  EXPECT_EQ(counter.get(), 2000);
  EXPECT_EQ(poses[49].id, 49);
  EXPECT_EQ(poses[49].y, 2.5);
}

// Why the value is no T.
template <class T>
Code code_of(const Value& value) {
  try {
    (void)value.as<T>();
  } catch (const TypeMismatch& error) {
    return error.code();
  }
  return Code::kOk;
}

TEST(SharedValue, TravelsThroughQueuesWithItsType) {
  Queue<SharedArray<float>> queue;
  const SharedArray<float> sent(3);
  queue.put(sent);
  const SharedArray<float> got = queue.get();
  EXPECT_EQ(got.size(), 3u);
  got[1] = 2.0f;
  EXPECT_EQ(sent[1], 2.0f);
  EXPECT_EQ(sent.tensor().at<float>({1}), 2.0f);

  Queue<Value> values;
  values.put(Value(sent));
  const Value value = values.get();
  EXPECT_EQ(code_of<SharedArray<double>>(value), Code::kInvalid);
  EXPECT_EQ(code_of<SharedValue<float>>(value), Code::kCorrupt);
  EXPECT_EQ(code_of<SharedArray<float>>(value), Code::kOk);
  EXPECT_FALSE(value.try_as<SharedArray<double>>());
  EXPECT_TRUE(value.try_as<SharedArray<float>>());
  Value::List parts = *value.get_if<Value::List>();
  parts[1] = std::uint64_t{1} << 62;
  EXPECT_EQ(code_of<SharedArray<float>>(Value(parts)), Code::kCorrupt);
  parts.pop_back();
  EXPECT_EQ(code_of<SharedArray<float>>(Value(parts)), Code::kInvalid);
  EXPECT_EQ(code_of<SharedArray<float>>(Value(1)), Code::kInvalid);
}

TEST(SharedValue, OutlivesAHolderThatIsKilled) {
  const SharedValue<int> value(1);
  Queue<int> ready;
  Process child = Process::fork([&] {
    value.set(2);
    ready.put(0);
    for (;;) ::pause();
  });
  child.start();
  (void)ready.get();
  ::kill(child.pid(), SIGKILL);
  child.join();
  EXPECT_EQ(value.get(), 2);
}

TEST(SharedValue, AWaitEndsWhenAnotherProcessNotifies) {
  const SharedValue<int> turn;
  const SharedValue<std::uint8_t> small(7);
  Process other = Process::fork([&] {
                    for (int i = 0; i < 100; ++i) {
                      turn.wait(2 * i);
                      turn.atomic().fetch_add(1);
                      turn.notify_all();
                    }
                    small.wait(7);
                    return int{small.get()};
                  }).start();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    turn.atomic().fetch_add(1);
    turn.notify_one();
    turn.wait(2 * i + 1);
  }
  // A lost wake-up would cost a slice of 200 ms each.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  small.atomic().store(9);
  small.notify_one();
  other.join();
  EXPECT_EQ(other.exitcode(), 9);
}

TEST(SharedValue, AWaitHasAnEnd) {
  const SharedValue<double> value(0.5);
  EXPECT_FALSE(value.try_wait(0.5, std::chrono::milliseconds(2)));
  EXPECT_TRUE(value.try_wait(0.25, std::chrono::seconds(0)));
  std::stop_source stop;
  std::thread stopper([&] { stop.request_stop(); });
  EXPECT_FALSE(value.try_wait(0.5, stop.get_token()));
  stopper.join();
}

}  // namespace
}  // namespace forklift
