// What each collective computes: in the arena and outside, small and large, with gaps, of every size of group.
#include "forklift/collectives.h"

#include <gmock/gmock.h>

#include <complex>
#include <numeric>

#include "collective/ranks.h"
#include "support/process_fixture.h"

namespace forklift::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Eq;

// Elements of all sizes of posts: none, one, in the post, one piece, several pieces and an odd rest.
constexpr std::int64_t kCounts[] = {0, 1, 7, 1000, 1025, 70'000, 300'001};
// More than a rank's ring holds.
constexpr std::int64_t kManyWindows = 1'500'001;

float value(int rank, std::int64_t i) { return static_cast<float>((i % 97) * (rank + 1)); }

void fill(const Tensor& tensor, int rank) {
  std::int64_t i = 0;
  for (float& x : tensor.span<float>()) x = value(rank, i++);
}

// The memory of the tensors of a rank.
enum class Where {
  kArena,
  kHeap,
  kGaps
};
Tensor made(Where where, std::int64_t count) {
  if (where == Where::kArena) return Tensor::zeros({count}, DType::kFloat32);
  if (where == Where::kHeap) {
    Tensor tensor = on_heap({count}, DType::kFloat32);
    tensor.fill(0.0F);
    return tensor;
  }
  return Tensor::zeros({count, 2}, DType::kFloat32).select(1, 0);
}
Tensor filled(Where where, std::int64_t count, int rank) {
  Tensor dense = on_heap({count}, DType::kFloat32);
  fill(dense, rank);
  Tensor tensor = made(where, count);
  tensor.copy_from(dense);
  return tensor;
}
std::vector<float> elements(const Tensor& tensor) {
  Tensor dense = on_heap(tensor.shape(), tensor.dtype());
  dense.copy_from(tensor);
  const std::span<float> all = dense.span<float>();
  return {all.begin(), all.end()};
}
std::vector<float> expected(std::int64_t count, const std::function<float(std::int64_t)>& of) {
  std::vector<float> all(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = of(i);
  return all;
}

class Collectives : public ProcessFixture, public testing::WithParamInterface<std::tuple<int, Where>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  Where where() const { return std::get<1>(GetParam()); }
  float sum(std::int64_t i) const {
    float all = 0;
    for (int rank = 0; rank < size(); ++rank) all += value(rank, i);
    return all;
  }
};

TEST_P(Collectives, AllReduce) {
  run_ranks(size(), [&](Group& group) {
    for (const std::int64_t count : kCounts) {
      Tensor x = filled(where(), count, group.rank());
      group.all_reduce(x);
      EXPECT_EQ(elements(x), expected(count, [&](std::int64_t i) { return sum(i); }));
      // The memory is this rank's alone again as soon as the call has returned.
      x.fill(-1.0F);
      group.all_reduce(x, Reduction::kMean);
      EXPECT_THAT(elements(x), Each(-1.0F));
    }
  });
}

TEST_P(Collectives, AllReduceOfManyWindows) {
  run_ranks(size(), [&](Group& group) {
    // Alone, and with ranks whose memory is of another kind.
    const auto another = static_cast<Where>((static_cast<int>(where()) + group.rank()) % 3);
    for (const Where mine : {where(), another}) {
      Tensor x = filled(mine, kManyWindows, group.rank());
      group.all_reduce(x);
      const std::vector<float> all = elements(x);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < kManyWindows; ++i)
        wrong += all[static_cast<std::size_t>(i)] != sum(i) ? 1 : 0;
      EXPECT_EQ(wrong, 0);
    }
  });
}

TEST_P(Collectives, BroadcastAndReduce) {
  run_ranks(size(), [&](Group& group) {
    const int root = group.size() - 1;
    for (const std::int64_t count : kCounts) {
      Tensor x = filled(where(), count, group.rank());
      group.broadcast(x, root);
      EXPECT_EQ(elements(x), expected(count, [&](std::int64_t i) { return value(root, i); }));
      x = filled(where(), count, group.rank());
      group.reduce(x, root, Reduction::kMax);
      const int shown = root;  // the largest at the root; the others keep their own
      EXPECT_EQ(elements(x), expected(count, [&](std::int64_t i) {
                  return value(group.rank() == root ? shown : group.rank(), i);
                }));
    }
  });
}

