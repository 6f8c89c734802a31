#include "message/codec.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace forklift::tensor {
namespace {

std::vector<std::byte> raw(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

std::vector<std::shared_ptr<Storage>> storages_of(const message::Encoded& encoded) {
  std::vector<std::shared_ptr<Storage>> storages;
  for (const Tensor& tensor : encoded.tensors) storages.push_back(tensor.storage());
  return storages;
}

Result<Value> decode_plain(const std::vector<std::byte>& bytes) {
  return message::decode(bytes, std::span<const std::shared_ptr<Storage>>());
}

Code decode_code(const std::vector<std::byte>& bytes) { return decode_plain(bytes).code(); }

Value round_trip(const Value& value) {
  Result<message::Encoded> encoded = message::encode(value);
  EXPECT_TRUE(encoded.ok()) << encoded.status().to_string();
  Result<Value> back = message::decode(encoded->bytes, storages_of(*encoded));
  EXPECT_TRUE(back.ok()) << back.status().to_string();
  return back.ok() ? *back : Value("message::decode failed");
}

Value nested(std::size_t depth) {
  Value value = 1;
  for (std::size_t i = 0; i < depth; ++i) {
    Value outer = i % 2 == 0 ? Value(Value::List{}) : Value(Value::Map{{"k", nullptr}});
    if (i % 2 == 0) {
      outer.get_if<Value::List>()->push_back(std::move(value));
    } else {
      (*outer.get_if<Value::Map>())[0].second = std::move(value);
    }
    value = std::move(outer);
  }
  return value;
}

Value everything() {
  const Tensor tensor = Tensor::wrap(Storage::heap(4 * 60), DType::kFloat32, {3, 4, 5});
  return Value::Map{
      {"null", nullptr},
      {"flags", Value::List{true, false}},
      {"packed", std::vector<float>{1, 2, 3}},
      {"packed lists", std::vector<std::array<std::int16_t, 2>>{{1, 2}, {3, 4}}},
      {"ints",
       std::vector<std::int64_t>{0, 127, 128, -1, -32, -33, -128, -129, 65535, 65536, INT64_MIN, INT64_MAX}},
      {"uint", UINT64_MAX},
      {"doubles", std::vector<double>{0.0, -0.5, 1e300, std::numeric_limits<double>::infinity()}},
      {"text", "gr\xc3\xbc\xc3\x9f \xf0\x9f\x9a\x9c"},
      {"long", std::string(70000, 'x')},
      {"empty", ""},
      {"bytes", Value::Bytes(300, std::byte{0xfe})},
      {"none", Value::List{Value::List{}, Value::Map{}, Value::Bytes{}}},
      {7, tensor},
      {-1.5, tensor.slice(1, {}, {}, -2).transpose(0, 2)},
      {nullptr, tensor.as_readonly()},
      {Value::Bytes{std::byte{1}}, tensor.narrow(0, 1, 0)},
      {false, Tensor::wrap(Storage::heap(16), DType::kComplex128, {})},
  };
}

TEST(Codec, EverythingSurvives) {
  const Value value = everything();
  EXPECT_EQ(round_trip(value), value);
  for (const auto& [key, item] : *value.get_if<Value::Map>()) EXPECT_EQ(round_trip(item), item);
}

TEST(Codec, IsPlainMessagePack) {
  EXPECT_EQ(message::encode(Value(5))->bytes, raw({5}));
  EXPECT_EQ(message::encode(Value(-1))->bytes, raw({0xff}));
  EXPECT_EQ(message::encode(Value(Value::Map{{"a", nullptr}}))->bytes, raw({0x81, 0xa1, 'a', 0xc0}));
  EXPECT_EQ(*decode_plain(raw({0xca, 0x3f, 0, 0, 0})), Value(0.5));         // a float32
  EXPECT_EQ(*decode_plain(raw({0xcf, 0, 0, 0, 0, 0, 0, 0, 9})), Value(9));  // wider than needed
  EXPECT_EQ(*decode_plain(raw({0xd3, 0, 0, 0, 0, 0, 0, 0, 9})), Value(9));
  EXPECT_EQ(*decode_plain(raw({0xdd, 0, 0, 0, 1, 0xc3})), Value(Value::List{true}));
}

TEST(Codec, ADoubleStaysADoubleBitForBit) {
  for (const double number : {0.0, -0.0, 1.0, -3.0, 0x1p63, 0x1p64, std::nan(""), -HUGE_VAL}) {
    const Value back = round_trip(number);
    ASSERT_NE(back.get_if<double>(), nullptr);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(*back.get_if<double>()), std::bit_cast<std::uint64_t>(number));
  }
}

TEST(Codec, AppendsAndTakesBack) {
  std::vector<std::byte> out = raw({42});
  const message::Place nowhere = [](const Tensor&) -> Result<wire::TensorMeta> {
    return {Code::kOverBudget, "no room"};
  };
  EXPECT_TRUE(message::encode(Value(1), nowhere, out).ok());
  EXPECT_EQ(out, raw({42, 1}));
  EXPECT_EQ(message::encode(Value(Value::List{"abc", Tensor()}), nowhere, out).code(), Code::kOverBudget);
  EXPECT_EQ(out, raw({42, 1}));
}

TEST(Codec, PassesAFailureOfFetchOn) {
  const message::Encoded encoded = *message::encode(Value(Tensor()));
  const message::Fetch fails = [](const wire::TensorMeta&) -> Result<Tensor> {
    return {Code::kPeerDied, "gone"};
  };
  EXPECT_EQ(message::decode(encoded.bytes, fails).code(), Code::kPeerDied);
}

TEST(Codec, RefusesToSendWhatCannotBeReceived) {
  EXPECT_TRUE(message::encode(nested(64)).ok());
  EXPECT_EQ(round_trip(nested(64)), nested(64));
  EXPECT_EQ(message::encode(nested(65)).code(), Code::kInvalid);
  EXPECT_EQ(message::encode(Value(Value::Map{{Value::List{1}, 1}})).code(), Code::kInvalid);
  EXPECT_EQ(message::encode(Value(Value::Map{{Tensor(), 1}})).code(), Code::kInvalid);
  for (const char* text : {"\xff", "abc\x80", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82",
                           "\xe0\x80\x80", "12345678\xc3"}) {
    EXPECT_EQ(message::encode(Value(text)).code(), Code::kInvalid);
  }
  for (const char* text :
       {"", "\x7f", "\xc2\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf", "12345678\xc3\xa9"}) {
    EXPECT_TRUE(message::encode(Value(text)).ok());
  }
}

TEST(Codec, RefusesWhatIsNoValue) {
  EXPECT_EQ(decode_code({}), Code::kCorrupt);
  EXPECT_EQ(decode_code(raw({0xc1})), Code::kCorrupt);
  EXPECT_EQ(decode_code(raw({1, 2})), Code::kCorrupt);  // bytes too many
  EXPECT_EQ(decode_code(raw({0x92, 1})), Code::kCorrupt);
  EXPECT_EQ(decode_code(raw({0xdd, 0xff, 0xff, 0xff, 0xff, 1})), Code::kCorrupt);
  EXPECT_EQ(decode_code(raw({0xdf, 0xff, 0xff, 0xff, 0xff, 1})), Code::kCorrupt);
  EXPECT_EQ(decode_code(raw({0xc6, 0xff, 0xff, 0xff, 0xff, 1})), Code::kCorrupt);
  EXPECT_EQ(decode_code(raw({0xdb, 0xff, 0xff, 0xff, 0xff, 'a'})), Code::kCorrupt);
  EXPECT_EQ(decode_code(raw({0xc9, 0xff, 0xff, 0xff, 0xff, 1, 1})), Code::kCorrupt);
  EXPECT_EQ(decode_code(raw({0xa1, 0xff})), Code::kCorrupt);              // no UTF-8
  EXPECT_EQ(decode_code(raw({0x81, 0x90, 1})), Code::kCorrupt);           // a list as a key
  EXPECT_EQ(decode_code(raw({0xd6, 0xff, 0, 0, 0, 0})), Code::kCorrupt);  // a timestamp
  EXPECT_EQ(decode_code(raw({0xd4, 1, 0})), Code::kCorrupt);
  EXPECT_EQ(decode_code(raw({0xc7, 0, 1})), Code::kCorrupt);
  std::vector<std::byte> deep(64, std::byte{0x91});
  deep.push_back(std::byte{1});
  EXPECT_TRUE(decode_plain(deep).ok());
  deep.insert(deep.begin(), std::byte{0x91});
  EXPECT_EQ(decode_code(deep), Code::kCorrupt);
  EXPECT_EQ(decode_code(std::vector<std::byte>(100000, std::byte{0x91})), Code::kCorrupt);
}

TEST(Codec, PackedItemsInALease) {
  const Value sent = Value::List{std::vector<double>(5000, 0.5), Value::Bytes(10000, std::byte{7})};
  std::vector<std::shared_ptr<Storage>> stored;
  const message::Store store = [&](std::span<const std::byte> bytes) -> Result<std::uint32_t> {
    stored.push_back(Storage::heap(bytes.size()));
    std::copy(bytes.begin(), bytes.end(), stored.back()->data());
    return static_cast<std::uint32_t>(stored.size() - 1);
  };
  const message::Memory memory = [&](std::uint32_t index) -> Result<std::shared_ptr<Storage>> {
    if (index >= stored.size()) return Status(Code::kCorrupt, "no such lease");
    return stored[index];
  };
  std::vector<std::byte> bytes;
  ASSERT_TRUE(message::encode(sent, {}, bytes, store).ok());
  EXPECT_EQ(stored.size(), 2u);
  EXPECT_LT(bytes.size(), 100u);
  EXPECT_EQ(*message::decode(bytes, {}, memory), sent);
  EXPECT_EQ(message::decode(bytes, message::Fetch()).code(), Code::kCorrupt) << "there are no leases";
  std::swap(stored[0], stored[1]);
  EXPECT_EQ(message::decode(bytes, {}, memory).code(), Code::kCorrupt) << "40000 bytes in a lease of 10000";
  stored.clear();
  EXPECT_EQ(message::decode(bytes, {}, memory).code(), Code::kCorrupt);
  // Whatever is changed: a Value or an error.
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> damaged = bytes;
      damaged[i] ^= static_cast<std::byte>(1 << bit);
      stored = {Storage::heap(40000), Storage::heap(10000)};
      if (Result<Value> value = message::decode(damaged, {}, memory)) (void)(*value == sent);
    }
  }
}

