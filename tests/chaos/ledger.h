// What every worker of a storm says about its messages, kept where no shared memory of ours can spoil it: a
// file to which each process appends records of 32 bytes, one system call each. And the account that is drawn
// up from it.
//
// The account: a message whose put returned arrives exactly once, except at most one in transit for each
// consumer that was killed; nothing arrives twice, changed, unsent or refused; what one producer sent reaches
// one consumer in order.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "os/fd.h"

namespace forklift::test {

enum class Event : std::uint32_t {
  kAbout,    // a put is about to begin
  kPut,      // it returned: done
  kRefused,  // it returned: not done (no room in time)
  kGot,      // a get returned this message, every byte as it should be
  kBad,      // a get returned a message whose contents were wrong
  kError     // a call failed in another way
};

struct Record {
  std::uint64_t message;  // {worker, its count}
  std::uint64_t worker;   // who writes this
  Event event;
  std::uint32_t channel;
  std::uint64_t unused;
};
static_assert(sizeof(Record) == 32);

inline std::uint64_t message_number(std::uint64_t worker, std::uint64_t count) {
  return (worker << 24) | count;
}

class Ledger {
 public:
  Ledger();
  void write(Event event, std::uint32_t channel, std::uint64_t worker, std::uint64_t message) const;
  // Records written since the last call.
  std::vector<Record> read_new();

 private:
  os::Fd file_;
  std::uint64_t read_ = 0;
};

class Account {
 public:
  static constexpr std::size_t kMostChannels = 8;

  void enter(const std::vector<Record>& records);
  void consumer_killed(std::uint32_t channel) { ++killed_consumers_[channel]; }
  std::uint64_t received(std::uint32_t channel) const { return received_[channel]; }
  std::uint64_t sent(std::uint32_t channel) const { return sent_[channel]; }
  // When everybody is gone and all channels are empty.
  std::vector<std::string> close();

 private:
  struct State {
    std::uint8_t about = 0, put = 0, refused = 0, got = 0;
    std::uint8_t channel = 0;
  };
  void find(std::string what);

  std::unordered_map<std::uint64_t, State> messages_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> last_;  // (consumer, producer) -> count
  std::array<std::uint64_t, kMostChannels> received_{};
  std::array<std::uint64_t, kMostChannels> sent_{};
  std::array<std::uint64_t, kMostChannels> killed_consumers_{};
  std::vector<std::string> wrong_;
};

}  // namespace forklift::test
