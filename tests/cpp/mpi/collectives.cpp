// forklift::mpi::Group beside results that are computed serially. Every rank of the job runs all of this
// (tests/cpp/mpi/register.cmake starts it with mpirun, in several layouts of nodes).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "forklift/mpi/group.h"
#include "forklift/mpi/job.h"

namespace {

using forklift::DType;
using forklift::Reduction;
using forklift::Tensor;
using forklift::mpi::Group;

Group* group = nullptr;  // NOLINT: one for the process
int me() { return group->rank(); }
int ranks() { return group->size(); }

// Around the borders of shares, pieces and of what is small.
const std::vector<std::int64_t> kCounts = {1, 2, 3, 5, 7, 64, 1000, 4097, 8191, 100'003, 1'500'001};

// What element `i` of rank `rank` is: whole numbers, so that sums and products are exact in any order.
double element(int rank, std::int64_t i) { return static_cast<double>((i * 7 + rank * 3) % 11 - 4); }

template <class T>
Tensor tensor_of(int rank, std::int64_t count) {
  Tensor x = Tensor::empty({count}, forklift::dtype_of<T>());
  for (std::int64_t i = 0; i < count; ++i) x.data<T>()[i] = static_cast<T>(element(rank, i));
  return x;
}

double combined(Reduction::Kind how, int of, std::int64_t i) {
  double result = element(0, i);
  for (int rank = 1; rank < of; ++rank) {
    const double next = element(rank, i);
    switch (how) {
      case Reduction::kProduct: result *= next; break;
      case Reduction::kMin: result = std::min(result, next); break;
      case Reduction::kMax: result = std::max(result, next); break;
      default: result += next;
    }
  }
  return how == Reduction::kMean ? result / of : result;
}

template <class T>
void expect_combined(const Tensor& x, Reduction::Kind how, std::int64_t first = 0) {
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double wanted = combined(how, ranks(), first + i);
    const auto found = static_cast<double>(x.data<T>()[i]);
    ASSERT_NEAR(found, wanted, how == Reduction::kMean ? 1e-5 : 0) << x.to_string() << " at " << i;
  }
}

TEST(MpiCollectives, AllReduce) {
  for (const std::int64_t count : kCounts) {
    for (const auto how :
         {Reduction::kSum, Reduction::kProduct, Reduction::kMin, Reduction::kMax, Reduction::kMean}) {
      Tensor x = tensor_of<double>(me(), count);
      group->all_reduce(x, how);
      expect_combined<double>(x, how);
    }
    Tensor x = tensor_of<float>(me(), count);
    group->all_reduce(x);
    expect_combined<float>(x, Reduction::kSum);
    Tensor n = tensor_of<std::int32_t>(me(), count);
    group->all_reduce(n, Reduction::kMax);
    expect_combined<std::int32_t>(n, Reduction::kMax);
  }
}

TEST(MpiCollectives, AllReduceOfHalves) {
  Tensor x = Tensor::empty({100'001}, DType::kFloat16);
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.data<forklift::Float16>()[i] = forklift::Float16(static_cast<float>(element(me(), i)));
  group->all_reduce(x);
  for (std::int64_t i = 0; i < x.numel(); ++i)
    ASSERT_EQ(static_cast<float>(x.data<forklift::Float16>()[i]), combined(Reduction::kSum, ranks(), i));
}

TEST(MpiCollectives, AllRanksGetTheSameBits) {
  std::mt19937 random(static_cast<unsigned>(me()) + 1);
  std::uniform_real_distribution<float> values(-1, 1);
  for (const std::int64_t count : {std::int64_t{500}, std::int64_t{300'007}}) {
    Tensor x = Tensor::empty({count}, DType::kFloat32);
    for (float& each : x.span<float>()) each = values(random);
    group->all_reduce(x);
    Tensor all = Tensor::empty({ranks(), count}, DType::kFloat32);
    group->all_gather(x, all);
    for (int rank = 0; rank < ranks(); ++rank) ASSERT_TRUE(all.select(0, rank).same_elements(x)) << rank;
  }
}

TEST(MpiCollectives, TensorsWithGapsAndMemoryOfTheHeap) {
  Tensor whole = Tensor::zeros({300, 200}, DType::kFloat64);
  Tensor x = whole.transpose(0, 1).narrow(0, 0, 100);  // every other element stays zero
  for (std::int64_t i = 0; i < 100; ++i)
    for (std::int64_t j = 0; j < 300; ++j) x.at<double>({i, j}) = element(me(), i * 300 + j);
  group->all_reduce(x);
  for (std::int64_t i = 0; i < 100; ++i)
    for (std::int64_t j = 0; j < 300; ++j)
      ASSERT_EQ(x.at<double>({i, j}), combined(Reduction::kSum, ranks(), i * 300 + j));
  for (std::int64_t i = 0; i < 300; ++i)
    for (std::int64_t j = 100; j < 200; ++j) ASSERT_EQ(whole.at<double>({i, j}), 0);

  std::vector<std::int64_t> numbers(12'345);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<std::int64_t>(element(me(), static_cast<std::int64_t>(i)));
  group->all_reduce(std::span(numbers));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    ASSERT_EQ(static_cast<double>(numbers[i]),
              combined(Reduction::kSum, ranks(), static_cast<std::int64_t>(i)));
}

TEST(MpiCollectives, AFunctionOfTheProgram) {
  const auto subtract = [](const Tensor& accumulated, const Tensor& next) {
    for (std::int64_t i = 0; i < accumulated.numel(); ++i)
      accumulated.data<double>()[i] += 2 * next.data<const double>()[i];
  };
  Tensor x = Tensor::empty({1001}, DType::kFloat64);
  x.fill(1.0);
  group->all_reduce(x, subtract);
  // On each node 1 + 2 (n - 1), and then the first node's and twice each other one's.
  double wanted = 0;
  for (std::size_t node = 0; node < group->nodes().size(); ++node)
    wanted += (node == 0 ? 1 : 2) * (2.0 * static_cast<double>(group->nodes()[node].ranks.size()) - 1);
  for (const double each : x.span<double>()) ASSERT_EQ(each, wanted);
}

TEST(MpiCollectives, AFunctionThatThrows) {
  Tensor x = tensor_of<double>(me(), 1001);
  const auto throws = [](const Tensor&, const Tensor&) { throw std::domain_error("not these"); };
  if (ranks() > 1) {
    EXPECT_THROW(group->all_reduce(x, throws), std::domain_error);
  }
  // At one rank alone.
  const auto one_throws = [](const Tensor&, const Tensor&) {
    if (me() == 0) throw std::domain_error("not at rank 0");
  };
  try {
    group->all_reduce(x, one_throws);
    EXPECT_TRUE(me() != 0 || ranks() == 1);
  } catch (const std::domain_error&) {
    EXPECT_EQ(me(), 0);
  }
  group->barrier();
}

TEST(MpiCollectives, Broadcast) {
  for (const std::int64_t count : kCounts) {
    for (int root = 0; root < ranks(); ++root) {
      Tensor x = tensor_of<float>(me(), count);
      group->broadcast(x, root);
      ASSERT_TRUE(x.same_elements(tensor_of<float>(root, count))) << count << " from " << root;
    }
  }
}

TEST(MpiCollectives, Reduce) {
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{4097}, std::int64_t{100'003}}) {
    for (int root = 0; root < ranks(); ++root) {
      Tensor x = tensor_of<double>(me(), count);
      group->reduce(x, root, Reduction::kSum);
      if (me() == root) {
        expect_combined<double>(x, Reduction::kSum);
      } else {
        ASSERT_TRUE(x.same_elements(tensor_of<double>(me(), count))) << "another rank's tensor was changed";
      }
    }
  }
}

TEST(MpiCollectives, GatherAndScatter) {
  for (const std::int64_t count :
       {std::int64_t{1}, std::int64_t{5}, std::int64_t{4097}, std::int64_t{100'003}}) {
    for (int root = 0; root < ranks(); ++root) {
      Tensor all = me() == root ? Tensor::empty({ranks(), count}, DType::kFloat32) : Tensor();
      group->gather(tensor_of<float>(me(), count), all, root);
      for (int rank = 0; me() == root && rank < ranks(); ++rank)
        ASSERT_TRUE(all.select(0, rank).same_elements(tensor_of<float>(rank, count)));
      Tensor mine = Tensor::zeros({count}, DType::kFloat32);
      group->scatter(all, mine, root);
      ASSERT_TRUE(mine.same_elements(tensor_of<float>(me(), count))) << count << " from " << root;
    }
  }
}

TEST(MpiCollectives, AllGatherReduceScatterAllToAll) {
  for (const std::int64_t count :
       {std::int64_t{1}, std::int64_t{7}, std::int64_t{4097}, std::int64_t{50'001}}) {
    Tensor all = Tensor::empty({ranks(), count}, DType::kInt64);
    group->all_gather(tensor_of<std::int64_t>(me(), count), all);
    for (int rank = 0; rank < ranks(); ++rank)
      ASSERT_TRUE(all.select(0, rank).same_elements(tensor_of<std::int64_t>(rank, count)));

    Tensor part = Tensor::empty({count}, DType::kFloat64);
    group->reduce_scatter(tensor_of<double>(me(), count * ranks()), part);
    expect_combined<double>(part, Reduction::kSum, me() * count);

    Tensor x = Tensor::empty({ranks(), count}, DType::kInt32),
           out = Tensor::zeros({ranks(), count}, DType::kInt32);
    for (int to = 0; to < ranks(); ++to) x.select(0, to).fill(std::int32_t{1000} * me() + to);
    group->all_to_all(x, out);
    for (int from = 0; from < ranks(); ++from)
      for (const std::int32_t each : out.select(0, from).span<std::int32_t>())
        ASSERT_EQ(each, 1000 * from + me());
  }
}

TEST(MpiCollectives, DifferentCallsAreAnErrorAndTheGroupGoesOn) {
  if (ranks() == 1) GTEST_SKIP() << "there is one rank";
  Tensor x = tensor_of<float>(me(), 100'000);
  const Tensor before = tensor_of<float>(me(), 100'000);
  const int last = ranks() - 1;
  EXPECT_THROW(
      { me() == last ? group->all_reduce(x, Reduction::kMax) : group->all_reduce(x, Reduction::kSum); },
      forklift::CollectiveMismatch);
  EXPECT_THROW({ me() == last ? group->barrier() : group->broadcast(x, 0); }, forklift::CollectiveMismatch);
  EXPECT_TRUE(x.same_elements(before));
  // One rank's arguments are refused.
  try {
    group->all_reduce(me() == last ? x.as_readonly() : x);
    ADD_FAILURE() << "a read-only tensor was written to";
  } catch (const forklift::CollectiveMismatch&) {
    EXPECT_NE(me(), last);
  } catch (const forklift::Error& error) {
    EXPECT_EQ(me(), last);
    EXPECT_EQ(error.code(), forklift::Code::kInvalid);
    EXPECT_NE(std::string(error.what()).find("read-only"), std::string::npos) << error.what();
  }
  EXPECT_THROW(group->broadcast(x, ranks()), forklift::Error);
  EXPECT_TRUE(x.same_elements(before));
  group->all_reduce(x);
  expect_combined<float>(x, Reduction::kSum);
}

TEST(MpiCollectives, NothingToDo) {
  Tensor none = Tensor::empty({0}, DType::kFloat32);
  group->all_reduce(none);
  group->broadcast(none, ranks() - 1);
  group->all_gather(none, none);
  group->barrier();
}

// A call that is over before the others come breaks the group: so of a group of its own, in a test of its own
// (faults.cpp). One that is not over does not.
TEST(MpiCollectives, WithATimeThatIsEnough) {
  Tensor x = tensor_of<float>(me(), 5000);
  group->all_reduce(x, Reduction::kSum, std::chrono::minutes(1));
  expect_combined<float>(x, Reduction::kSum);
}

TEST(MpiCollectives, LargerThanTheScratchOfTheArena) {
  std::vector<float> large(20'000'001, 1.0F);  // 80 MB of the heap
  group->all_reduce(std::span(large));
  for (const float each : large) ASSERT_EQ(each, static_cast<float>(ranks()));
}

TEST(MpiJob, TheNodesAreWhatTheLauncherStarted) {
  int sum = 0;
  for (const forklift::mpi::Node& node : group->nodes()) {
    sum += static_cast<int>(node.ranks.size());
    EXPECT_GT(node.workers, 0);
    EXPECT_FALSE(node.host.empty());
    EXPECT_NE(std::find(node.ranks.begin(), node.ranks.end(), node.agent), node.ranks.end());
  }
  EXPECT_EQ(sum, ranks());
  if (const char* wanted = std::getenv("FORKLIFT_TEST_MPI_NODES")) {
    EXPECT_EQ(std::to_string(group->nodes().size()), wanted);
  }
  EXPECT_EQ(std::getenv("OMPI_COMM_WORLD_RANK"), nullptr) << "children would take themselves for ranks";
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  forklift::mpi::Job job(argc, argv);
  if (job.size() > 1 && !job.is_driver()) {
    // The driver's words are enough, but for failures, which end the job.
    delete testing::UnitTest::GetInstance()->listeners().Release(
        testing::UnitTest::GetInstance()->listeners().default_result_printer());
  }
  int failed = 0;
  {
    Group first(job), second(job);  // both at once
    for (Group* each : {&first, &second}) {
      group = each;
      failed += RUN_ALL_TESTS();
      if (each == &first) testing::GTEST_FLAG(filter) = "*AllReduce:*Gather*";
    }
    // Of all ranks, so that one's failure is seen whatever the launcher does with exit codes.
    std::vector<int> failures{failed};
    second.all_reduce(std::span(failures));
    if (failures[0] != 0 && failed != 0)
      std::fprintf(stderr, "rank %d: %d test runs FAILED\n", job.rank(), failed);
    failed = failures[0];
  }
  return failed != 0 ? 1 : 0;
}
