// What one who asks "why does it stand still?" is told of a domain.
//
//   Result<std::vector<Diagnosis>> reports = diagnose(pid);     // one for each domain that the process is in
//   puts(reports->front().text().c_str());                    // the first line names the cause
//
// The one who looks takes nothing in the domain and stops nobody, so it works on a program that is stuck, half dead or
// stopped. A snapshot is not one instant: what it finds stuck is looked at a second time, and is reported only where the
// same waits still last.
//
// Thread safety: any.
#pragma once

#include <string>
#include <vector>

#include "inspect/explain.h"

namespace forklift::inline abi_0_1::inspect {

struct ProcessLine {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;   // what it calls itself, else its main thread's name
  std::string state;  // "runs", "sleeps", "is stopped", "was killed by SIGKILL", ...
  bool service = false;
};

struct WaitLine {
  pid_t process = 0;
  pid_t thread = 0;
  std::string who;            // in words
  std::string what;           // in words: "a message in queue 7"
  double seconds = 0;         // how long it has waited
  double seconds_left = 0;    // until its deadline; infinity: it has none
  bool stuck = false;         // nobody is left who could end it
  std::string call_site;      // where in the program, innermost first; empty: unknown
  std::vector<pid_t> enders;  // processes that could end it
};

struct Diagnosis {
  std::uint64_t domain = 0;
  std::vector<Finding> findings;  // the likeliest cause first
  std::vector<WaitLine> waits;    // the longest first
  std::vector<ProcessLine> processes;

  bool is_stuck() const noexcept { return !findings.empty(); }
  std::string text() const;
};

Diagnosis diagnose(const View& view);
// Errors: those of views_of().
Result<std::vector<Diagnosis>> diagnose(pid_t pid);

// Who could end a wait of the calling thread, and what they do, in a sentence: "a message in queue 7 could come from process 12
// (loader), which waits for Lock 3, which process 13 holds". For errors of waits whose time is over.
std::string prospects(const domain::Domain& domain, const Target& target);

}  // namespace forklift::inline abi_0_1::inspect
