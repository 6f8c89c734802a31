// forklift_bench [--list] [--rows a,b] [--contenders c,d] [--repeat N] [--quick] [--pin]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "cpp/case.h"
#include "forklift/init.h"

namespace bench {

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

namespace {

const char* name_of(Role role) {
  switch (role) {
    case Role::kOurs: return "ours";
    case Role::kPart: return "part";
    case Role::kPeer: return "peer";
    case Role::kFloor: return "floor";
  }
  return "?";
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

std::vector<std::string> row_names() {
  std::vector<std::string> names;
  for (const Case& one : cases())
    if (std::find(names.begin(), names.end(), one.row) == names.end()) names.push_back(one.row);
  std::sort(names.begin(), names.end());
  return names;
}

// `only`: the names of the contenders to measure; empty: all.
void measure_row(const std::string& row, const std::vector<std::string>& only, int repeat, const Run& run) {
  std::vector<const Case*> contenders;
  for (const Case& one : cases()) {
    const bool wanted = only.empty() || std::find(only.begin(), only.end(), one.contender) != only.end();
    if (one.row == row && wanted) contenders.push_back(&one);
  }
  std::vector<std::vector<double>> values(contenders.size());
  std::vector<bool> missing(contenders.size(), false);
  for (int round = 0; round < repeat; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      if (missing[i]) continue;
      try {
        values[i].push_back(contenders[i]->measure(run));
      } catch (const MissingPeer& why) {
        missing[i] = true;
        std::fprintf(stderr, "%s: left out: %s: %s\n", row.c_str(), contenders[i]->contender.c_str(),
                     why.what());
      }
    }
  }
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (values[i].empty()) continue;
    const Case& one = *contenders[i];
    std::printf(R"({"row": "%s", "contender": "%s", "role": "%s", "unit": "%s", "values": [)",
                one.row.c_str(), one.contender.c_str(), name_of(one.role), one.unit.c_str());
    for (std::size_t k = 0; k < values[i].size(); ++k)
      std::printf("%s%.6g", k == 0 ? "" : ", ", values[i][k]);
    std::printf("]}\n");
  }
  std::fflush(stdout);
}

int usage(const char* program) {
  std::fprintf(stderr, "usage: %s [--list] [--rows a,b] [--contenders c,d] [--repeat N] [--quick] [--pin]\n",
               program);
  return 2;
}

int run_main(int argc, char** argv) {
  Run run;
  int repeat = 5;
  std::vector<std::string> rows = row_names();
  std::vector<std::string> contenders;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--quick") {
      run.quick = true;
    } else if (argument == "--pin") {
      run.pin = true;
    } else if (argument == "--list") {
      for (const std::string& row : rows) std::printf("%s\n", row.c_str());
      return 0;
    } else if (argument == "--rows" && i + 1 < argc) {
      rows = split(argv[++i]);
    } else if (argument == "--contenders" && i + 1 < argc) {
      contenders = split(argv[++i]);
    } else if (argument == "--repeat" && i + 1 < argc) {
      repeat = std::atoi(argv[++i]);
    } else {
      return usage(argv[0]);
    }
  }
  const std::vector<std::string> known = row_names();
  for (const std::string& row : rows) {
    if (std::find(known.begin(), known.end(), row) == known.end()) {
      std::fprintf(stderr, "%s: no row is called %s\n", argv[0], row.c_str());
      return 2;
    }
    measure_row(row, contenders, std::max(repeat, 1), run);
  }
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--nothing") return 0;  // the floor of cpp-start-spawn
  forklift::init(argc, argv);
  return bench::run_main(argc, argv);
}
