// For tests of a process that is in several domains: a program that serves one.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "forklift/multiprocessing.h"
#include "node/node.h"
#include "process/zygote.h"
#include "support/child.h"
#include "support/runtime_dir.h"

namespace forklift::test {

using Numbers = Queue<int>;
using Images = Queue<Tensor>;
constexpr auto kLong = std::chrono::seconds(30);

// What an Error says; empty: there was none.
inline std::string words_of(Code code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "";
}

inline std::uint64_t processes_in(const Domain& domain) {
  return domain.in([] { return stats().processes; });
}

// A program of its own: {name, gate that it opens when it is ready}. It serves the name and does what the queue "orders"
// says: 0: end; 1: write 7 into the tensor of "images"; 2: take the lock "held" and end without giving it back.
inline int be_a_server(const std::vector<std::string>& arguments) {
  try {
    Domain domain = Domain::serve(arguments.at(0));
    auto orders = domain.open_or_create<Numbers>("orders");
    auto images = domain.open_or_create<Images>("images");
    auto answers = domain.open_or_create<Numbers>("answers");
    auto held = domain.open_or_create<Lock>("held");
    const std::uint64_t one = 1;
    (void)!::write(std::stoi(arguments.at(1)), &one, sizeof one);
    for (;;) {
      const int order = orders.get();
      if (order == 0) return 0;
      if (order == 2) return held.lock(), 0;
      Tensor image = images.get();
      image.data<float>()[0] = 7;
      answers.put(static_cast<int>(image.numel()));
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
inline const bool kServer = add_helper("serves a domain", be_a_server);

class SeveralDomains : public testing::Test {
 protected:
  Child serve(const std::string& name) {
    EXPECT_TRUE(kServer);
    const int gate = gate_.fd().get();
    Child child = test::start_helper("serves a domain", {name, std::to_string(gate)}, std::array{gate});
    EXPECT_TRUE(gate_.wait());
    return child;
  }
  // So that whatever is served or attached to is beside it.
  static void make_a_home() { EXPECT_TRUE(node::Node::home().ok()); }
  // What ended processes held is given back when somebody looks.
  void TearDown() override {
    process::stop_zygote();
    EXPECT_TRUE(eventually([] {
      node::Node::reap_all();
      bool alone = true;
      node::Node::for_each([&](node::Node& node) { alone = alone && node.domain().live_slots() == 1; });
      return alone;
    }));
    node::Node::for_each([](node::Node& node) { EXPECT_THAT(node.audit(), testing::IsEmpty()); });
  }
  void end(Child& server, const Domain& domain) {
    domain.open<Numbers>("orders").put(0);
    EXPECT_EQ(server.wait(), 0);
    clear(domain);
  }
  // Names keep objects; the leak check looks for these.
  static void clear(Domain domain) {
    for (const Domain::Published& one : domain.published()) EXPECT_TRUE(domain.unpublish(one.name));
  }

  RuntimeDir directory_;
  Gate gate_;
};

}  // namespace forklift::test
