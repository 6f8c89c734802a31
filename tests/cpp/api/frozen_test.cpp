#include "forklift/frozen.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "forklift/process.h"
#include "forklift/queue.h"
#include "message/frozen.h"

namespace forklift {
namespace {

Value sample() {
  Tensor numbers = Tensor::empty({3, 4}, DType::kFloat64);
  const std::span<double> items = numbers.span<double>();
  std::iota(items.begin(), items.end(), 0.0);
  Value::Map many;
  for (int i = 0; i < 500; ++i) many.emplace_back("key " + std::to_string(i), i);
  for (int i = 0; i < 500; ++i) many.emplace_back(i * 7, "number " + std::to_string(i));
  return Value::Map{
      {"null", nullptr},
      {"flag", true},
      {"list", Value::List{1, -2.5, "a", "123456789", Value::List{}, std::vector<std::byte>(20)}},
      {"numbers", numbers.transpose(0, 1)},
      {"empty", Tensor::empty({0, 3}, DType::kInt8)},
      {"many", many},
  };
}

Code code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::kOk;
}

TEST(Frozen, ReadsWhatWasFrozen) {
  const Frozen frozen = Frozen::freeze(sample());
  EXPECT_EQ(frozen.kind(), Frozen::Kind::kMap);
  EXPECT_EQ(frozen.size(), 6u);
  EXPECT_EQ(frozen.find("null")->kind(), Frozen::Kind::kNull);
  EXPECT_EQ(frozen.find("flag")->boolean(), true);
  const Frozen list = *frozen.find("list");
  EXPECT_EQ(list.at(0).integer(), 1);
  EXPECT_EQ(list.at(0).real(), 1.0);
  EXPECT_EQ(list.at(1).real(), -2.5);
  EXPECT_EQ(list.at(2).string(), "a");
  EXPECT_EQ(list.at(3).string(), "123456789");
  EXPECT_EQ(list.at(4).size(), 0u);
  EXPECT_EQ(list.at(5).bytes()->size(), 20u);
  EXPECT_EQ(code_of([&] { (void)list.at(6); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { (void)list.key(0); }), Code::kInvalid);
  EXPECT_FALSE(list.find("a").has_value());
  const Frozen many = *frozen.find("many");
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(many.find("key " + std::to_string(i))->integer(), i);
    EXPECT_EQ(many.find(i * 7)->string(), "number " + std::to_string(i));
  }
  EXPECT_FALSE(many.find("key 500").has_value());
  EXPECT_FALSE(many.find(1).has_value());
  EXPECT_EQ(many.key(3).string(), "key 3");
}

TEST(Frozen, TensorsAreReadOnlyViews) {
  Tensor numbers;
  {
    const Frozen frozen = Frozen::freeze(sample());
    numbers = frozen.find("numbers")->tensor();
    EXPECT_EQ(frozen.find("empty")->tensor().shape(), (Dims{0, 3}));
    EXPECT_EQ(code_of([&] { (void)frozen.find("flag")->tensor(); }), Code::kInvalid);
  }
  EXPECT_EQ(numbers.shape(), (Dims{4, 3}));
  EXPECT_TRUE(numbers.readonly());
  EXPECT_EQ(numbers.data_if<double>(), nullptr);
  EXPECT_EQ(code_of([&] { (void)numbers.data<double>(); }), Code::kInvalid);
  EXPECT_EQ(numbers.at<const double>({1, 2}), 9.0);  // the transposed (2, 1)
  EXPECT_EQ(code_of([&] { numbers.fill(1.0); }), Code::kInvalid);
}

TEST(Frozen, ComesBackAsAValue) {
  const Value all = sample();
  const Value::Map& plain = *all.get_if<Value::Map>();
  const Value back = Frozen::freeze(all).to_value();
  for (const auto& [key, value] : plain) {
    ASSERT_NE(back.find(key), nullptr);
    if (const Tensor* tensor = value.get_if<Tensor>()) {
      EXPECT_TRUE(back.find(key)->get_if<Tensor>()->same_elements(*tensor));
    } else {
      EXPECT_EQ(*back.find(key), value);
    }
  }
}

TEST(Frozen, IsOneCopyForAllProcesses) {
  Queue<Frozen> there;
  Queue<int> back;
  const Frozen frozen = Frozen::freeze(sample());
  Process child = Process::fork([&] {
    const Frozen got = there.get();
    back.put(static_cast<int>(*got.find("many")->find("key 123")->integer()));
    back.put(got.memory().raw() == frozen.memory().raw() ? 1 : 0);
  });
  child.start();
  there.put(frozen);
  EXPECT_EQ(back.get(), 123);
  EXPECT_EQ(back.get(), 1);
  child.join();
}

TEST(Frozen, RefusesWhatItCannotHold) {
  EXPECT_THROW(Frozen::freeze(Value(UINT64_MAX)), Error);
  Value deep = 1;
  for (std::size_t i = 0; i <= kMaxValueDepth; ++i) deep = Value::List{deep};
  EXPECT_THROW(Frozen::freeze(deep), Error);
  EXPECT_EQ(code_of([] { (void)Frozen::over(Tensor::zeros({64}, DType::kUInt8)); }), Code::kCorrupt);
  EXPECT_EQ(code_of([] { (void)Frozen::over(Tensor::zeros({64}, DType::kInt8)); }), Code::kInvalid);
  EXPECT_EQ(code_of([] { (void)Frozen::over(Tensor()); }), Code::kInvalid);
}

// What a broken peer could have written: any answer is right that is not a look beyond the block.
TEST(Frozen, DamageIsAnErrorOrAnotherValue) {
  const Tensor image = Frozen::freeze(sample()).memory();
  std::minstd_rand random(7);
  int failed = 0;
  for (int round = 0; round < 3000; ++round) {
    std::shared_ptr<Storage> heap = Storage::heap(image.nbytes());
    std::memcpy(heap->data(), image.raw(), image.nbytes());
    for (int i = 0; i < 3; ++i) {
      const std::size_t at = 16 + random() % (image.nbytes() - 16);
      heap->data()[at] = static_cast<std::byte>(random());
    }
    const Frozen frozen =
        Frozen::over(Tensor::wrap(heap, DType::kUInt8, {static_cast<std::int64_t>(heap->bytes())}));
    failed += code_of([&] { (void)frozen.to_value(); }) == Code::kOk ? 0 : 1;
    if (const auto many = frozen.find("many")) (void)many->find(21);
  }
  EXPECT_GT(failed, 10);
}

TEST(Frozen, KeysThatAreEqualHashAlike) {
  using namespace frozen;
  EXPECT_EQ(hash_integer(5), hash_real(5.0));
  EXPECT_EQ(hash_integer(0), hash_real(-0.0));
  EXPECT_EQ(hash_integer(INT64_MIN), hash_real(-0x1p63));
  EXPECT_NE(hash_real(0.5), hash_real(0.25));
  const std::vector<std::byte> text(9, std::byte{65});
  EXPECT_NE(hash_text(Tag::kString, text), hash_text(Tag::kBytes, text));
}

}  // namespace
}  // namespace forklift
