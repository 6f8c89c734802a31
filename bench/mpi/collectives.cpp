// What the same collectives and flows take through MPI. The benchmarks start it with mpirun, on two ranks:
//
//   forklift_bench_mpi BYTES COUNT        MPI_Allreduce of BYTES of float32, in place; BYTES = 0: MPI_Barrier
//   forklift_bench_mpi BYTES COUNT flow   rank 0 sends messages of BYTES, rank 1 receives them
//
// Rank 0 prints the nanoseconds for one call or message, of the slowest rank.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

void call(std::vector<float>& values, long times) {
  for (long i = 0; i < times; ++i) {
    if (values.empty()) {
      MPI_Barrier(MPI_COMM_WORLD);
    } else {
      MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    }
  }
}

void flow(std::vector<float>& values, int rank, long times) {
  const int count = static_cast<int>(values.size());
  for (long i = 0; i < times; ++i) {
    if (rank == 0) {
      MPI_Send(values.data(), count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
    } else {
      MPI_Recv(values.data(), count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  const bool flows = count == 4 && std::strcmp(arguments[3], "flow") == 0;
  if (count != 3 && !flows) {
    std::fprintf(stderr, "usage: %s BYTES COUNT [flow]\n", arguments[0]);
    return 2;
  }
  const long bytes = std::strtol(arguments[1], nullptr, 10);
  const long times = std::strtol(arguments[2], nullptr, 10);
  MPI_Init(&count, &arguments);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float), 1.0F);
  const auto run = [&](long number) { flows ? flow(values, rank, number) : call(values, number); };
  run(times / 10 + 1);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  run(times);
  const double mine = MPI_Wtime() - start;
  double longest = 0;
  MPI_Reduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%.3f\n", longest * 1e9 / static_cast<double>(times));
  MPI_Finalize();
  return 0;
}
