// The storm over topics: writers and readers are killed at random and replaced. A reader that nobody kills
// gets every message whose put had returned, once, in each writer's order; nothing that anybody gets is torn
// or older than what came before it; a writer is never held up by the dead; nothing stays behind.
//
// FORKLIFT_STORM_SECONDS (20, of which this takes a third) and FORKLIFT_STORM_SEED choose length and dice.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <new>
#include <random>

#include "storm.h"
#include "support/numbered_message.h"
#include "support/watchdog.h"
#include "topic/topic.h"

namespace forklift::test {
namespace {

using os::Deadline;
using topic::ReaderPtr;
using topic::Topic;
using topic::TopicPtr;
using topic::WhenSlow;

constexpr std::int64_t kProgressNs = 3 * kSecond * kSlower;
constexpr std::size_t kMostWriters = 1U << 16;  // of all lives

// Outside of the domain: the account.
struct Account {
  std::atomic<std::uint32_t> lives{0};                // of writers
  std::atomic<std::uint32_t> returned[kMostWriters];  // how many of its puts on `stream` had returned
  std::atomic<std::uint32_t> received[kMostWriters];  // up to which the reader got them
  std::atomic<std::uint64_t> puts{0};
  std::atomic<std::uint64_t> gets{0};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<bool> stop_writing{false};
  std::atomic<bool> stop{false};
};

// By its number, so that a reader knows what it must look like.
Shape shape_of(std::uint64_t number) {
  switch (number % 5) {
    case 0: return {.bytes = 40, .blocks = {64}};
    case 1: return {.bytes = 3000};
    case 2: return {.bytes = 2500, .blocks = {5000, 128}};
    default: return {.bytes = 16 + number % 700};
  }
}

class TopicStorm : public testing::Test {
 protected:
  void SetUp() override {
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    node_ = must(Node::create());
    stream_ = must(Topic::create(node_->topics(), {.capacity = 8, .when_slow = WhenSlow::kWait}));
    lossy_ = must(Topic::create(node_->topics(), {.capacity = 3}));
    newest_ = must(Topic::create(node_->topics(), {.capacity = 3, .keep = 1}));
    void* memory =
        ::mmap(nullptr, sizeof(Account), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    account_ = new (memory) Account;
  }
  void TearDown() override { ::munmap(account_, sizeof(Account)); }

  void complain(const std::string& what) {
    std::fprintf(stderr, "%s\n", what.c_str());
    ++account_->wrong;
  }

  void write() {
    const std::uint32_t life = ++account_->lives;
    for (std::uint64_t i = 1; !account_->stop_writing && life < kMostWriters; ++i) {
      const std::uint64_t number = (std::uint64_t{life} << 32) | i;
      for (const TopicPtr& topic : {stream_, lossy_, newest_}) {
        const Status put =
            Message(*node_, shape_of(number), number).put(*topic, Deadline::after_ns(10 * kProgressNs));
        if (!put) complain("a writer: " + put.to_string());
      }
      account_->returned[life] = static_cast<std::uint32_t>(i);
      ++account_->puts;
    }
  }

  // Whether something came.
  bool read(topic::Reader& reader, std::map<std::uint64_t, std::uint64_t>& last, bool every) {
    Incoming message;
    const Status got = reader.get(message, Deadline::after_ns(20'000'000));
    if (got.code() == Code::kTimeout) return false;
    if (!got) {
      complain("a reader: " + got.to_string());
      return false;
    }
    std::uint64_t number = 0;
    std::memcpy(&number, message.bytes().data(), sizeof number);
    Findings found;
    (void)read_message(message, shape_of(number), found);
    for (const std::string& line : found.lines()) complain(line);
    const std::uint64_t life = number >> 32;
    const std::uint64_t i = number & 0xffffffff;
    const auto before = last.find(life);
    if (before != last.end() && (every ? i != before->second + 1 : i <= before->second))
      complain("number " + std::to_string(i) + " of life " + std::to_string(life) + " behind " +
               std::to_string(before->second));
    last[life] = i;
    ++account_->gets;
    return true;
  }

  void read_while_alive() {
    std::mt19937 dice(static_cast<unsigned>(::getpid()));
    while (!account_->stop) {
      // Subscribing and leaving are part of it.
      const ReaderPtr all = must(stream_->subscribe(dice() % 2 == 0));
      const ReaderPtr some = must(lossy_->subscribe());
      const ReaderPtr best = newest_->newest();
      std::map<std::uint64_t, std::uint64_t> lasts[3];
      for (int i = 0; i < 200 && !account_->stop; ++i) {
        (void)read(*all, lasts[0], true);
        if (some->behind() != 0) (void)read(*some, lasts[1], false);
        if (best->ready()) (void)read(*best, lasts[2], false);
      }
      if (all->missed() != 0) complain("a reader that is waited for missed something");
    }
  }

  // The one who is never killed: until everything that was put has come.
  void read_everything(const ReaderPtr& reader) {
    std::map<std::uint64_t, std::uint64_t> last;
    for (bool last_look = false; !last_look;) {
      last_look = account_->stop;
      while (read(*reader, last, true)) {
      }
    }
    for (const auto& [life, i] : last) account_->received[life] = static_cast<std::uint32_t>(i);
  }

  template <class Body>
  pid_t start(Body&& body) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    body();
    node_->domain().mark_clean();
    ::_exit(0);
  }
  pid_t start_worker(unsigned role) {
    return start([&] { role < 2 ? write() : read_while_alive(); });
  }

