#include "forklift/value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "support/value_check.h"

struct Pose {
  double x = 0;
  double y = 0;
  bool operator==(const Pose&) const = default;
};

template <>
struct forklift::ValueTraits<Pose> {
  static Value to(const Pose& pose) { return Value::List{pose.x, pose.y}; }
  static Pose from(const Value& value) {
    const auto xy = value.as<std::array<double, 2>>();
    return Pose{xy[0], xy[1]};
  }
};

namespace forklift {
namespace {

using test::code_of;
using test::mismatch;

template <class T>
void expect_round_trip(const T& object, Value::Kind kind) {
  const Value value(object);
  EXPECT_EQ(value.kind(), kind);
  EXPECT_EQ(value.as<T>(), object);
  EXPECT_EQ(value.try_as<T>(), std::optional<T>(object));
}

TEST(Value, HoldsWhatWasPutIn) {
  EXPECT_TRUE(Value().is_null());
  EXPECT_TRUE(Value(nullptr).is_null());
  EXPECT_EQ(Value("text").kind(), Value::Kind::kString);  // not a bool
  EXPECT_EQ(Value('a').kind(), Value::Kind::kInt);
  expect_round_trip(true, Value::Kind::kBool);
  expect_round_trip(-5, Value::Kind::kInt);
  expect_round_trip(std::numeric_limits<std::int64_t>::min(), Value::Kind::kInt);
  expect_round_trip(std::uint64_t{5}, Value::Kind::kInt);
  expect_round_trip(std::numeric_limits<std::uint64_t>::max(), Value::Kind::kUInt);
  expect_round_trip(0.1, Value::Kind::kDouble);
  expect_round_trip(0.1f, Value::Kind::kDouble);
  expect_round_trip(std::string("h\0i", 3), Value::Kind::kString);
  expect_round_trip(std::vector<std::byte>{std::byte{1}, std::byte{255}}, Value::Kind::kBytes);
  expect_round_trip(std::vector<unsigned char>{1, 255}, Value::Kind::kBytes);
  expect_round_trip(std::vector<int>{3, -1}, Value::Kind::kList);
  expect_round_trip(std::vector<bool>{true, false}, Value::Kind::kList);
  expect_round_trip(std::vector<std::vector<std::string>>{{"a"}, {}}, Value::Kind::kList);
  expect_round_trip(std::array<float, 3>{1, 2, 3}, Value::Kind::kList);
  expect_round_trip(std::pair<std::string, int>{"a", 1}, Value::Kind::kList);
  expect_round_trip(std::tuple<int, double, std::string>{1, 2.5, "x"}, Value::Kind::kList);
  expect_round_trip(std::map<std::string, std::vector<float>>{{"l", {0.5f}}, {"r", {}}}, Value::Kind::kMap);
  expect_round_trip(std::unordered_map<int, std::string>{{1, "a"}, {-2, "b"}}, Value::Kind::kMap);
  expect_round_trip(std::optional<int>(), Value::Kind::kNull);
  expect_round_trip(std::optional<int>(4), Value::Kind::kInt);
  expect_round_trip(Pose{1, -2}, Value::Kind::kList);
  expect_round_trip(std::vector<Pose>{{1, 2}, {3, 4}}, Value::Kind::kList);
}

TEST(Value, Literals) {
  const Value value = Value::Map{{"episode", 7}, {"tags", Value::List{"a", 1, nullptr, 2.5}}, {3, true}};
  EXPECT_EQ(value.size(), 3u);
  EXPECT_EQ(value.find("episode")->as<int>(), 7);
  EXPECT_EQ(value.find("tags")->size(), 4u);
  EXPECT_EQ(*value.find(3), Value(true));
  EXPECT_EQ(value.find("none"), nullptr);
  EXPECT_EQ(Value(1).find("a"), nullptr);
  EXPECT_EQ(&value.at("episode"), value.find("episode"));
  EXPECT_EQ(code_of([&] { return value.at("none"); }), Code::kNotFound);
  EXPECT_EQ(code_of([] { return Value(1).at("a"); }), Code::kNotFound);
}

TEST(Value, NumbersAreNeverCutSilently) {
  EXPECT_EQ(mismatch<std::uint8_t>(Value(300)).code(), Code::kInvalid);
  EXPECT_EQ(Value(255).as<std::uint8_t>(), 255);
  EXPECT_EQ(mismatch<std::uint64_t>(Value(-1)).code(), Code::kInvalid);
  EXPECT_EQ(mismatch<std::int8_t>(Value(-129)).code(), Code::kInvalid);
  EXPECT_EQ(Value(-128).as<std::int8_t>(), -128);
  EXPECT_EQ(mismatch<std::int64_t>(Value(UINT64_MAX)).code(), Code::kInvalid);
  EXPECT_EQ(mismatch<std::int64_t>(Value(std::uint64_t{1} << 63)).code(), Code::kInvalid);
  EXPECT_EQ(mismatch<int>(Value(1.0)).code(), Code::kInvalid);
  EXPECT_EQ(mismatch<int>(Value(true)).code(), Code::kInvalid);
  EXPECT_EQ(mismatch<bool>(Value(1)).code(), Code::kInvalid);
  EXPECT_EQ(Value(3).as<double>(), 3.0);
  EXPECT_EQ(Value(INT64_MIN).as<double>(), -0x1p63);
  EXPECT_EQ(Value(std::uint64_t{1} << 63).as<double>(), 0x1p63);
  EXPECT_EQ(mismatch<double>(Value((std::int64_t{1} << 53) + 1)).code(), Code::kInvalid);
  EXPECT_EQ(mismatch<double>(Value(UINT64_MAX)).code(), Code::kInvalid);
  EXPECT_EQ(mismatch<float>(Value(1e300)).code(), Code::kInvalid);
  EXPECT_TRUE(std::isinf(Value(HUGE_VAL).as<float>()));
  EXPECT_TRUE(std::isnan(Value(std::nan("")).as<float>()));
  EXPECT_EQ(mismatch<int>(Value("1")).what(), "a value of kind string where a signed integer was wanted");
}

TEST(Value, WrongKindsAreErrors) {
  EXPECT_EQ(mismatch<std::string>(Value(1)).code(), Code::kInvalid);
  EXPECT_EQ(mismatch<std::vector<int>>(Value("a")).code(), Code::kInvalid);
  EXPECT_EQ((mismatch<std::vector<int>>(Value(Value::List{1, "a"})).code()), Code::kInvalid);
  EXPECT_EQ((mismatch<std::array<int, 3>>(Value(Value::List{1, 2})).code()), Code::kInvalid);
  EXPECT_EQ((mismatch<std::tuple<int>>(Value(Value::List{1, 2})).code()), Code::kInvalid);
  EXPECT_EQ((mismatch<std::pair<int, int>>(Value(Value::List{1, "b"})).code()), Code::kInvalid);
  EXPECT_EQ((mismatch<std::map<int, int>>(Value(Value::List{})).code()), Code::kInvalid);
  EXPECT_EQ((mismatch<std::map<int, int>>(Value(Value::Map{{1, 2}, {"a", 3}})).code()), Code::kInvalid);
  EXPECT_EQ(mismatch<std::vector<std::byte>>(Value("bytes")).code(), Code::kInvalid);
  EXPECT_EQ(mismatch<std::vector<std::byte>>(Value(Value::List{1, 256})).code(), Code::kInvalid);
  EXPECT_EQ(Value(Value::List{1, 255}).as<std::vector<unsigned char>>(),
            (std::vector<unsigned char>{1, 255}));
  EXPECT_EQ(mismatch<Tensor>(Value()).code(), Code::kInvalid);
  EXPECT_EQ(mismatch<Pose>(Value(2.5)).code(), Code::kInvalid);
  EXPECT_EQ((Value(Value::Map{{"a", 1}, {"a", 2}}).as<std::map<std::string, int>>())["a"], 2);
}

TEST(Value, Tensors) {
  const Tensor tensor = Tensor::wrap(Storage::heap(24), DType::kFloat32, {2, 3});
  const Value value(tensor);
  EXPECT_EQ(value.kind(), Value::Kind::kTensor);
  EXPECT_TRUE(value.as<Tensor>().same_view(tensor));
  EXPECT_TRUE(value.get_if<Tensor>()->same_view(tensor));
  EXPECT_EQ(value, Value(tensor));
  EXPECT_FALSE(value == Value(tensor.transpose(0, 1)));
  EXPECT_EQ(Value(std::vector<Tensor>{tensor, tensor}).as<std::vector<Tensor>>().size(), 2u);
}

TEST(Value, Equality) {
  EXPECT_EQ(Value(5), Value(std::uint64_t{5}));
  EXPECT_FALSE(Value(1) == Value(1.0));
  EXPECT_FALSE(Value(1) == Value(true));
  EXPECT_FALSE(Value("a") == Value(Value::Bytes{std::byte{'a'}}));
  EXPECT_FALSE(Value(std::nan("")) == Value(std::nan("")));
  EXPECT_EQ(Value(Value::List{1, Value::Map{{"a", nullptr}}}),
            Value(Value::List{1, Value::Map{{"a", Value()}}}));
  EXPECT_EQ(Value("x").as<Value>(), Value("x"));
}

TEST(Value, CanBeChangedInPlace) {
  Value value = Value::List{1};
  value.get_if<Value::List>()->push_back("more");
  EXPECT_EQ(value.size(), 2u);
  EXPECT_EQ(value.get_if<Value::Map>(), nullptr);
}

}  // namespace
}  // namespace forklift
