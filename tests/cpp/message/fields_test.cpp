// Types of the program's own and more of the standard library's in messages: Fields, variants, sets, ...
#include "forklift/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <variant>
#include <vector>

#include "forklift/multiprocessing.h"
#include "support/value_check.h"

namespace fleet {

enum class Mode : std::uint8_t {
  kIdle,
  kBusy
};

struct Stop {
  std::string name;
  std::chrono::milliseconds stay{};
};

struct Job {
  std::string name;
  std::vector<std::string> tags;
  forklift::Tensor image;
  std::optional<Stop> first;
  std::map<std::string, Stop> others;
  std::variant<std::monostate, double, std::string> extra;
  Mode mode = Mode::kIdle;
  std::set<int> seen;

  // Neither sent nor needed.
  std::string cache;
};

struct Config {
  int threads = 1;
  std::string device;
};

struct Tree {
  std::string label;
  std::vector<Tree> children;
};

// Trivially copyable, but not its bytes.
struct Name {
  const char* text;
  int length;
};
struct Point {
  int x;
  int y;
};

}  // namespace fleet

template <>
struct forklift::ValueTraits<fleet::Name> {
  static Value to(const fleet::Name& name) { return Value(name.length); }
  static fleet::Name from(const Value& value) { return {nullptr, value.as<int>()}; }
};
template <>
struct forklift::ValueTraits<fleet::Point> : forklift::NamedFields<&fleet::Point::x, &fleet::Point::y> {};
template <>
struct forklift::ValueTraits<fleet::Stop> : forklift::Fields<&fleet::Stop::name, &fleet::Stop::stay> {};
template <>
struct forklift::ValueTraits<fleet::Job>
    : forklift::Fields<&fleet::Job::name, &fleet::Job::tags, &fleet::Job::image, &fleet::Job::first,
                       &fleet::Job::others, &fleet::Job::extra, &fleet::Job::mode, &fleet::Job::seen> {};
template <>
struct forklift::ValueTraits<fleet::Config>
    : forklift::NamedFields<&fleet::Config::threads, &fleet::Config::device> {};
template <>
struct forklift::ValueTraits<fleet::Tree> : forklift::Fields<&fleet::Tree::label, &fleet::Tree::children> {};