  std::unique_ptr<Node> node_;
  TopicPtr stream_;
  TopicPtr lossy_;
  TopicPtr newest_;
  Account* account_ = nullptr;
};

TEST_F(TopicStorm, EverythingArrivesOnceAndNobodyIsHeldUp) {
  const std::int64_t length = storm_seconds() * kSecond / 3;
  std::mt19937 dice(static_cast<unsigned>(storm_seed(::getpid())));
  const pid_t immortal = start([&] { read_everything(must(stream_->subscribe())); });
  must(stream_->wait_readers(1, Deadline::after_seconds(10)));
  std::array<pid_t, 5> workers{};
  for (unsigned i = 0; i < workers.size(); ++i) workers[i] = start_worker(i);
  Progress puts(account_->puts, kProgressNs, "nobody puts");
  Progress gets(account_->gets, kProgressNs, "nobody gets");
  const std::uint64_t kills = kill_at_random(
      workers, dice, length, 6000, [&](unsigned i) { return start_worker(i); },
      [&] {
        puts.look();
        gets.look();
      });
  ASSERT_FALSE(HasFailure());
  account_->stop_writing = true;
  for (unsigned i = 0; i < 2; ++i) expect_clean_end(workers[i]);
  account_->stop = true;
  for (unsigned i = 2; i < workers.size(); ++i) expect_clean_end(workers[i]);
  expect_clean_end(immortal);
  node_->domain().reap();
  EXPECT_EQ(account_->wrong, 0U);
  for (std::uint32_t life = 1; life <= account_->lives && life < kMostWriters; ++life) {
    EXPECT_GE(account_->received[life], account_->returned[life]) << "of writer " << life;
    EXPECT_LE(account_->received[life], account_->returned[life] + 1) << "of writer " << life;
  }
  EXPECT_EQ(stream_->readers() + lossy_->readers(), 0U);
  for (const std::string& line : node_->audit()) ADD_FAILURE() << line;
  std::printf("%llu kills, %llu rounds of puts, %llu gets\n", static_cast<unsigned long long>(kills),
              static_cast<unsigned long long>(account_->puts.load()),
              static_cast<unsigned long long>(account_->gets.load()));
  stream_.reset();
  lossy_.reset();
  newest_.reset();
  EXPECT_EQ(node_->arena().stats().held_blocks, 0U);
}

}  // namespace
}  // namespace forklift::test
