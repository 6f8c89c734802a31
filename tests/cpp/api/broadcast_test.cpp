// Broadcast<T>: every type's way, every start method, the policies, stops and time-outs, wait().
#include "forklift/broadcast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "forklift/context.h"
#include "forklift/latest.h"
#include "forklift/spawn.h"
#include "forklift/wait_any.h"
#include "support/asleep.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

struct Pose {
  double x = 0;
  std::array<float, 4> turn{};
};
struct Large {
  std::array<std::byte, 20'000> bytes{};
};

void sum(Broadcast<int> numbers, Queue<int>& sums) {
  auto stream = numbers.subscribe();
  int total = 0;
  for (const int number : stream) total += number;
  sums.put(total);
}
const Registered<&sum> kSum{"broadcast: sum"};

void look(Latest<std::string> text, Queue<std::string>& answers) { answers.put(text.get()); }
const Registered<&look> kLook{"latest: look"};

class BroadcastTest : public test::ProcessFixture {};
class BroadcastMethods : public test::EveryMethod {};
INSTANTIATE_TEST_SUITE_P(Methods, BroadcastMethods, test::kEveryMethod, test::method_name);

TEST_P(BroadcastMethods, ReachesEveryChild) {
  Broadcast<int> numbers({.capacity = 4, .when_slow = WhenSlow::kWait});
  Queue<int> sums;
  Process one = context().process(sum, numbers, sums).start();
  Process two = context().process(sum, numbers, sums).start();
  ASSERT_TRUE(numbers.try_wait_for_readers(2, 20s));
  for (int i = 1; i <= 100; ++i) numbers.put(i);
  numbers.close();
  EXPECT_EQ(sums.get() + sums.get(), 2 * 5050);
  one.join();
  two.join();
  EXPECT_EQ(numbers.readers(), 0U);
}

TEST_P(BroadcastMethods, ALatestBeginsWithWhatIsThere) {
  Latest<std::string> text;
  Queue<std::string> answers;
  text.put("first");
  EXPECT_EQ(text.get(), "first");
  Process child = context().process(look, text, answers).start();
  EXPECT_EQ(answers.get(), "first");
  child.join();
}

template <class T>
T through(const T& item) {
  Broadcast<T> stream;
  auto one = stream.subscribe();
  auto two = stream.subscribe();
  stream.put(item);
  (void)one.get();
  return two.get();
}

