// What the public classes send gets its memory at its reader: bytes, values, tensors, loans, through queues and pipes.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "forklift/multiprocessing.h"
#include "node/node.h"
#include "support/child.h"
#include "support/memory_nodes.h"

namespace forklift {
namespace {

using test::Child;
using test::Gate;
using Numbers = std::vector<std::uint8_t>;

constexpr std::size_t kBytes = std::size_t{300} << 10;

// The reader runs on one processor and this process on another, which lie on two nodes by a folder's files.
class PageNodesApi : public testing::Test {
 protected:
  void SetUp() override {
    cpus_ = test::two_cpus();
    if (!cpus_) GTEST_SKIP() << "this test needs two processors";
    (void)Lock();
    const test::NodeFolder folder({std::to_string(cpus_->first), std::to_string(cpus_->second)});
    arena().page_nodes().use(os::MemoryNodes::of_machine(folder.path()),
                             std::make_unique<test::LoggedPageNodes>(log_));
    (void)arena().trim(0);
    std::iota(numbers_.begin(), numbers_.end(), std::uint8_t{3});
  }
  void TearDown() override {
    if (!cpus_) return;
    arena().page_nodes().use(os::MemoryNodes::of_machine(), std::make_unique<arena::PageNodeCalls>());
    domain::Domain& domain = node::Node::existing()->domain();
    EXPECT_TRUE(test::eventually([&] { return domain.reap(), domain.live_slots() == 1; }));
  }
  static arena::Arena& arena() { return node::Node::existing()->arena(); }

  // `put` and `get` are a message's two sides. The first tells where the reader runs, the second is placed there.
  void expect_placed(const std::function<void()>& put, const std::function<void()>& get) {
    Gate took;
    Child reader([&] {
      const test::Pinned pinned(cpus_->second);
      get();
      took.open();
      get();
    });
    const test::Pinned pinned(cpus_->first);
    put();
    ASSERT_TRUE(took.wait());
    EXPECT_TRUE(log_->asked.empty());
    (void)arena().trim(0);
    put();
    EXPECT_EQ(reader.wait(), 0);
    ASSERT_EQ(log_->asked.size(), 2U);
    EXPECT_EQ(log_->asked[0].node, 1);
    EXPECT_GE(log_->asked[0].bytes, kBytes);
    EXPECT_EQ(log_->asked[1].node, os::kAnyNode);
    EXPECT_EQ(log_->asked[1].offset, log_->asked[0].offset);
  }
  Tensor tensor() { return Tensor::wrap(Storage::borrow(numbers_.data(), kBytes), DType::kUInt8, {kBytes}); }
  bool same(const Tensor& got) const {
    return got.nbytes() == kBytes && std::equal(numbers_.begin(), numbers_.end(), got.data<std::uint8_t>());
  }

  std::optional<std::pair<int, int>> cpus_;
  std::shared_ptr<test::PageNodeLog> log_ = std::make_shared<test::PageNodeLog>();
  Numbers numbers_ = Numbers(kBytes);
};

TEST_F(PageNodesApi, OfBytes) {
  Queue<Numbers> queue;
  expect_placed([&] { queue.put(numbers_); }, [&] { EXPECT_EQ(queue.get(), numbers_); });
}

TEST_F(PageNodesApi, OfTensors) {
  Queue<Tensor> queue;
  expect_placed([&] { queue.put(tensor()); }, [&] { EXPECT_TRUE(same(queue.get())); });
}

TEST_F(PageNodesApi, OfValues) {
  Queue<Value> queue;
  expect_placed([&] { queue.put(Value(Value::List{1, tensor()})); },
                [&] { EXPECT_TRUE(same(queue.get().as<Value::List>().at(1).as<Tensor>())); });
}

TEST_F(PageNodesApi, ThroughPipes) {
  auto [left, right] = make_pipe<Numbers, Numbers>();
  expect_placed([&, &out = left] { out.put(numbers_); }, [&, &in = right] { EXPECT_EQ(in.get(), numbers_); });
}

TEST_F(PageNodesApi, OfLoans) {
  struct Frame {
    std::uint8_t bytes[kBytes];
  };
  Queue<Frame> queue;
  expect_placed(
      [&] {
        auto frame = queue.loan();
        std::copy(numbers_.begin(), numbers_.end(), frame->bytes);
        frame.publish();
      },
      [&] { EXPECT_TRUE(std::equal(numbers_.begin(), numbers_.end(), queue.get_loaned()->bytes)); });
}

}  // namespace
}  // namespace forklift
