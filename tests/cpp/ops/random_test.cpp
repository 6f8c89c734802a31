// Random numbers from C++: the published vectors, ranges, and streams.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "forklift/error.h"
#include "forklift/random.h"
#include "forklift/runtime.h"
#include "kernels/philox.h"

namespace forklift {
namespace {

using ops::random::Generator;

TEST(Philox, GivesThePublishedBlocks) {  // Random123's kat_vectors
  using kernels::PhiloxBlock;
  EXPECT_EQ(kernels::philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(kernels::philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(kernels::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, DependsOnTheSeedAlone) {
  Generator one(42);
  Generator other(42);
  const Tensor all = one.uniform({100'000});
  const Tensor first = other.uniform({40'000});
  const Tensor rest = other.uniform({60'000});
  EXPECT_TRUE(all.narrow(0, 0, 40'000).same_elements(first));
  EXPECT_TRUE(all.narrow(0, 40'000, 60'000).same_elements(rest));
  EXPECT_EQ(one.state(), other.state());
  EXPECT_FALSE(Generator(43).uniform({10}).same_elements(Generator(42).uniform({10})));
  Generator copy(one.state());
  EXPECT_TRUE(copy.normal({10}).same_elements(one.normal({10})));
}

TEST(Random, RangesAndPermutations) {
  Generator random(1);
  const Tensor dice = random.integers({1000}, 1, 7, DType::kInt8);
  for (const std::int8_t each : dice.span<std::int8_t>()) ASSERT_TRUE(each >= 1 && each < 7);
  const Tensor order = random.permutation(1000);
  std::vector<std::int64_t> places(order.span<std::int64_t>().begin(), order.span<std::int64_t>().end());
  EXPECT_FALSE(std::is_sorted(places.begin(), places.end()));
  std::sort(places.begin(), places.end());
  for (std::size_t i = 0; i < places.size(); ++i) ASSERT_EQ(places[i], static_cast<std::int64_t>(i));
  random.shuffle(order);
  EXPECT_THROW(random.shuffle(order.as_readonly()), Error);
  EXPECT_THROW(random.integers({1}, 3, 3), Error);
  EXPECT_THROW(random.uniform({1}, 0, 1, DType::kInt8), Error);
}

TEST(Random, ChildrenHaveStreamsOfTheirOwn) {
  Generator random(9);
  std::vector<Generator> children = random.spawn(3);
  EXPECT_FALSE(children[0].uniform({8}).same_elements(children[1].uniform({8})));
  EXPECT_FALSE(random.spawn(1)[0].state() == Generator(9).spawn(1)[0].state());
  EXPECT_TRUE(Generator(9).spawn(3)[2].state() == Generator(9).spawn(3)[2].state());
}

}  // namespace
}  // namespace forklift
