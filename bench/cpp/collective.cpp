// cpp-barrier: two processes meet. cpp-all-reduce-1M, -64M: they add their tensors up in place.
#include <array>
#include <atomic>
#include <optional>

#include "cpp/case.h"
#include "cpp/workers.h"
#include "forklift/collectives.h"

namespace bench {
namespace {

using forklift::Group;
using forklift::GroupHandle;
using forklift::Tensor;

// Two processes that wait for each other by spinning, whoever may have died.
class SpinBarrier {
 public:
  void pass(std::size_t side) {
    const std::uint64_t round = sides_[side].round.load(std::memory_order_relaxed) + 1;
    sides_[side].round.store(round, std::memory_order_release);
    SpinPolicy waiting;
    while (sides_[1 - side].round.load(std::memory_order_acquire) < round) waiting.wait();
  }

 private:
  struct alignas(128) Side {
    std::atomic<std::uint64_t> round{0};
  };
  std::array<Side, 2> sides_;
};

// `work(side, group, times)` by both ranks of a group; nanoseconds for one time.
template <class Work>
double by_two_ranks(const Run& run, std::size_t count, const Work& work) {
  const GroupHandle handle = Group::create(2);
  std::array<std::optional<Group>, 2> ranks;
  const auto worker = [&](std::size_t side) {
    return Worker{.warm_up =
                      [&, side] {
                        ranks[side] = Group::join(handle, static_cast<int>(side));
                        work(*ranks[side], count / 10 + 1);
                      },
                  .work = [&, side] { work(*ranks[side], count); }};
  };
  return race({worker(0), worker(1)}, run.pin) / static_cast<double>(count);
}

double barrier_ours(const Run& run) {
  return by_two_ranks(run, run.count(500'000), [](const Group& group, std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) group.barrier();
  });
}

double barrier_floor(const Run& run) {
  const Shared<SpinBarrier> barrier;
  const std::size_t count = run.count(500'000);
  const auto worker = [&](std::size_t side) {
    const auto work = [&barrier, side](std::size_t times) {
      return [&barrier, side, times] {
        for (std::size_t i = 0; i < times; ++i) barrier->pass(side);
      };
    };
    return Worker{.warm_up = work(count / 10 + 1), .work = work(count)};
  };
  return race({worker(0), worker(1)}, run.pin) / static_cast<double>(count);
}

template <std::int64_t Bytes>
double all_reduce(const Run& run) {
  const std::size_t count = run.count(Bytes > 10'000'000 ? 20 : 1'000);
  std::optional<Tensor> mine;  // of each process
  return by_two_ranks(run, count,
                      [&](const Group& group, std::size_t times) {
                        if (!mine) {
                          mine = Tensor::empty({Bytes / 4}, forklift::DType::kFloat32);
                          mine->fill(1.0F);
                        }
                        for (std::size_t i = 0; i < times; ++i) group.all_reduce(*mine);
                      }) /
         1000;
}

const Contender barrier{"cpp-barrier", "forklift", Role::kOurs, "ns", barrier_ours};
const Contender barrier_spin{"cpp-barrier", "bare spin", Role::kFloor, "ns", barrier_floor};
const Contender one{"cpp-all-reduce-1M", "forklift", Role::kOurs, "us", all_reduce<1'048'576>};
const Contender large{"cpp-all-reduce-64M", "forklift", Role::kOurs, "us", all_reduce<67'108'864>};

}  // namespace
}  // namespace bench