TEST_P(Collectives, GatherAndScatter) {
  run_ranks(size(), [&](Group& group) {
    for (const std::int64_t count : kCounts) {
      const Tensor x = filled(where(), count, group.rank());
      const std::int64_t whole = count * group.size();
      const auto all = expected(whole, [&](std::int64_t i) {
        return value(static_cast<int>(i / std::max<std::int64_t>(count, 1)),
                     i % std::max<std::int64_t>(count, 1));
      });
      Tensor out = made(where(), whole);
      group.all_gather(x, out);
      EXPECT_EQ(elements(out), all);
      Tensor at_root = group.rank() == 0 ? made(where(), whole) : Tensor();
      group.gather(x, at_root, 0);
      if (group.rank() == 0) {
        EXPECT_EQ(elements(at_root), all);
      }
      Tensor part = made(where(), count);
      group.scatter(group.rank() == 0 ? at_root : Tensor(), part, 0);
      EXPECT_EQ(elements(part), elements(x));
    }
  });
}

TEST_P(Collectives, ReduceScatterAndAllToAll) {
  run_ranks(size(), [&](Group& group) {
    for (const std::int64_t count : kCounts) {
      const std::int64_t whole = count * group.size();
      const Tensor x = filled(where(), whole, group.rank());
      Tensor part = made(where(), count);
      group.reduce_scatter(x, part);
      EXPECT_EQ(elements(part),
                expected(count, [&](std::int64_t i) { return sum(group.rank() * count + i); }));
      const auto turned = expected(whole, [&](std::int64_t i) {
        return value(static_cast<int>(i / std::max<std::int64_t>(count, 1)),
                     group.rank() * count + i % std::max<std::int64_t>(count, 1));
      });
      Tensor out = made(where(), whole);
      group.all_to_all(x, out);
      EXPECT_EQ(elements(out), turned);
      group.all_to_all(x, x);  // in place
      EXPECT_EQ(elements(x), turned);
    }
  });
}

// A rank's part is a view of the whole, at its place: nothing has to be copied aside for that.
TEST_P(Collectives, PartsInTheirPlace) {
  run_ranks(size(), [&](Group& group) {
    const int rank = group.rank();
    for (const std::int64_t count : kCounts) {
      const std::int64_t whole = count * group.size();
      const auto own = [&](const Tensor& x) { return x.narrow(0, rank * count, count); };
      Tensor x = filled(where(), whole, rank);
      group.reduce_scatter(x, own(x));
      EXPECT_EQ(elements(x), expected(whole, [&](std::int64_t i) {
                  return i / std::max<std::int64_t>(count, 1) == rank ? sum(i) : value(rank, i);
                }));
      const auto sums = expected(whole, [&](std::int64_t i) { return sum(i); });
      group.all_gather(own(x), x);
      EXPECT_EQ(elements(x), sums);
      x = filled(where(), whole, rank);
      group.scatter(rank == 0 ? x : Tensor(), own(x), 0);
      EXPECT_EQ(elements(own(x)),
                expected(count, [&](std::int64_t i) { return value(0, rank * count + i); }));
      group.gather(own(x), rank == 0 ? x : Tensor(), 0);
      if (rank == 0) {
        EXPECT_EQ(elements(x), expected(whole, [&](std::int64_t i) { return value(0, i); }));
      }
    }
  });
}

std::string name_of(const testing::TestParamInfo<std::tuple<int, Where>>& info) {
  const std::array<const char*, 3> names = {"Arena", "Heap", "Gaps"};
  return names[static_cast<std::size_t>(std::get<1>(info.param))] + std::to_string(std::get<0>(info.param));
}
INSTANTIATE_TEST_SUITE_P(Groups, Collectives,
                         testing::Combine(testing::Values(1, 2, 3, 5),
                                          testing::Values(Where::kArena, Where::kHeap, Where::kGaps)),
                         name_of);

class CollectiveReductions : public ProcessFixture {};

template <class T>
std::vector<T> reduced(Group& group, std::vector<T> mine, const Reduction& how) {
  Tensor x = on_heap({static_cast<std::int64_t>(mine.size())}, dtype_of<T>());
  std::copy(mine.begin(), mine.end(), x.span<T>().begin());
  group.all_reduce(x, how);
  return {x.span<T>().begin(), x.span<T>().end()};
}

