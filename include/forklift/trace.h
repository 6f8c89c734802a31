// Ranges and counters of the program in its trace, beside what the library itself records there.
//
//   void step(const Batch& batch) {
//     const forklift::trace::Range range("step");          // from here to the end of the block
//     forklift::trace::counter("loss", train(batch));
//   }
//
//   python -m forklift trace --attach 4711 --seconds 10 -o out.pftrace      # of a running program
//   FORKLIFT_TRACE=1 ./program                                              # records from its beginning on
//
// A trace is made by a tool, from outside: see docs/tracing.md. While nobody records, a range costs two loads and a branch,
// and a counter likewise; otherwise some 100 ns.
//
// Names are kept in shared memory for as long as the domain lives: at most 4,095 different ones, of which 56 bytes
// count. Beyond that a range's name is "?". Names are for kinds of work; what differs each time is no name.
//
// Ownership: a range belongs to the block in which it stands. Thread safety: a range is its thread's. Process safety: a
// process without a domain (it has shared nothing yet) records nothing. Errors: none; what cannot be recorded is left out.
#pragma once

#include <cstdint>
#include <string_view>

namespace forklift::inline abi_0_1::trace {

// From its construction to its destruction.
class [[nodiscard]] Range {
 public:
  // Begins now, if somebody records.
  explicit Range(std::string_view name) noexcept;
  ~Range() {
    if (began_ != 0) end();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  void end() const noexcept;
  std::int64_t began_ = 0;
  std::uint32_t name_ = 0;
};

// The value that something has from now on: a curve over time.
void counter(std::string_view name, double value) noexcept;

// Is what the program does recorded now? For what is costly to find out.
bool is_on() noexcept;

}  // namespace forklift::inline abi_0_1::trace