TEST_F(BroadcastTest, EveryTypeTravels) {
  EXPECT_EQ(through(17), 17);
  EXPECT_EQ(through(Pose{2, {1, 2, 3, 4}}).turn[3], 4);
  Large large;
  large.bytes[19'999] = std::byte{7};
  EXPECT_EQ(through(large).bytes[19'999], std::byte{7});
  EXPECT_EQ(through(std::string(100'000, 'x')), std::string(100'000, 'x'));
  EXPECT_THAT(through(std::vector<int>{1, 2, 3}), ElementsAre(1, 2, 3));
  EXPECT_THAT(through(std::vector<std::string>{"a", "b"}), ElementsAre("a", "b"));
  EXPECT_EQ(through(Value(Value::List{1, "two"})).size(), 2U);
}

TEST_F(BroadcastTest, ATensorIsSharedByAllWhoRead) {
  Broadcast<Tensor> frames;
  auto one = frames.subscribe();
  auto two = frames.subscribe();
  Tensor frame = Tensor::zeros({4}, DType::kFloat32);
  frames.put(frame);
  Tensor here = one.get();
  Tensor there = two.get();
  here.span<float>().front() = 7;
  EXPECT_EQ(there.span<float>().front(), 7);
  EXPECT_EQ(frame.span<float>().front(), 7);
}

TEST_F(BroadcastTest, TheSlowMissWaitOrAreDisconnected) {
  Broadcast<int> lossy({.capacity = 2});
  auto slow = lossy.subscribe();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(lossy.try_put(i));
  EXPECT_EQ(slow.behind(), 2U);
  EXPECT_EQ(slow.get(), 3);
  EXPECT_EQ(slow.missed(), 3U);

  Broadcast<int> patient({.capacity = 1, .when_slow = WhenSlow::kWait});
  auto waited_for = patient.subscribe();
  patient.put(1);
  EXPECT_FALSE(patient.try_put(2));
  EXPECT_FALSE(patient.try_put(2, 10ms));
  EXPECT_FALSE(patient.try_put(2, -1ms));
  std::stop_source stop;
  const std::jthread stopper = test::when_asleep([&] { stop.request_stop(); });
  EXPECT_FALSE(patient.try_put(2, stop.get_token()));
  EXPECT_FALSE(patient.try_put(2, {1h, stop.get_token()}));
  EXPECT_EQ(waited_for.get(), 1);
  EXPECT_TRUE(patient.try_put(2, stop.get_token()));  // what can be done at once is done

  Broadcast<int> strict({.capacity = 1, .when_slow = WhenSlow::kDisconnect});
  auto cut = strict.subscribe();
  strict.put(1);
  strict.put(2);
  EXPECT_THROW((void)cut.get(), Disconnected);
  EXPECT_THROW((void)cut.try_get(), Disconnected);
  EXPECT_EQ(strict.readers(), 0U);
}

TEST_F(BroadcastTest, TheEndIsTheEnd) {
  Broadcast<int> stream;
  auto reader = stream.subscribe();
  stream.put(1);
  stream.close();
  EXPECT_TRUE(stream.closed());
  EXPECT_THROW(stream.put(2), Closed);
  EXPECT_EQ(reader.get(), 1);
  for (const int number : reader) ADD_FAILURE() << number;
  EXPECT_THROW((void)reader.get(), Closed);
  EXPECT_THROW((void)reader.try_get(1h), Closed);
}

TEST_F(BroadcastTest, ReadersWaitAsLongAsTheySay) {
  Broadcast<int> stream;
  auto reader = stream.subscribe();
  EXPECT_EQ(reader.try_get(), std::nullopt);
  EXPECT_EQ(reader.try_get(5ms), std::nullopt);
  EXPECT_EQ(reader.try_get(std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN())),
            std::nullopt);
  std::stop_source stop;
  const std::jthread stopper = test::when_asleep([&] { stop.request_stop(); });
  EXPECT_EQ(reader.try_get(stop.get_token()), std::nullopt);
  EXPECT_EQ(reader.try_get({1h, stop.get_token()}), std::nullopt);
  const std::jthread writer = test::when_asleep([&] { stream.put(3); });
  EXPECT_EQ(reader.try_get(std::chrono::duration<double>(1e300)), 3);
  EXPECT_FALSE(stream.try_wait_for_readers(2, 5ms));
  EXPECT_FALSE(stream.try_wait_for_readers(2, stop.get_token()));
  EXPECT_FALSE(stream.try_wait_for_readers(2, {1h, stop.get_token()}));
  EXPECT_FALSE(stream.try_wait_for_readers(2, {5ms, std::stop_source().get_token()}));
}

TEST_F(BroadcastTest, ForkedChildrenSubscribeAnew) {
  Broadcast<int> stream({.keep = 2});
  auto reader = stream.subscribe();
  for (int i = 1; i <= 3; ++i) stream.put(i);
  Process child = Process::fork([&] {
                    try {
                      (void)reader.get();
                      return 1;
                    } catch (const Error& error) {
                      if (error.code() != Code::kRefused) return 2;
                    }
                    return stream.subscribe(From::kOldest).get() == 1 ? 0 : 3;
                  }).start();
  child.join();
  EXPECT_EQ(child.exitcode(), 0);
  EXPECT_EQ(reader.get(), 1);
}

TEST_F(BroadcastTest, WaitsTogetherWithOthers) {
  Broadcast<int> stream;
  auto reader = stream.subscribe();
  Latest<int> latest;
  Queue<int> queue;
  EXPECT_THAT(try_wait_any({reader, latest, queue}, 10ms), testing::IsEmpty());
  stream.put(1);
  EXPECT_THAT(wait_any({reader, latest, queue}), ElementsAre(0));
  latest.put(1);
  EXPECT_THAT(wait_any({reader, latest, queue}), ElementsAre(0, 1));
  (void)reader.get();
  (void)latest.get();
  const std::jthread writer = test::when_asleep([&] { latest.put(2); });
  EXPECT_THAT(wait_any({reader, latest, queue}), ElementsAre(1));
  stream.close();
  EXPECT_THAT(try_wait_any({reader, queue}, 10s), ElementsAre(0));
}

TEST_F(BroadcastTest, WrongUse) {
  const auto code_of = [](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    return Code::kOk;
  };
  EXPECT_EQ(code_of([] { Broadcast<int>({.capacity = 0}); }), Code::kInvalid);
  EXPECT_EQ(code_of([] { Broadcast<int>({.capacity = 1, .keep = 2}); }), Code::kInvalid);
  Broadcast<int> stream;
  EXPECT_THROW(Broadcast<float>(stream.ref()), TypeMismatch);
  EXPECT_THROW(Broadcast<Value>(stream.ref()), TypeMismatch);
  EXPECT_THROW(Latest<int>(stream.ref()), TypeMismatch);
  EXPECT_THROW(Broadcast<int>(Latest<int>().ref()), TypeMismatch);
  Broadcast<int>(stream.ref()).put(1);
  auto reader = stream.subscribe();
  reader.unsubscribe();
  EXPECT_EQ(code_of([&] { (void)reader.get(); }), Code::kClosed);
  auto moved = std::move(reader);
  EXPECT_EQ(code_of([&] { (void)reader.try_get(); }), Code::kClosed);  // NOLINT: that is what is tested
  std::vector<Subscription<int>> many;
  for (int i = 0; i < 128; ++i) many.push_back(stream.subscribe());
  EXPECT_EQ(code_of([&] { (void)stream.subscribe(); }), Code::kNoSpace);
  many.clear();
  stream.reset();
  EXPECT_FALSE(stream);
  EXPECT_EQ(code_of([&] { stream.put(1); }), Code::kClosed);
  EXPECT_EQ(code_of([&] { (void)stream.subscribe(); }), Code::kClosed);
}

}  // namespace
}  // namespace forklift