TEST(Codec, RefusesATensorOutsideItsMemory) {
  const Tensor tensor = Tensor::wrap(Storage::heap(64), DType::kFloat32, {16});
  const message::Encoded encoded = *message::encode(Value(tensor));
  std::vector<std::shared_ptr<Storage>> storages = {Storage::heap(60)};
  EXPECT_EQ(message::decode(encoded.bytes, storages).code(), Code::kCorrupt);
  storages.clear();
  EXPECT_EQ(message::decode(encoded.bytes, storages).code(), Code::kCorrupt);
  storages.push_back(nullptr);
  EXPECT_EQ(message::decode(encoded.bytes, storages).code(), Code::kCorrupt);
}

// Whatever the bytes are: a Value or an error, and every tensor inside the memory that there is (its elements
// are read, so that the address sanitizer sees).
void feed(const std::vector<std::byte>& bytes, const std::vector<std::shared_ptr<Storage>>& storages) {
  const Result<Value> value = message::decode(bytes, storages);
  if (!value) {
    EXPECT_EQ(value.code(), Code::kCorrupt);
    return;
  }
  std::vector<const Value*> open{&*value};
  while (!open.empty()) {
    const Value* next = open.back();
    open.pop_back();
    if (const auto* list = next->get_if<Value::List>()) {
      for (const Value& element : *list) open.push_back(&element);
    } else if (const auto* map = next->get_if<Value::Map>()) {
      for (const auto& [key, item] : *map) open.push_back(&item);
    } else if (const auto* tensor = next->get_if<Tensor>(); tensor != nullptr && tensor->nbytes() < 1 << 16) {
      EXPECT_TRUE(tensor->same_elements(*tensor));
    }
  }
}

