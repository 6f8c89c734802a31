// Processes that are the ranks of one group, for tests.
//
//   run_ranks(4, [](Group& group) { EXPECT_EQ(group.size(), 4); });     // children; every check in them counts
//
// A rank's exception is a failure, unless the test catches it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "forklift/collectives.h"
#include "support/child.h"

namespace forklift::test {

inline std::vector<Child> start_ranks(const GroupHandle& handle, int size,
                                      const std::function<void(Group&)>& body) {
  std::vector<Child> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        Group group = Group::join(handle, rank);
        body(group);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  return ranks;
}

inline void run_ranks(int size, const std::function<void(Group&)>& body) {
  std::vector<Child> ranks = start_ranks(Group::create(size), size, body);
  for (Child& rank : ranks) EXPECT_EQ(rank.wait(), 0);
}

// Memory outside of the arena.
inline Tensor on_heap(Dims shape, DType dtype) {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) count *= shape[i];
  return Tensor::wrap(Storage::heap(static_cast<std::size_t>(count) * item_size(dtype)), dtype,
                      std::move(shape));
}

}  // namespace forklift::test
