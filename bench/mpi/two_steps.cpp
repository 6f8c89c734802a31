// all_reduce of an MPI job in two steps beside MPI_Allreduce, in turn in one job. bench/rows/mpi.py starts it:
//
//   FORKLIFT_MPI_NODE_RANKS=2 mpirun -n 4 forklift_bench_mpi_group BYTES COUNT ROUNDS
//
// Rank 0 prints a line for each round: the microseconds for one call of ours, and of MPI's, of the slowest rank.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "forklift/mpi/group.h"
#include "forklift/mpi/job.h"

namespace {

using forklift::Tensor;

template <class Call>
double us(forklift::mpi::Group& group, long times, const Call& call) {
  group.barrier();
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < times; ++i) call();
  const std::chrono::duration<double, std::micro> mine = std::chrono::steady_clock::now() - start;
  double longest = mine.count() / static_cast<double>(times);
  group.all_reduce(std::span(&longest, 1), forklift::Reduction::kMax);
  return longest;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s BYTES COUNT ROUNDS\n", argv[0]);
    return 2;
  }
  const long bytes = std::strtol(argv[1], nullptr, 10), times = std::strtol(argv[2], nullptr, 10);
  const long rounds = std::strtol(argv[3], nullptr, 10);
  // MPI's own calls of this program are beside the library's.
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  {
    forklift::mpi::Job job(argc, argv);
    forklift::mpi::Group group(job);
    Tensor x = Tensor::zeros({bytes / 4}, forklift::DType::kFloat32);
    const auto ours = [&] { group.all_reduce(x); };
    const auto theirs = [&] {
      MPI_Allreduce(MPI_IN_PLACE, x.data<float>(), static_cast<int>(x.numel()), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    };
    (void)us(group, times / 4 + 1, ours);
    (void)us(group, times / 4 + 1, theirs);
    for (long round = 0; round < rounds; ++round) {
      const double mine = us(group, times, ours), peer = us(group, times, theirs);
      if (job.is_driver()) std::printf("%.3f %.3f\n", mine, peer);
    }
  }
  MPI_Finalize();
  return 0;
}
