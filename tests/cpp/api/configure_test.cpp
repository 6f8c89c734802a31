// configure(): in programs of their own, since a process makes its domain once.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "forklift/init.h"
#include "forklift/queue.h"
#include "forklift/tensor.h"
#include "node/node.h"
#include "support/child.h"

namespace forklift {
namespace {

// The flags of the mapping at an address (/proc/self/smaps).
std::string flags_at(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) inside = wanted >= begin && wanted < end;
    if (inside && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

// Each is a program; 0: as it should be.
int make_a_small_reservation() {
  configure({.reservation_bytes = std::uint64_t{3} << 30});
  const Queue<int> queue;
  return node::Node::existing()->domain().data_bytes() == std::uint64_t{2} << 30 ? 0 : 1;
}

int set_a_budget() {
  configure({.budget_bytes = std::uint64_t{64} << 20});
  if (stats().budget_bytes != std::uint64_t{64} << 20) return 1;
  try {
    (void)Tensor::empty({128 << 20}, DType::kUInt8);
  } catch (const Error& error) {
    return error.code() == Code::kOverBudget ? 0 : 2;
  }
  return 3;
}

bool huge_pages_are_asked_for() {
  const Tensor tensor = Tensor::zeros({4 << 20}, DType::kUInt8);
  return flags_at(tensor.raw()).find(" hg ") != std::string::npos;
}

int choose_huge_pages() {
  configure({.huge_pages = true});
  return huge_pages_are_asked_for() ? 0 : 1;
}

int choose_huge_pages_by_environment() {
  ::setenv("FORKLIFT_HUGE_PAGES", "1", 1);
  return huge_pages_are_asked_for() ? 0 : 1;
}

int choose_nothing() { return huge_pages_are_asked_for() ? 1 : 0; }

int come_late() {
  const Queue<int> queue;
  try {
    configure({});
  } catch (const Error& error) {
    return error.code() == Code::kInvalid ? 0 : 2;
  }
  return 1;
}

struct Named {
  const char* name;
  int (*run)();
};
constexpr Named kPrograms[] = {{"a small reservation", make_a_small_reservation},
                               {"a budget", set_a_budget},
                               {"huge pages", choose_huge_pages},
                               {"huge pages by the environment", choose_huge_pages_by_environment},
                               {"nothing", choose_nothing},
                               {"late", come_late}};

const bool kHelper = test::add_helper("configure", [](const std::vector<std::string>& arguments) {
  for (const Named& program : kPrograms)
    if (arguments.at(0) == program.name) return program.run();
  return 99;
});

TEST(Configure, HoldsForTheDomainThatIsMadeNext) {
  ASSERT_TRUE(kHelper);
  for (const Named& program : kPrograms)
    EXPECT_EQ(test::start_helper("configure", {program.name}).wait(), 0) << program.name;
}

}  // namespace
}  // namespace forklift