TEST(CodecFuzz, TruncatedAndFlipped) {
  Value value = everything();
  std::erase_if(*value.get_if<Value::Map>(), [](const auto& entry) { return entry.first == Value("long"); });
  const message::Encoded encoded = *message::encode(value);
  const auto storages = storages_of(encoded);
  for (const auto& storage : storages) std::fill_n(storage->data(), storage->bytes(), std::byte{1});
  for (std::size_t size = 0; size < encoded.bytes.size(); ++size) {
    const std::vector<std::byte> cut(encoded.bytes.begin(),
                                     encoded.bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(message::decode(cut, storages).code(), Code::kCorrupt);
  }
  for (std::size_t bit = 0; bit < encoded.bytes.size() * 8; ++bit) {
    std::vector<std::byte> flipped = encoded.bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    feed(flipped, storages);
  }
}

TEST(CodecFuzz, RandomDamage) {
  const message::Encoded encoded = *message::encode(Value(Value::List{
      Tensor::wrap(Storage::heap(4 * 60), DType::kFloat32, {3, 4, 5}), "text", 5, Value::Map{{"a", 2.0}}}));
  const auto storages = storages_of(encoded);
  for (const auto& storage : storages) std::fill_n(storage->data(), storage->bytes(), std::byte{1});
  std::mt19937 random(7);
  const auto upto = [&](std::size_t n) { return random() % n; };
  for (int round = 0; round < 30000; ++round) {
    std::vector<std::byte> bytes;
    if (round % 2 == 0) {
      bytes = encoded.bytes;
      for (std::size_t i = 0, n = 1 + upto(6); i < n; ++i)
        bytes[upto(bytes.size())] = static_cast<std::byte>(random());
    } else {
      bytes.resize(upto(40));
      for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    }
    feed(bytes, storages);
  }
}

TEST(TensorMeta, BothWays) {
  wire::TensorMeta meta{3, DType::kBFloat16, true, 1234, Dims(std::size_t{64}, 1), Dims(std::size_t{64}, -5)};
  std::vector<std::byte> bytes(wire::meta_bytes(64));
  wire::encode_meta(meta, bytes.data());
  const Result<wire::TensorMeta> back = wire::decode_meta(bytes);
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(back->index, 3u);
  EXPECT_EQ(back->dtype, DType::kBFloat16);
  EXPECT_TRUE(back->readonly);
  EXPECT_EQ(back->byte_offset, 1234u);
  EXPECT_EQ(back->shape, meta.shape);
  EXPECT_EQ(back->strides, meta.strides);
}

TEST(TensorMeta, Refusals) {
  const wire::TensorMeta good{0, DType::kFloat32, false, 0, {2, 3}, {3, 1}};
  const auto damaged = [&](std::size_t at, int value) {
    std::vector<std::byte> bytes(wire::meta_bytes(2));
    wire::encode_meta(good, bytes.data());
    bytes[at] = static_cast<std::byte>(value);
    return wire::decode_meta(bytes).code();
  };
  EXPECT_EQ(damaged(0, 9), Code::kOk);
  EXPECT_EQ(damaged(4, 0), Code::kCorrupt);
  EXPECT_EQ(damaged(4, kLastDType + 1), Code::kCorrupt);
  EXPECT_EQ(damaged(5, 2), Code::kCorrupt);
  EXPECT_EQ(damaged(6, 1), Code::kCorrupt);
  EXPECT_EQ(damaged(6, 3), Code::kCorrupt);
  EXPECT_EQ(damaged(7, 1), Code::kCorrupt);
  EXPECT_EQ(damaged(23, 0x80), Code::kCorrupt);  // a negative length
  EXPECT_EQ(damaged(39, 0x40), Code::kCorrupt);  // a stride beyond everything
  EXPECT_EQ(wire::decode_meta(std::vector<std::byte>(15)).code(), Code::kCorrupt);
  EXPECT_EQ(wire::decode_meta(std::vector<std::byte>(5000)).code(), Code::kCorrupt);
  EXPECT_EQ(wire::tensor_over({0, DType::kFloat32, false, 2, {1}, {1}}, Storage::heap(64)).code(),
            Code::kCorrupt);
}

}  // namespace
}  // namespace forklift::tensor