TEST_F(CollectiveReductions, OfEveryKind) {
  run_ranks(3, [](Group& group) {
    const int r = group.rank();
    EXPECT_THAT(reduced<std::int32_t>(group, {r, r + 1}, Reduction::kProduct), ElementsAre(0, 6));
    EXPECT_THAT(reduced<std::int64_t>(group, {r, -r}, Reduction::kMin), ElementsAre(0, -2));
    EXPECT_THAT(reduced<std::uint8_t>(group, {100, 1}, Reduction::kSum), ElementsAre(44, 3));  // wraps around
    EXPECT_THAT(reduced<double>(group, {r * 1.0, 2.0}, Reduction::kMean), ElementsAre(1.0, 2.0));
    const std::complex<float> z(static_cast<float>(r), 1);
    EXPECT_THAT(reduced<std::complex<float>>(group, {z}, Reduction::kMean),
                ElementsAre(std::complex<float>(1, 1)));
    Tensor flags = on_heap({2}, DType::kBool);
    flags.span<bool>()[0] = r != 1;
    flags.span<bool>()[1] = r == 1;
    group.all_reduce(flags, Reduction::kMin);
    EXPECT_THAT(flags.span<bool>(), ElementsAre(false, false));
    flags.span<bool>()[1] = r == 1;
    group.all_reduce(flags, Reduction::kMax);
    EXPECT_THAT(flags.span<bool>(), ElementsAre(false, true));
    Tensor scalar = Tensor::zeros({}, DType::kFloat64);
    scalar.fill(0.5);
    group.all_reduce(scalar);
    EXPECT_EQ(scalar.at<double>({}), 1.5);
  });
}

// 2048 + 1 + 1 is 2050 in float32, and 2048 if each step is rounded to float16.
TEST_F(CollectiveReductions, NarrowFloatsAreRoundedOnce) {
  run_ranks(3, [](Group& group) {
    const float mine = group.rank() == 0 ? 2048.0F : 1.0F;
    for (const std::size_t count : {std::size_t{1}, std::size_t{5000}}) {
      const auto all = reduced<Float16>(group, std::vector<Float16>(count, Float16(mine)), Reduction::kSum);
      EXPECT_EQ(static_cast<float>(all.front()), 2050.0F);
      EXPECT_EQ(static_cast<float>(all.back()), 2050.0F);
    }
    const auto sum = reduced<BFloat16>(group, {BFloat16(0.5F)}, Reduction::kSum);
    EXPECT_EQ(static_cast<float>(sum[0]), 1.5F);
  });
}

// The order is the ranks' at every rank, so sums of floats are equal bit for bit.
TEST_F(CollectiveReductions, SameBitsAtAllRanks) {
  run_ranks(3, [](Group& group) {
    for (const std::int64_t count : {std::int64_t{100}, std::int64_t{100'000}}) {
      Tensor x = Tensor::empty({count}, DType::kFloat32);
      for (std::int64_t i = 0; i < count; ++i)
        x.at<float>({i}) = 1.0F / static_cast<float>(3 + i * 7 % 1009 + 31 * group.rank());
      group.all_reduce(x);
      Tensor all = Tensor::empty({group.size(), count}, DType::kFloat32);
      group.all_gather(x, all);
      for (int rank = 0; rank < group.size(); ++rank) EXPECT_TRUE(all.select(0, rank).same_elements(x));
    }
  });
}

TEST_F(CollectiveReductions, FunctionsAreAppliedInRankOrder) {
  run_ranks(3, [](Group& group) {
    // Not commutative: a b -> 2 a + b.
    const auto join = [](const Tensor& sum, const Tensor& next) {
      EXPECT_TRUE(next.readonly());
      for (std::int64_t i = 0; i < sum.numel(); ++i)
        sum.at<std::int64_t>({i}) = 2 * sum.at<std::int64_t>({i}) + next.at<const std::int64_t>({i});
    };
    for (const std::int64_t count : {std::int64_t{2}, std::int64_t{2000}}) {
      Tensor x = Tensor::empty({count}, DType::kInt64);
      x.fill<std::int64_t>(group.rank() + 1);
      group.all_reduce(x, join);
      EXPECT_THAT(x.span<std::int64_t>(), Each(Eq(2 * (2 * 1 + 2) + 3)));
      x.fill<std::int64_t>(group.rank() + 1);
      group.reduce(x, 1, join);
      EXPECT_THAT(x.span<std::int64_t>(), Each(Eq(group.rank() == 1 ? 11 : group.rank() + 1)));
    }
    // What a function throws is its own rank's, and the group goes on.
    Tensor y = Tensor::zeros({1}, DType::kInt64);
    if (group.rank() == 0) {
      EXPECT_THROW(group.all_reduce(y, [](const Tensor&, const Tensor&) { throw std::range_error("mine"); }),
                   std::range_error);
    } else {
      group.all_reduce(y, join);
    }
    group.barrier();
  });
}

}  // namespace
}  // namespace forklift::test