namespace forklift {
namespace {

using fleet::Config;
using fleet::Job;
using test::mismatch;
using testing::HasSubstr;

static_assert(Sendable<Job> && Sendable<std::vector<Job>> && Sendable<std::optional<Job>>);
static_assert(Sendable<std::variant<int, std::string>> && Sendable<std::set<std::string>>);
static_assert(Sendable<std::map<std::string, std::chrono::seconds>> && Sendable<std::chrono::seconds>);
static_assert(!Sendable<std::variant<int, const char*>> && !Sendable<std::set<const char*>>);
static_assert(!Sendable<std::deque<std::string>> && !Sendable<std::span<const float>>);

static_assert(detail::Portable<fleet::Name> && detail::Portable<fleet::Point>);
static_assert(detail::Portable<std::vector<fleet::Name>> && detail::Portable<std::optional<fleet::Name>>);
static_assert(detail::Portable<std::array<fleet::Name, 2>> &&
              detail::Portable<std::variant<int, fleet::Name>>);
static_assert(detail::Bytewise<fleet::Mode> && detail::Bytewise<std::chrono::seconds>);
static_assert(detail::Bytewise<std::optional<int>> && detail::Bytewise<std::array<std::byte, 3>>);
static_assert(detail::Bytewise<std::variant<int, double>> && detail::Bytewise<std::monostate>);

void finish(Job job, Queue<Job>& done) {
  job.name += " done";
  job.image.at<float>({0}) = 4;
  done.put(job);
}
const Registered<&finish> kFinish{"finish a job"};

Job example() {
  Job job;
  job.name = "paint";
  job.tags = {"a", "b"};
  job.image = Tensor::zeros({3}, DType::kFloat32);
  job.first = fleet::Stop{"dock", std::chrono::milliseconds(1500)};
  job.others["end"] = {"yard", {}};
  job.extra = "text";
  job.mode = fleet::Mode::kBusy;
  job.seen = {3, 1};
  job.cache = "private";
  return job;
}

TEST(Fields, AStructArrivesInEveryKindOfProcess) {
  const Job sent = example();
  Queue<Job> done;
  Process forked = Process::fork([&] { finish(sent, done); }).start();
  Process spawned = Process::spawn(finish, sent, done).start();
  for (int i = 0; i < 2; ++i) {
    const Job got = done.get();
    EXPECT_EQ(got.name, "paint done");
    EXPECT_EQ(got.tags, sent.tags);
    EXPECT_EQ(got.image.raw(), sent.image.raw()) << "tensors inside are handles";
    EXPECT_EQ(got.first->stay, std::chrono::milliseconds(1500));
    EXPECT_EQ(got.others.at("end").name, "yard");
    EXPECT_EQ(std::get<std::string>(got.extra), "text");
    EXPECT_EQ(got.mode, fleet::Mode::kBusy);
    EXPECT_EQ(got.seen, (std::set<int>{1, 3}));
    EXPECT_TRUE(got.cache.empty());
  }
  forked.join();
  spawned.join();
  EXPECT_EQ(sent.image.at<float>({0}), 4);
}

TEST(Fields, AreAListInOrder) {
  const Value value{fleet::Stop{"dock", std::chrono::milliseconds(7)}};
  EXPECT_EQ(value, Value(Value::List{"dock", 7}));
  EXPECT_EQ(value.as<fleet::Stop>().stay.count(), 7);
}

TEST(Fields, NamedOnesAreAMap) {
  const Value value{Config{4, "gpu"}};
  EXPECT_EQ(value, Value(Value::Map{{"threads", 4}, {"device", "gpu"}}));
  // Another order, and more than this program knows.
  const auto other = Value(Value::Map{{"new", 1}, {"device", "cpu"}, {"threads", 2}}).as<Config>();
  EXPECT_EQ(other.threads, 2);
  EXPECT_EQ(other.device, "cpu");
}

TEST(Fields, ErrorsNameTheField) {
  EXPECT_THAT(mismatch<Config>(Value(Value::Map{{"threads", "many"}, {"device", "cpu"}})).what(),
              HasSubstr("field threads: a value of kind string"));
  EXPECT_THAT(mismatch<Config>(Value(Value::Map{{"threads", 1}})).what(),
              HasSubstr("the field device is missing"));
  EXPECT_THAT(mismatch<fleet::Stop>(Value(Value::List{"dock"})).what(),
              HasSubstr("a list of 2 fields was wanted"));
  EXPECT_THAT(mismatch<Config>(Value("dock")).what(), HasSubstr("a map of fields"));
  Queue<Value> values;
  Queue<Config> configs{ChannelRef(values)};
  values.put(Value::Map{{"threads", 1}});
  EXPECT_THROW((void)configs.get(), TypeMismatch);
}

TEST(Fields, MayContainThemselves) {
  const fleet::Tree tree{"root", {{"left", {}}, {"right", {{"leaf", {}}}}}};
  Queue<fleet::Tree> queue;
  queue.put(tree);
  EXPECT_EQ(queue.get().children.at(1).children.at(0).label, "leaf");
}

TEST(ValueTraits, VariantsKnowTheirAlternative) {
  using Answer = std::variant<std::int64_t, double, std::string, std::vector<std::string>>;
  Queue<Answer> queue;
  for (const Answer& answer :
       {Answer(std::int64_t{1}), Answer(1.0), Answer("one"), Answer(std::vector<std::string>{"o"})}) {
    queue.put(answer);
    EXPECT_EQ(queue.get(), answer);
  }
  EXPECT_EQ(Value(Answer(1.0)), Value(Value::List{1, 1.0}));
  for (const Value& wrong :
       {Value(1), Value(Value::List{1}), Value(Value::List{4, 1}), Value(Value::List{-1, 1}),
        Value(Value::List{"1", 1}), Value(Value::List{2, 1})}) {
    EXPECT_EQ(mismatch<Answer>(wrong).code(), Code::kInvalid);
  }
}

TEST(ValueTraits, SetsAreLists) {
  const std::set<std::string> ordered{"b", "a"};
  EXPECT_EQ(Value(ordered), Value(Value::List{"a", "b"}));
  EXPECT_EQ(Value(ordered).as<std::set<std::string>>(), ordered);
  const std::unordered_set<int> numbers{1, 2, 3};
  EXPECT_EQ(Value(numbers).as<std::unordered_set<int>>(), numbers);
  EXPECT_EQ(mismatch<std::set<int>>(Value(Value::List{1, "two"})).code(), Code::kInvalid);
}

TEST(ValueTraits, EnumsAndDurationsAreNumbers) {
  EXPECT_EQ(Value(fleet::Mode::kBusy), Value(1));
  EXPECT_EQ(Value(1).as<fleet::Mode>(), fleet::Mode::kBusy);
  EXPECT_EQ(mismatch<fleet::Mode>(Value(300)).code(), Code::kInvalid);
  EXPECT_EQ(Value(std::chrono::microseconds(5)).as<std::chrono::microseconds>(),
            std::chrono::microseconds(5));
  EXPECT_EQ(mismatch<std::chrono::microseconds>(Value("5")).code(), Code::kInvalid);
  EXPECT_EQ(Value(std::monostate()).as<std::monostate>(), std::monostate());
  EXPECT_EQ(mismatch<std::monostate>(Value(1)).code(), Code::kInvalid);
}

TEST(ValueTraits, SpansGoInWithoutAVector) {
  const float numbers[] = {1, 2, 3};
  EXPECT_EQ(Value(std::span(numbers)), Value(Value::List{1.0F, 2.0F, 3.0F}));
  const std::byte bytes[] = {std::byte{1}};
  EXPECT_EQ(Value(std::span(bytes)), Value(Value::Bytes{std::byte{1}}));

  Queue<std::vector<float>> queue;
  queue.put(std::span(numbers));
  queue.put(std::span<const float>(numbers).first(1));
  EXPECT_TRUE(queue.try_put(std::span<const float>()));
  EXPECT_EQ(queue.get(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(queue.get().size(), 1u);
  EXPECT_TRUE(queue.get().empty());
  Queue<std::string> strings;
  strings.put(std::string_view("text").substr(1));
  strings.put("a literal");
  EXPECT_EQ(strings.get(), "ext");
  EXPECT_EQ(strings.get(), "a literal");
}

void lengthen(fleet::Name name, const std::vector<fleet::Name>& others, Queue<Value>& answers) {
  answers.put(Value::List{name.text == nullptr, name.length, others.at(1).length});
}
const Registered<&lengthen> kLengthen{"lengthen"};

// A struct with a line of its own travels as the line says, also where it could be copied byte by byte.
TEST(Fields, TheProgramsOwnTraitsComeBeforeBytes) {
  const fleet::Name name{"here only", 9};
  Queue<fleet::Name> names;
  names.put(name);
  const fleet::Name got = names.get();
  EXPECT_EQ(got.text, nullptr);
  EXPECT_EQ(got.length, 9);
  Queue<std::optional<fleet::Name>> maybe;
  maybe.put(name);
  EXPECT_EQ(maybe.get()->text, nullptr);
  Queue<Value> answers;
  Process child = Process::spawn(lengthen, name, std::vector<fleet::Name>{name, {"x", 1}}, answers).start();
  EXPECT_EQ(answers.get(), Value(Value::List{true, 9, 1}));
  child.join();

  Queue<fleet::Point> points;
  points.put({1, 2});
  EXPECT_EQ(Queue<Value>(ChannelRef(points)).get(), Value(Value::Map{{"x", 1}, {"y", 2}}));
  const SharedValue<fleet::Point> shared(fleet::Point{3, 4});  // memory that is the same is its bytes
  EXPECT_EQ(shared->y, 4);
}

// A Value's map has scalars as keys; a map with others is a list of pairs.
TEST(Fields, MapsWithKeysThatHaveParts) {
  using Topic = std::map<std::pair<int, int>, std::string>;
  static_assert(Sendable<Topic> && Sendable<std::map<std::vector<int>, fleet::Stop>>);
  Queue<Topic> topics;
  const Topic sent{{{1, 2}, "rook"}, {{0, 7}, "king"}};
  topics.put(sent);
  EXPECT_EQ(topics.get(), sent);
  topics.put(sent);
  EXPECT_EQ(Queue<Value>(topics).get(), Value(Value::List{Value::List{Value::List{0, 7}, "king"},
                                                          Value::List{Value::List{1, 2}, "rook"}}));
  Queue<Value>(topics).put(Value::List{Value::List{1}});
  EXPECT_THROW((void)topics.get(), TypeMismatch);
  using Maybe = std::map<std::optional<int>, int>;
  const Maybe maybe{{std::nullopt, 1}, {3, 4}};
  EXPECT_EQ(Value(maybe).kind(), Value::Kind::kMap);
  EXPECT_EQ(Value(maybe).as<Maybe>(), maybe);
}

}  // namespace
}  // namespace forklift
