// Records what the threads of a running program do, from outside or in the program itself.
//
//   Result<std::vector<View>> views = views_of(pid, Access::kWrite);
//   Result<Recorder> recorder = Recorder::start(views->front(), trace::kEverything);
//   while (...) recorder->collect();           // more often than a ring fills: every 20 ms or so
//   Recording recording = recorder->stop();
//
// The threads write into rings of their own; collect() copies what is new. Of a ring that was overwritten before it was
// copied, the recording says how many events are lost. When the recorder is killed, tracing ends by itself after
// kGraceNs. A program may end meanwhile, or be killed: what its threads wrote last is still there.
//
// Ownership: a recorder keeps the segment's memory. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "inspect/recording.h"
#include "inspect/view.h"

namespace forklift::inline abi_0_1::inspect {

class Recorder {
 public:
  // How long threads go on writing when nobody collects any more.
  static constexpr std::int64_t kGraceNs = 5'000'000'000;

  // Switches the categories on. kRefused: somebody else records this domain. kInvalid: the view is for reading only.
  // `most`: so many events are kept; what comes later is counted as lost.
  static Result<Recorder> start(View view, std::uint64_t categories, std::uint64_t most = UINT64_MAX);
  Recorder(Recorder&& other) noexcept;
  Recorder& operator=(Recorder&&) = delete;
  // Switches tracing off, if stop() has not.
  ~Recorder();

  void collect();
  // Switches tracing off, collects a last time, and gives the rings' memory back.
  Recording stop();
  std::uint64_t events() const noexcept { return count_; }
  std::uint64_t domain() const noexcept { return recording_.domain; }

 private:
  struct Ring {
    std::uint64_t next = 0;
    std::size_t thread = kNone;  // in recording_.threads
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  Recorder(View view, std::uint64_t most);
  void switch_off() noexcept;
  void collect_ring(std::size_t number);
  std::string name_of(std::uint64_t number) const;
  std::size_t owner_of(std::size_t number);
  void add(Ring& ring, const trace::Event& event);
  void keep(RecordedThread& thread, const trace::Event& event);
  std::size_t thread_of(pid_t pid, pid_t thread, std::uint64_t owner);
  void note(const trace::Event& event);
  void note_life(pid_t writer, const trace::Event& event);
  std::string queue_text(std::uint32_t row) const;
  void note_place(const trace::Event& event);
  void note_processes();
  void add_lasting_waits();
  RecordedProcess& process(pid_t pid);

  View view_;
  std::uint64_t most_;
  std::uint64_t count_ = 0;
  bool on_ = false;
  std::vector<Ring> rings_;
  std::vector<trace::Event> fresh_;
  std::map<std::pair<std::uint64_t, pid_t>, std::size_t>
      by_owner_;                         // {owner's word, pid}: in recording_.threads
  std::map<pid_t, std::size_t> by_pid_;  // in recording_.processes
  std::int64_t named_ns_ = 0;
  Recording recording_;
};

}  // namespace forklift::inline abi_0_1::inspect
