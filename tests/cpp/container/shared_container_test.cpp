// SharedVector, SharedMap, SharedCounter: what they promise, and after kills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "forklift/multiprocessing.h"
#include "forklift/shared_counter.h"
#include "forklift/shared_map.h"
#include "forklift/shared_vector.h"
#include "node/node.h"
#include "support/child.h"

namespace forklift {
namespace {

using test::Child;
using test::eventually;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Larger than a word, with a checksum: half a write shows.
struct Record {
  std::uint64_t number = 0;
  std::array<std::uint64_t, 6> copies{};
  std::uint16_t tail = 0;

  static Record of(std::uint64_t number) {
    Record made;
    made.number = number;
    made.copies.fill(number);
    made.tail = static_cast<std::uint16_t>(number);
    return made;
  }
  bool whole() const {
    return std::all_of(copies.begin(), copies.end(), [&](std::uint64_t copy) { return copy == number; }) &&
           tail == static_cast<std::uint16_t>(number);
  }
};

class SharedContainer : public testing::Test {
 protected:
  void SetUp() override {
    (void)Lock();
    leases_ = held();
  }
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return node().domain().reap(), held() == leases_; }));
    EXPECT_THAT(node().audit(), IsEmpty());
  }
  static node::Node& node() { return *node::Node::existing(); }
  static std::uint64_t held() { return node().arena().stats().held_blocks; }

 private:
  std::uint64_t leases_ = 0;
};

TEST_F(SharedContainer, AVector) {
  SharedVector<std::int32_t> numbers(3);
  EXPECT_TRUE(numbers.empty());
  EXPECT_EQ(numbers.capacity(), 3U);
  EXPECT_EQ(numbers.pop_back(), std::nullopt);
  for (const int i : {1, 2, 3}) numbers.push_back(i);
  EXPECT_THROW(numbers.push_back(4), Error);
  EXPECT_THAT(numbers.snapshot(), ElementsAre(1, 2, 3));
  numbers.set(1, 20);
  EXPECT_EQ(numbers.at(1), 20);
  EXPECT_THROW(numbers.set(3, 0), std::out_of_range);
  EXPECT_THROW((void)numbers.at(3), std::out_of_range);
  EXPECT_EQ(numbers.find(3), std::nullopt);
  numbers.update(0, [](std::int32_t& number) { number = -7; });
  EXPECT_THROW(numbers.update(0, [](std::int32_t& number) { number = 9, throw 1; }), int);
  EXPECT_EQ(numbers.at(0), -7);
  EXPECT_EQ(numbers.pop_back(), 3);
  EXPECT_EQ(numbers.size(), 2U);
  SharedVector<std::int32_t> same = std::move(numbers);
  same.clear();
  EXPECT_TRUE(numbers.empty());  // NOLINT(bugprone-use-after-move): a handle still
  SharedVector<Record> none(0);
  EXPECT_THROW(none.push_back({}), Error);
  EXPECT_THROW(SharedVector<Record>(std::size_t{1} << 60), Error);
}

TEST_F(SharedContainer, AMapAgainstTheStandardsOne) {
  SharedMap<std::uint32_t, Record> map(200);
  std::map<std::uint32_t, std::uint64_t> expected;
  std::mt19937 random(11);
  for (int round = 0; round < 20'000; ++round) {
    const auto key = static_cast<std::uint32_t>(random() % 300);
    const std::uint64_t number = random();
    switch (random() % 4) {
      case 0: {
        if (expected.size() == 200 && !expected.contains(key)) {
          EXPECT_THROW(map.insert(key, Record::of(number)), Error);
        } else {
          EXPECT_EQ(map.insert(key, Record::of(number)), expected.emplace(key, number).second);
        }
        break;
      }
      case 1: {
        if (expected.size() == 200 && !expected.contains(key)) break;
        EXPECT_EQ(map.insert_or_assign(key, Record::of(number)),
                  expected.insert_or_assign(key, number).second);
        break;
      }
      case 2: EXPECT_EQ(map.erase(key), expected.erase(key) == 1); break;
      default: {
        const std::optional<Record> found = map.find(key);
        ASSERT_EQ(found.has_value(), expected.contains(key));
        if (!found) break;
        ASSERT_EQ(found->number, expected[key]);
        ASSERT_TRUE(found->whole());
      }
    }
    ASSERT_EQ(map.size(), expected.size());
  }
  std::map<std::uint32_t, std::uint64_t> all;
  for (const auto& [key, record] : map.snapshot()) all.emplace(key, record.number);
  EXPECT_EQ(all, expected);
  map.clear();
  EXPECT_TRUE(map.empty());
  EXPECT_THAT(map.snapshot(), IsEmpty());
  EXPECT_TRUE(map.insert(1, Record::of(1)));
}

