// Numbers, bytes and plain structs in one piece: inside of Values, Fields and containers.
#include "forklift/detail/packed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <complex>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "forklift/multiprocessing.h"
#include "support/process_fixture.h"
#include "support/value_check.h"

namespace packing {

using std::chrono::steady_clock;
using std::chrono::system_clock;

enum class Gear : std::int16_t {
  kFirst = 1,
  kSecond = 2
};

// No line of their own.
struct Pose {
  double x = 0;
  std::int32_t id = 0;
};
union Word {
  std::uint32_t bits;
  float number;
};

struct Base {
  std::string name;
  int level = 0;
};

struct Frame : Base {
  std::vector<float> samples;
  std::vector<std::uint8_t> pixels;
  Pose pose;
  std::vector<Pose> path;
  char label[16] = "";
  float matrix[2][3] = {};
  std::complex<double> phase;
  std::vector<std::complex<float>> spectrum;
  system_clock::time_point taken;
  steady_clock::time_point seen;
  std::vector<std::array<float, 3>> points;
  std::vector<bool> mask;
  std::vector<Gear> gears;
  std::map<std::string, Pose> poses;
  std::map<std::string, std::vector<double>> tracks;
  std::optional<std::vector<int>> counts;
  std::variant<std::monostate, std::vector<std::int64_t>> either;
  Word word = {1};
};

struct Named : Base {};

}  // namespace packing

template <>
struct forklift::ValueTraits<packing::Frame>
    : forklift::Fields<
          &packing::Frame::name, &packing::Frame::level, &packing::Frame::samples, &packing::Frame::pixels,
          &packing::Frame::pose, &packing::Frame::path, &packing::Frame::label, &packing::Frame::matrix,
          &packing::Frame::phase, &packing::Frame::spectrum, &packing::Frame::taken, &packing::Frame::seen,
          &packing::Frame::points, &packing::Frame::mask, &packing::Frame::gears, &packing::Frame::poses,
          &packing::Frame::tracks, &packing::Frame::counts, &packing::Frame::either, &packing::Frame::word> {
};
template <>
struct forklift::ValueTraits<packing::Named>
    : forklift::NamedFieldsOf<packing::Named, &packing::Named::name, &packing::Named::level> {};

