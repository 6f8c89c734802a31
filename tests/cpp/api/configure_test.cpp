// configure(): in programs of their own, since a process makes its domain once.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "forklift/init.h"
#include "forklift/queue.h"
#include "forklift/tensor.h"
#include "node/node.h"
#include "os/huge_pages.h"
#include "support/child.h"

namespace forklift {
namespace {

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

// What the domain was told, and what came of it: a kernel that has huge pages may have none at hand.
bool huge_pages_are(domain::HugePageUse use, bool may_be_there) {
  const Tensor tensor = Tensor::zeros({4 << 20}, DType::kUInt8);
  if (node::Node::existing()->domain().huge_pages() != use) return false;
  return stats().huge_bytes == 0 || (may_be_there && stats().huge_bytes <= std::uint64_t{4} << 20);
}

bool by_advice() { return os::huge_pages_of_shared_memory() == os::HugePages::kOnAdvice; }

int choose_huge_pages() {
  ::setenv("FORKLIFT_HUGE_PAGES", "0", 1);
  configure({.huge_pages = true});
  return huge_pages_are(domain::HugePageUse::kAlways, true) ? 0 : 1;
}

int choose_small_pages() {
  ::setenv("FORKLIFT_HUGE_PAGES", "1", 1);
  configure({.huge_pages = false});
  return huge_pages_are(domain::HugePageUse::kNever, false) ? 0 : 1;
}

int choose_huge_pages_by_environment() {
  ::setenv("FORKLIFT_HUGE_PAGES", "1", 1);
  return huge_pages_are(domain::HugePageUse::kAlways, true) ? 0 : 1;
}

int choose_small_pages_by_environment() {
  ::setenv("FORKLIFT_HUGE_PAGES", "0", 1);
  return huge_pages_are(domain::HugePageUse::kNever, false) ? 0 : 1;
}

int choose_nothing() {
  ::unsetenv("FORKLIFT_HUGE_PAGES");
  return huge_pages_are(domain::HugePageUse::kWhereAdvised, by_advice()) ? 0 : 1;
}

int have_memory_made_ready() {
  try {
    set_budget(std::uint64_t{64} << 20, std::uint64_t{65} << 20);
    return 1;
  } catch (const Error& error) {
    if (error.code() != Code::kInvalid) return 2;
  }
  set_budget(std::uint64_t{64} << 20, std::uint64_t{16} << 20);
  return test::eventually([] { return stats().cached_bytes == std::uint64_t{16} << 20; }) ? 0 : 3;
}

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
                               {"small pages", choose_small_pages},
                               {"huge pages by the environment", choose_huge_pages_by_environment},
                               {"small pages by the environment", choose_small_pages_by_environment},
                               {"memory made ready", have_memory_made_ready},
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