TEST_F(SharedContainer, AMapsOtherFunctions) {
  using Name = std::array<char, 16>;
  SharedMap<Name, double> map(2);
  const Name bid{"bid"};
  const Name ask{"ask"};
  EXPECT_EQ(map.upsert(bid, 1.0, [](double& price) { price += 0.5; }), 1.5);
  EXPECT_EQ(map.upsert(bid, 1.0, [](double& price) { price += 0.5; }), 2.0);
  EXPECT_FALSE(map.update(ask, [](double&) {}));
  EXPECT_TRUE(map.update(bid, [](double& price) { price = 4; }));
  EXPECT_EQ(map.at(bid), 4.0);
  EXPECT_THROW((void)map.at(ask), std::out_of_range);
  EXPECT_EQ(map.value_or(ask, -1), -1.0);
  EXPECT_TRUE(map.contains(bid));
  EXPECT_FALSE(map.contains(ask));
  map.insert(ask, 5);
  EXPECT_THROW(map.insert(Name{"mid"}, 6), Error);
  EXPECT_FALSE(map.insert_or_assign(ask, 7));  // a full map's values can change
  EXPECT_THAT(map.snapshot(), UnorderedElementsAre(std::pair(bid, 4.0), std::pair(ask, 7.0)));
}

TEST_F(SharedContainer, TravelAsHandlesAndAreChecked) {
  SharedVector<Record> records(4);
  SharedMap<int, int> map(4);
  SharedCounter counter(5);
  Queue<SharedVector<Record>> vectors;
  Queue<Value> values;
  vectors.put(records);
  values.put(Value(map));
  values.put(Value(counter));
  values.put(Value(records));
  values.put(Value(Tensor::zeros({4096}, DType::kUInt8)));
  Child child([&] {
    vectors.get().push_back(Record::of(3));
    values.get().as<SharedMap<int, int>>().insert(1, 2);
    values.get().as<SharedCounter>().add(2);
    EXPECT_THROW((void)values.get().as<SharedVector<int>>(), TypeMismatch);
    EXPECT_THROW((void)values.get().as<SharedVector<Record>>(), TypeMismatch);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(records.at(0).number, 3U);
  EXPECT_EQ(map.at(1), 2);
  EXPECT_EQ(counter.value(), 7);
  values.put(Value(records));
  using Map = SharedMap<int, int>;
  EXPECT_THROW((void)values.get().as<Map>(), TypeMismatch);
}

TEST_F(SharedContainer, ACounterIsWaitedFor) {
  SharedCounter counter;
  std::vector<Child> children;
  for (int i = 0; i < 3; ++i) {
    children.emplace_back([=]() mutable {
      for (int n = 0; n < 1000; ++n) counter.add();
    });
  }
  counter.wait_for(3000);
  EXPECT_EQ(counter.value(), 3000);
  EXPECT_FALSE(counter.try_wait_for(3001));
  EXPECT_EQ(counter.subtract(3000), 3000);
  counter.reset(-1);
  EXPECT_EQ(counter.value(), -1);
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
}

// Writers of several processes, readers of others: nobody sees half a record, and no record is lost.
TEST_F(SharedContainer, ReadersBesideWriters) {
  constexpr std::uint64_t kRounds = 20'000;
  test::Gate begin;
  SharedMap<std::uint64_t, Record> map(64);
  SharedVector<Record> records(64);
  for (std::uint64_t i = 0; i < 16; ++i) records.push_back(Record::of(i));
  std::vector<Child> children;
  for (std::uint64_t i = 0; i < 4; ++i) {
    children.emplace_back([&, i] {
      ASSERT_TRUE(begin.wait());
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        const std::uint64_t key = round % 32;
        if (i < 2) {
          map.insert_or_assign(key, Record::of(round));
          records.set(key % 14, Record::of(round));  // each writer may have taken one of 16 off just now
          if (round % 64 == 63) map.erase(key);
          if (round % 16 == 15) records.push_back(*records.pop_back());
        } else {
          ASSERT_TRUE(map.value_or(key, Record()).whole());
          ASSERT_TRUE(records.find(key % 16).value_or(Record()).whole());
          for (const Record& record : records.snapshot()) ASSERT_TRUE(record.whole());
        }
      }
    });
  }
  begin.open(4);
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(records.size(), 16U);
}

// Writers are killed at random; what is there afterwards is whole, and all of it can be used.
TEST_F(SharedContainer, AStormOfKills) {
  SharedMap<std::uint64_t, Record> map(64);
  SharedVector<Record> records(64);
  for (std::uint64_t i = 0; i < 8; ++i) records.push_back(Record::of(i));
  const auto write = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (;;) {
      const std::uint64_t key = random() % 64;
      switch (random() % 4) {
        case 0: map.insert_or_assign(key, Record::of(random())); break;
        case 1: map.erase(key); break;
        case 2: records.set(key % 8, Record::of(random())); break;
        default:
          map.upsert(key, Record::of(1), [](Record& record) { record = Record::of(record.number + 1); });
      }
    }
  };
  std::mt19937 random(5);
  std::vector<Child> children;
  for (std::uint64_t i = 0; i < 3; ++i) children.emplace_back([&, i] { write(i); });
  for (std::uint64_t round = 0; round < 150; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    Child& victim = children[random() % children.size()];
    victim.kill_now();
    for (const auto& [key, record] : map.snapshot()) {
      ASSERT_LT(key, 64U);
      ASSERT_TRUE(record.whole());
    }
    for (const Record& record : records.snapshot()) ASSERT_TRUE(record.whole());
    victim = Child([&, round] { write(100 + round); });
  }
  for (Child& child : children) child.kill_now();
  // Every node is there: the map can be filled.
  map.clear();
  for (std::uint64_t key = 0; key < 64; ++key) EXPECT_TRUE(map.insert(key, Record::of(key)));
  EXPECT_EQ(map.size(), 64U);
  for (std::uint64_t key = 0; key < 64; ++key) EXPECT_EQ(map.at(key).number, key);
}