namespace forklift {
namespace {

using packing::Frame;
using packing::Gear;
using packing::Pose;
using test::mismatch;

static_assert(Sendable<Frame> && Sendable<std::map<std::string, Pose>>);
static_assert(Sendable<std::tuple<std::string, std::chrono::system_clock::time_point>>);
static_assert(!Sendable<std::map<std::string, const char*>> &&
              !Sendable<std::tuple<std::string, std::span<int>>>);
// Marks and callables are no data, though they are bytes.
static_assert(!detail::PlainBytes<std::nullopt_t> && !detail::PlainBytes<std::monostate>);
static_assert(!std::constructible_from<Value, Pose> && !std::constructible_from<Value, std::nullopt_t>);

Frame example(std::size_t samples) {
  Frame frame;
  frame.name = "left";
  frame.level = -3;
  frame.samples.resize(samples);
  std::iota(frame.samples.begin(), frame.samples.end(), 0.5f);
  frame.pixels.assign(samples + 1, 200);
  frame.pose = {1.5, 7};
  frame.path.assign(samples / 2, Pose{2.5, 8});
  std::strcpy(frame.label, "\xff not text");
  for (int i = 0; i < 6; ++i) frame.matrix[i / 3][i % 3] = static_cast<float>(i);
  frame.phase = {1, -2};
  frame.spectrum.assign(samples, {3, -4});
  frame.taken = packing::system_clock::now();
  frame.seen = packing::steady_clock::now();
  frame.points.assign(samples, {1, 2, 3});
  frame.mask.assign(samples, true);
  frame.gears = {Gear::kSecond, Gear::kFirst};
  frame.poses["home"] = {0.25, 1};
  frame.tracks["left"].assign(samples, 0.125);
  frame.counts = std::vector<int>(samples, -1);
  frame.either = std::vector<std::int64_t>(samples, INT64_MIN);
  frame.word.bits = 0x3f800000;
  return frame;
}

void expect_same(const Frame& got, const Frame& sent) {
  EXPECT_EQ(got.name, sent.name);
  EXPECT_EQ(got.level, sent.level);
  EXPECT_EQ(got.samples, sent.samples);
  EXPECT_EQ(got.pixels, sent.pixels);
  EXPECT_EQ(got.pose.id, sent.pose.id);
  EXPECT_EQ(got.path.size(), sent.path.size());
  for (const Pose& pose : got.path) EXPECT_EQ(pose.x, 2.5);
  EXPECT_EQ(std::memcmp(got.label, sent.label, sizeof got.label), 0);
  EXPECT_EQ(std::memcmp(got.matrix, sent.matrix, sizeof got.matrix), 0);
  EXPECT_EQ(got.phase, sent.phase);
  EXPECT_EQ(got.spectrum, sent.spectrum);
  EXPECT_EQ(got.taken, sent.taken);
  EXPECT_EQ(got.seen, sent.seen);
  EXPECT_EQ(got.points, sent.points);
  EXPECT_EQ(got.mask, sent.mask);
  EXPECT_EQ(got.gears, sent.gears);
  EXPECT_EQ(got.poses.at("home").x, 0.25);
  EXPECT_EQ(got.tracks, sent.tracks);
  EXPECT_EQ(got.counts, sent.counts);
  EXPECT_EQ(std::get<1>(got.either), std::get<1>(sent.either));
  EXPECT_EQ(got.word.number, 1.0f);
}

TEST(Packed, EveryKindOfFieldArrives) {
  Queue<Frame> frames;
  for (const std::size_t samples : {0, 1, 100, 3000, 100000}) {
    SCOPED_TRACE(samples);
    const Frame sent = example(samples);
    frames.put(sent);
    expect_same(frames.get(), sent);
  }
}

void turn_back(const Frame& frame, Queue<Frame>& back) { back.put(frame); }
const Registered<&turn_back> kTurnBack{"turn a frame back"};
Frame same(const Frame& frame) { return frame; }
const Registered<&same> kSame{"the same frame"};

class PackedProcesses : public test::ProcessFixture {};

TEST_F(PackedProcesses, AndPools) {
  const Frame sent = example(5000);
  Queue<Frame> back;
  Process child = Process::spawn(turn_back, sent, back).start();
  expect_same(back.get(), sent);
  child.join();
  Pool pool({.workers = 1});
  expect_same(pool.apply(same, sent), sent);
}

TEST_F(PackedProcesses, TopicsAndPipesToo) {
  const Frame sent = example(5000);
  Broadcast<Frame> topic({.capacity = 2});
  Subscription<Frame> reader = topic.subscribe();
  topic.put(sent);
  expect_same(reader.get(), sent);
  auto ends = make_pipe<Frame>();
  auto& [one, other] = ends;
  Process child = Process::fork([&] { ends.second.put(ends.second.get()); }).start();
  one.put(sent);
  expect_same(one.get(), sent);
  child.join();
}

// What was lent for a put is not referred to afterwards, nor is a temporary ever.
TEST(Packed, AValueKeepsItsNumbers) {
  std::vector<float> numbers(10000, 1.5f);
  const Value value = numbers;
  numbers.assign(10000, 0);
  EXPECT_EQ(value.as<std::vector<float>>().front(), 1.5f);
  Queue<Value> queue;
  queue.put(value);
  const Value got = queue.get();
  EXPECT_EQ(got, value);
  EXPECT_EQ(got.as<std::vector<float>>().back(), 1.5f);
}

TEST(Packed, IsAListLikeAnyOther) {
  Value packed = std::vector<int>{1, -2, 3};
  ASSERT_NE(packed.packed(), nullptr);
  EXPECT_EQ(packed.kind(), Value::Kind::kList);
  EXPECT_EQ(packed.size(), 3u);
  const Value list = Value::List{1, -2, 3};
  EXPECT_EQ(packed, list);
  EXPECT_EQ(list, packed);
  EXPECT_FALSE(packed == Value(Value::List{1, -2}));
  EXPECT_FALSE(packed == Value(std::vector<int>{1, -2, 4}));
  EXPECT_EQ(packed, Value(std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_EQ(std::as_const(packed).get_if<Value::List>()->at(1), Value(-2));
  packed.get_if<Value::List>()->push_back("more");
  EXPECT_EQ(packed.size(), 4u);
  EXPECT_EQ(packed.packed(), nullptr);
  const Value nan = std::vector<double>{std::nan("")};
  EXPECT_FALSE(nan == nan) << "as one double by itself";
}

TEST(Packed, NothingIsLostByAnotherType) {
  const Value numbers = std::vector<int>{1, 300};
  EXPECT_EQ(numbers.as<std::vector<double>>(), (std::vector<double>{1, 300}));
  EXPECT_EQ(numbers.as<std::set<long>>(), (std::set<long>{1, 300}));
  EXPECT_EQ((numbers.as<std::array<short, 2>>())[1], 300);
  EXPECT_EQ(mismatch<std::vector<signed char>>(numbers).code(), Code::kInvalid);
  EXPECT_EQ(mismatch<std::vector<std::string>>(numbers).code(), Code::kInvalid);
  EXPECT_EQ(mismatch<Value::Bytes>(numbers).code(), Code::kInvalid);
  EXPECT_EQ(mismatch<std::vector<int>>(Value(std::vector<double>{0.5})).code(), Code::kInvalid);
  EXPECT_EQ(mismatch<std::vector<int>>(Value(std::vector<bool>{true})).code(), Code::kInvalid);
  EXPECT_EQ(Value(Value::List{1, 2.5}).as<std::vector<float>>(), (std::vector<float>{1, 2.5}));
  EXPECT_EQ(Value(Value::List{1, 2}).as<std::vector<std::byte>>(), (std::vector{std::byte{1}, std::byte{2}}));
  using Points = std::vector<std::array<float, 3>>;
  EXPECT_EQ(Value(Points{{1, 2, 3}}), Value(Value::List{Value::List{1.0, 2.0, 3.0}}));
  EXPECT_EQ(Value(std::complex<double>(1, 2)), Value(Value::List{1.0, 2.0}));
}

TEST(Packed, AStructOfAnotherSizeIsAnError) {
  Queue<std::map<std::string, Pose>> poses;
  Queue<Value>(ChannelRef(poses)).put(Value::Map{{"home", Value::Bytes(7)}});
  EXPECT_THROW(poses.get(), TypeMismatch);
}

}  // namespace
}  // namespace forklift
