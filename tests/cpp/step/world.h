// The world in which an operation is killed: a domain, a channel, numbered messages whose every byte is
// known, and the questions that are asked after each death.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "step/kill_everywhere.h"
#include "support/numbered_message.h"

namespace forklift::test {

class World {
 public:
  // `address_space`: the limit under which the domain is made, 0 for none.
  explicit World(std::uint64_t address_space = 0);

  Node& node() const noexcept { return *node_; }
  // What is there now is what shall be there again.
  void mark();
  // Reaps, then compares with the mark and audits.
  void expect_marked(Findings& found);
  // Survivors make new blocks, share them, pass them through a channel of their own, and all ends within
  // half a second.
  void expect_goes_on(Findings& found);

 private:
  struct Counts {
    std::uint64_t leases, held_blocks, channels, topics, locks, records, slots, calls;
  };
  Counts count();
  std::unique_ptr<Node> node_;
  Counts marked_{};
};

// An operation on a channel that is made anew for each kill.
class ChannelOperation : public Operation {
 public:
  explicit ChannelOperation(ChannelOptions options = {}, Shape shape = {})
      : options_(options), shape_(std::move(shape)) {}

  void prepare() override;
  void check(const Death& death, Findings& found) override;

 protected:
  static constexpr std::uint64_t kChildsNumber = 1'000'000;
  // Parent: what the channel holds before.
  virtual void fill() {}
  // Which messages may be there afterwards, given what was there (`before_`, oldest first).
  virtual void check_numbers(const Death& death, const std::vector<std::uint64_t>& there,
                             Findings& found) = 0;
  void put(const Shape& shape, std::uint64_t number);
  void put(std::uint64_t number) { put(shape_, number); }
  std::uint64_t get();

  World world_;
  ChannelOptions options_;
  Shape shape_;
  ChannelPtr channel_;
  std::vector<std::uint64_t> before_;
  bool seen_done_ = false;    // in some run the operation had an effect,
  bool seen_undone_ = false;  // in some other it had none

 private:
  void check_capacity(std::size_t there, Findings& found);
};

std::string numbers_text(const std::vector<std::uint64_t>& numbers);

}  // namespace forklift::test