TEST_F(SharedContainer, AStoppedWriterIsSaid) {
  SharedVector<int> numbers(4);
  numbers.push_back(1);
  Child writer([=]() mutable { numbers.update(0, [](int&) { ::raise(SIGSTOP); }); });
  ASSERT_TRUE(eventually([&] { return os::task_state(writer.pid()) == 'T'; }));
  EXPECT_EQ(numbers.at(0), 1);  // readers go on: nothing is half changed
  try {
    numbers.push_back(2);
    ADD_FAILURE() << "a stopped process holds the lock";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kStalled);
    EXPECT_THAT(error.what(), testing::HasSubstr(std::to_string(writer.pid())));
    EXPECT_THAT(error.what(), testing::HasSubstr("stopped"));
  }
  writer.signal(SIGCONT);
  EXPECT_EQ(writer.wait(), 0);
  numbers.push_back(2);
  EXPECT_THAT(numbers.snapshot(), ElementsAre(1, 2));
}

TEST_F(SharedContainer, AForkedChildGoesOn) {
  SharedMap<int, int> map(10);
  map.insert(1, 1);
  Child child([=]() mutable {
    EXPECT_EQ(map.at(1), 1);
    map.insert(2, 4);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(map.at(2), 4);
}

}  // namespace
}  // namespace forklift
