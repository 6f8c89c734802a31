// The log sink: where the library's own words go that no call can throw, in place of stderr.
//
//   forklift::set_log_sink([](forklift::Severity severity, std::string_view message) {
//     spdlog::log(level_of(severity), "{}", message);       // "the callback of a pool's task failed: ..."
//   });
//   forklift::set_log_sink(nullptr);                        // stderr again: "forklift: " and the message, one line
//
// What is said there is rare: an exception in a callback of a pool, a child whose exception nobody asked for, a
// destructor that waits long, a forkserver that cannot be used.
//
// For programs there are events, a line of JSON each:
//
//   forklift::log_events_to("run.jsonl");       // appended to; processes that start from now on write there, too
//   {"time": 1764112000.123456, "event": "ended", "pid": 4711, "of": 4712, "name": "loader", "signal": 9}
//
// "started" and "ended" (of a child, by its parent), "reaped" (what a process held that is gone was given back: its pid, its
// name, whether it left in good order), "taken-over" (a lock whose holder died: its label or number), "budget-reached" (bytes
// asked for, in use and allowed). With the domain's number where there is one. The variable FORKLIFT_EVENT_LOG of the
// environment does the same from a process's beginning.
//
// Ownership: the sink is kept until another one is set and the last message to it was said.
// Thread safety: any time, from any thread. The sink is called by the thread that has something to say, several may run at
// once, and one that runs while another sink is set ends undisturbed. An exception of the sink is dropped, and the
// message goes to stderr. Process safety: a forked child has its parent's sink; a fresh process has none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace forklift::inline abi_0_1 {

// How bad it is.
enum class Severity : std::uint8_t {
  kInfo,     // as it should be, and worth knowing
  kWarning,  // something works less well than it could
  kError     // something failed, and no call could say so
};

// What set_log_sink() takes.
using LogSink = std::function<void(Severity severity, std::string_view message)>;

// From now on; an empty one: stderr.
void set_log_sink(LogSink sink);

// From now on; "": no longer. Error: kSystem where the file cannot be opened for appending; the log is as it was then.
void log_events_to(const std::string& path);

}  // namespace forklift::inline abi_0_1
