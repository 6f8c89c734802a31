// Records what a thread does in a ring of its own in shared memory, for those who look from outside.
//
//   const std::int64_t began = tracer.begin(Category::kMessages);     // 0: not traced
//   ... put ...
//   tracer.span(EventKind::kPut, began, row_and_sequence(row, sequence), bytes);
//
// One word, which all processes of the domain share, says which categories are traced. Where one is not, an event costs
// two loads and a branch. A ring keeps a thread's last events, overwrites the oldest, and outlives the thread.
//
// Who switches tracing on for a while says until when (Header::trace_until), so that a tool that is killed leaves nothing
// switched on for long.
//
// Thread and process safety: any thread of an attached process; a kill at any instruction costs at most the event that was
// being written. A signal handler that traces may garble the event that it interrupts.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "os/clock.h"
#include "trace/event.h"
#include "trace/tables.h"

namespace forklift::inline abi_0_1::trace {

// Off in builds that measure what tracing costs.
#ifdef FORKLIFT_NO_TRACING
inline constexpr bool kCompiledIn = false;
#else
inline constexpr bool kCompiledIn = true;
#endif

class Tracer {
 public:
  struct Switch {
    Word categories;  // bits of Category
    Word until;       // CLOCK_MONOTONIC, ns: from then on only kByDefault; 0: for good
  };

  Tracer() = default;
  // `self`: {1, slot:31, generation:32} of this process, 0 where it has no slot (domain::Domain::self_word).
  void open(std::span<std::byte> region, Switch& on_off, const Word& self) noexcept;

  bool on(Category category) const noexcept {
    return kCompiledIn && (switch_->categories.load(std::memory_order_relaxed) & bit(category)) != 0;
  }
  // The time, if the category is traced, and 0 if not.
  std::int64_t begin(Category category) const noexcept {
    if (!on(category)) [[likely]]
      return 0;
    return os::now_ns();
  }
  // Ends what began(): nothing if that returned 0.
  void span(EventKind kind, std::int64_t began, std::uint64_t object, std::uint64_t value) noexcept {
    if (kCompiledIn && began != 0) [[unlikely]]
      write(kind, began, os::now_ns(), object, value);
  }
  void moment(Category category, EventKind kind, std::uint64_t object, std::uint64_t value) noexcept {
    if (!on(category)) [[likely]]
      return;
    const std::int64_t now = os::now_ns();
    write(kind, now, now, object, value);
  }
  void write(EventKind kind, std::int64_t began, std::int64_t ended, std::uint64_t object,
             std::uint64_t value) noexcept;

  // kStarted, where kLife is traced. While nobody records, it is written in front of this process's first event: most
  // forked children have none, and would pay for a ring.
  void begin_process(std::uint64_t pid, std::uint64_t parent) noexcept;

  // The number of a name, at most 56 bytes of it; 0, which is no name's, if the table is full.
  std::uint32_t name(std::string_view name) noexcept;

  void switch_on(std::uint64_t categories, std::int64_t until_ns) noexcept;
  void switch_off() noexcept { switch_on(kByDefault, 0); }
  std::uint64_t categories() const noexcept { return switch_->categories.load(std::memory_order_relaxed); }

  // The rings of a process that is gone may have other owners. For the reaper.
  void forget(std::uint32_t slot, std::uint32_t generation) const noexcept;

 private:
  struct OwnRing;
  bool find_ring(OwnRing& own, std::uint64_t self) noexcept;

  std::uint64_t id_ = 0;  // of this process; no two tracers have the same
  Region region_;
  Switch* switch_ = nullptr;
  const Word* self_ = nullptr;
  // The start that is yet to be written.
  std::atomic<std::int64_t> began_{0};
  std::uint64_t pid_ = 0;
  std::uint64_t parent_ = 0;
};

// Of the thread `owner` (of a kThread event), in pid_and_thread: {pid:32, thread:32}.
constexpr std::uint64_t pid_and_thread(std::uint32_t pid, std::uint32_t thread) noexcept {
  return std::uint64_t{pid} << 32 | thread;
}

// A ring's events from number `from` on, as far as they are still there: into `events`. Returns the number behind the last;
// `lost` grows by how many of them were overwritten. For readers in other processes; the region may be read-only.
std::uint64_t read_ring(const Region& region, std::uint64_t ring, std::uint64_t from,
                        std::vector<Event>& events, std::uint64_t& lost);

std::string name_in(const NameRow& row);
// All names, by their numbers; the first is empty.
std::vector<std::string> read_names(const Region& region);

}  // namespace forklift::inline abi_0_1::trace
