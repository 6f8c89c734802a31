// Answers at the door of a served domain: takes guests in, checks them, hands slots and descriptors out, and
// hears when one is gone.
//
//   Reception reception(hub, listener);
//   while (!stopped) reception.turn(stop_fd);       // waits until there is something to do
//
// A guest has five seconds for its greeting, and no guest keeps another waiting: nothing here blocks but the
// wait for all of them together. A member's connection stays open; its end means that the member is gone (or
// has left the name), and the dead are reaped at once and shortly afterwards, since a process that ends
// closes one descriptor after the other.
//
// Thread safety: one thread at a time. At rest it uses no CPU.
#pragma once

#include <cstdint>
#include <list>

#include "channel/hub.h"
#include "os/clock.h"
#include "os/fd.h"

namespace forklift::process {

inline constexpr std::int64_t kGreetingNs = 5'000'000'000;

class Reception {
 public:
  Reception(channel::Hub& hub, os::Fd listener) : hub_(hub), listener_(std::move(listener)) {}

  // Waits for whatever happens first, `stop` (readable) included, and sees to it. `longest_ns`: of the wait.
  void turn(int stop, std::int64_t longest_ns = kNever);

  // A member is about to be found dead: now, or within the next tenth of a second.
  void expect_death();

  // Guests and members.
  std::size_t connections() const noexcept { return guests_.size(); }
  void close() noexcept;

  static constexpr std::int64_t kNever = -1;

 private:
  struct Guest {
    os::Fd socket;
    std::int64_t until_ns;  // of the greeting; 0: it is a member
  };
  void admit();
  // False: the connection is over.
  bool hear(Guest& guest);
  bool answer(Guest& guest, std::span<const std::byte> packet);
  std::int64_t wait_ns(std::int64_t longest_ns) const;
  void see_to_time();

  channel::Hub& hub_;
  os::Fd listener_;
  std::list<Guest> guests_;
  std::int64_t crowded_until_ns_ = 0;  // no descriptors left: nobody is admitted before
  std::int64_t reap_at_ns_ = 0;        // 0: nobody is expected to have died
  int reaps_left_ = 0;
};

}  // namespace forklift::process
