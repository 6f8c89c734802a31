// What the same collectives, flows and round trips take through MPI. The benchmarks start it with mpirun, on two ranks:
//
//   forklift_bench_mpi BYTES COUNT              MPI_Allreduce of BYTES of float32, in place; BYTES = 0: MPI_Barrier
//   forklift_bench_mpi BYTES COUNT flow         rank 0 sends messages of BYTES, rank 1 receives them
//   forklift_bench_mpi BYTES COUNT round-trip   a message of BYTES from rank 0 to rank 1 and back
//
// Rank 0 prints the nanoseconds for one call, message or round trip, of the slowest rank.
#include <mpi.h>
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
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

void send(const std::vector<float>& values, int to) {
  MPI_Send(values.data(), static_cast<int>(values.size()), MPI_FLOAT, to, 0, MPI_COMM_WORLD);
}

void receive(std::vector<float>& values, int from) {
  MPI_Recv(values.data(), static_cast<int>(values.size()), MPI_FLOAT, from, 0, MPI_COMM_WORLD,
           MPI_STATUS_IGNORE);
}

void flow(std::vector<float>& values, int rank, long times) {
  for (long i = 0; i < times; ++i) {
    if (rank == 0) {
      send(values, 1);
    } else {
      receive(values, 0);
    }
  }
}

void round_trip(std::vector<float>& values, int rank, long times) {
  for (long i = 0; i < times; ++i) {
    if (rank == 0) {
      send(values, 1);
      receive(values, 1);
    } else {
      receive(values, 0);
      send(values, 0);
    }
  }
}

// Two ranks that begin on one processor may stay there for a whole measurement, each polling until its slice ends.
// Ours begin on a processor each, too (cpp/workers.cpp), and neither is bound to it.
void begin_apart(int rank) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int place = rank % CPU_COUNT(&allowed);
  for (unsigned processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed) || place-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    ::sched_setaffinity(0, sizeof allowed, &allowed);
    return;
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view mode = count == 4 ? arguments[3] : "";
  if (count != 3 && mode != "flow" && mode != "round-trip") {
    std::fprintf(stderr, "usage: %s BYTES COUNT [flow | round-trip]\n", arguments[0]);
    return 2;
  }
  const long bytes = std::strtol(arguments[1], nullptr, 10);
  const long times = std::strtol(arguments[2], nullptr, 10);
  MPI_Init(&count, &arguments);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  begin_apart(rank);
  std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float), 1.0F);
  const auto run = [&](long number) {
    if (mode == "flow") {
      flow(values, rank, number);
    } else if (mode == "round-trip") {
      round_trip(values, rank, number);
    } else {
      call(values, number);
    }
  };
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
