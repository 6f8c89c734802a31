// A rank is killed after every instruction of an all_reduce. The other one gets the sum or learns of the death, and
// from then on it is told of it.
#include <unistd.h>

#include <atomic>
#include <thread>

#include "collective/communicator.h"
#include "collective/shared_memory.h"
#include "step/world.h"
#include "tensor/arena_storage.h"
#include "tensor/operations.h"
#include "tensor/storage.h"

namespace forklift::test {
namespace {

using collective::Communicator;
using collective::Header;
using collective::kPieceBytes;
using collective::Op;
using collective::Request;
using collective::SharedMemory;

constexpr std::int64_t kLongestNs = 30'000'000'000;

class AllReduce : public Operation {
 public:
  // `piece`: Exchange::piece. `in_arena`: otherwise the elements pass through the ranks' rings.
  AllReduce(std::int64_t count, std::size_t piece, bool in_arena)
      : count_(count), piece_(piece), in_arena_(in_arena) {
    world_.mark();
  }

  void prepare() override {
    block_ = must(SharedMemory::create(arena(), 2));
    rank_ = std::make_unique<Communicator>(must(SharedMemory::join(block_, 0)), piece_);
    survivors_ = made(1.0F);
    victims_ = made(2.0F);
  }
  void enter() override {
    rank_.release();  // NOLINT(bugprone-unused-return-value): the parent's
    rank_ = std::make_unique<Communicator>(must(SharedMemory::join(block_, 1)), piece_);
  }
  // The survivor is inside before the other one takes its first step.
  void ready() override {
    ended_ = false;
    thread_ = std::thread([this] {
      status_ = rank_->run(request(survivors_), {os::Deadline::after_ns(kLongestNs)});
      ended_ = true;
    });
    const auto& cells = *reinterpret_cast<collective::Cell*>(block_->data() + sizeof(Header));
    while (cells.posts[1].sequence.load(std::memory_order_acquire) != 1) std::this_thread::yield();
  }
  void act() override { must(rank_->run(request(victims_), {os::Deadline::after_ns(kLongestNs)})); }

  void check(const Death& death, Findings& found) override {
    while (!ended_) {  // as the end of a slice does, but at once
      world_.node().domain().reap();
      rank_->transport().wake();
      std::this_thread::yield();
    }
    thread_.join();
    if (death.returned && !status_) found.add("both ranks had come: " + status_.to_string());
    if (!status_ && status_.code() != Code::kPeerDied)
      found.add("not told of a death: " + status_.to_string());
    if (status_) {
      for (const float x : survivors_.span<float>())
        if (x != 3.0F) return found.add("a sum is wrong: " + std::to_string(x));
    }
    (status_ ? seen_done_ : seen_undone_) = true;
    const Status again = rank_->run({}, {os::Deadline::after_ns(kLongestNs)});
    if (again.code() != Code::kPeerDied) found.add("a barrier without the dead rank: " + again.to_string());
    rank_.reset();
    block_.reset();
    survivors_ = victims_ = Tensor();
    world_.expect_marked(found);
    world_.expect_goes_on(found);
  }
  bool seen_both() const { return seen_done_ && seen_undone_; }

 private:
  arena::Arena& arena() { return world_.node().arena(); }
  Tensor made(float value) {
    const auto bytes = static_cast<std::size_t>(count_) * sizeof(float);
    auto storage = in_arena_ ? tensor::arena_storage(arena(), bytes) : tensor::heap_storage(bytes);
    Tensor tensor = must(tensor::wrap(must(std::move(storage)), DType::kFloat32, {count_}));
    tensor.fill(value);
    return tensor;
  }
  static Request request(const Tensor& x) {
    return {.operation = collective::Operation::kAllReduce, .in = x, .out = x, .op = Op::kSum};
  }

  World world_;
  const std::int64_t count_;
  const std::size_t piece_;
  const bool in_arena_;
  arena::LeasePtr block_;
  std::unique_ptr<Communicator> rank_;
  Tensor survivors_, victims_;
  std::thread thread_;
  std::atomic<bool> ended_{false};
  Status status_;
  bool seen_done_ = false;
  bool seen_undone_ = false;
};

void kill_rank(const char* name, AllReduce&& operation, std::size_t points) {
  EXPECT_TRUE(survives_every_kill(name, operation, {.most_points = points}));
  EXPECT_TRUE(operation.seen_both()) << "it should have ended well in some runs and not in others";
}

TEST(CollectiveStep, SmallAllReduce) {
  kill_rank("all_reduce of a small tensor", AllReduce(16, kPieceBytes, true), 100);
}
TEST(CollectiveStep, LargeAllReduce) {
  kill_rank("all_reduce in the arena", AllReduce(2000, 1024, true), 100);
}
// Each byte of the ring is used three times.
TEST(CollectiveStep, AllReduceThroughRings) {
  kill_rank("all_reduce of private memory", AllReduce(3000, 512, false), 200);
}

}  // namespace
}  // namespace forklift::test
