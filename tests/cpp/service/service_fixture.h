// Tests of services: nothing may be left in the domain when one ends: no blocks, calls, servers or names.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "forklift/multiprocessing.h"
#include "forklift/service.h"
#include "node/node.h"
#include "support/child.h"

namespace forklift::test {

class ServiceFixture : public testing::Test {
 protected:
  void SetUp() override {
    blocks_ = held();
    channels_ = node().channels().live();
    calls_ = node().calls().live();
  }
  void TearDown() override {
    for (const Domain::Published& one : domain_.published()) EXPECT_TRUE(domain_.unpublish(one.name));
    EXPECT_TRUE(eventually(
        [&] {
          node().domain().reap();
          return held() == blocks_ && node().calls().live() == calls_ &&
                 node().channels().live() == channels_;
        },
        30'000))
        << held() << " blocks, " << node().calls().live() << " calls, " << node().channels().live()
        << " channels";
    std::string wrong;
    for (const std::string& line : node().audit()) wrong += line + "\n";
    EXPECT_EQ(wrong, "");
  }
  static node::Node& node() { return *node::Node::existing(); }
  static std::uint64_t held() { return node().arena().stats().held_blocks; }

  Domain domain_ = Domain::own();

 private:
  std::uint64_t blocks_ = 0, channels_ = 0, calls_ = 0;
};

}  // namespace forklift::test
