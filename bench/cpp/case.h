// A row of the benchmarks is measured on several contenders (ours, peers, floors) in turn. Each contender
// registers itself:
//
//   const Contender ours{"cpp-rtt-64B", "forklift", Role::kOurs, "us", [](const Run& run) { ... }};
//
// main runs A B C A B C ... and prints one line of JSON for each contender:
//   {"row": "cpp-rtt-64B", "contender": "forklift", "role": "ours", "unit": "us", "values": [0.41, ...]}
// The goals are not here but in bench/rows/cpp.py.
#pragma once

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

enum class Role {
  kOurs,
  kPart,  // one layer of ours by itself, to show where the time goes
  kPeer,
  kFloor  // what the machine allows when no crash has to be survived
};

struct Run {
  bool quick = false;
  bool pin = false;  // worker i on processor i, modulo their number

  // How many operations to measure; `full` of them take about half a second.
  std::size_t count(std::size_t full) const { return quick ? (full + 9) / 10 : full; }
};

// Thrown by a measurement whose peer is installed but cannot be used: the row goes on without it.
struct MissingPeer : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One measurement, in the contender's unit: time per operation, so less is better.
using Measure = std::function<double(const Run&)>;

struct Case {
  std::string row;
  std::string contender;
  Role role;
  std::string unit;
  Measure measure;
};

std::vector<Case>& cases();

struct Contender {
  Contender(std::string row, std::string contender, Role role, std::string unit, Measure measure) {
    cases().push_back({std::move(row), std::move(contender), role, std::move(unit), std::move(measure)});
  }
};

}  // namespace bench
