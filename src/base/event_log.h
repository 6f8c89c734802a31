// Events of life and death as lines of JSON, for programs that read logs: processes that start and end, what the reaper
// gave back, locks that were taken over, a budget that was reached. Off unless forklift/log.h's log_events_to() or the
// variable FORKLIFT_EVENT_LOG of the environment names a file.
//
//   if (event_log_on()) EventLine("ended")("of", pid)("name", name)("exit_code", code).write();
//
// Each line is one write(2) to a file that is open for appending, so lines of several processes do not mix.
//
// Thread safety: any thread, and with locks of the program's held, but with none of the library's: a write may take long.
// Not between fork and exec in a child. Process safety: a forked child goes on with its parent's file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "forklift/status.h"

namespace forklift::inline abi_0_1 {

inline constexpr const char* kEventLogVariable = "FORKLIFT_EVENT_LOG";

// Costs a load once it is known.
bool event_log_on() noexcept;
// The file's path; empty: off.
std::string event_log_path();
// kSystem: it cannot be opened for appending. Then the log is as it was.
Status open_event_log(const std::string& path);

class EventLine {
 public:
  // Begins with the time (seconds since 1970), the event and this process's pid.
  explicit EventLine(std::string_view event);
  EventLine& operator()(std::string_view key, std::string_view value);
  EventLine& operator()(std::string_view key, const char* value) {
    return (*this)(key, std::string_view(value));
  }
  EventLine& operator()(std::string_view key, std::int64_t value);
  EventLine& operator()(std::string_view key, bool value);
  // What cannot be written is lost.
  void write() noexcept;

 private:
  EventLine& raw(std::string_view key, std::string_view value);
  std::string text_;
};

}  // namespace forklift::inline abi_0_1
