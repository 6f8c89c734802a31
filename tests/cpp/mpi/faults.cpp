// Ranks that die, stop, leave by an exception or come too late: what the others, and the launcher, say and do.
//
//   mpirun -n 4 forklift_mpi_faults MODE
//
// run.cmake knows with which words each mode has to end.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "forklift/mpi/group.h"
#include "forklift/mpi/job.h"

namespace {

using forklift::DType;
using forklift::Tensor;

// Until the end of the job, which comes from outside: ctest has a limit.
[[noreturn]] void wait_for_the_end(const forklift::mpi::Group& group) {
  Tensor x = Tensor::zeros({100'000}, DType::kFloat32);
  while (true) group.all_reduce(x);
}

int run(forklift::mpi::Job& job, const std::string& mode) {
  forklift::mpi::Group group(job);
  const int last = job.size() - 1;
  group.barrier();
  if (mode == "killed" || mode == "stopped") {
    if (job.rank() == last) ::raise(mode == "killed" ? SIGKILL : SIGSTOP);
    wait_for_the_end(group);
  }
  if (mode == "throws") {
    if (job.rank() == last) throw std::runtime_error("this rank has had enough");
    wait_for_the_end(group);
  }
  if (mode == "exits") {
    if (job.rank() == last) std::exit(3);
    wait_for_the_end(group);
  }
  if (mode == "late") {
    if (job.rank() == last) {
      while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    try {
      group.barrier(std::chrono::milliseconds(300));
      std::puts("nobody was missed");
    } catch (const forklift::BrokenGroup& error) {
      std::printf("given up: %s\n", error.what());
    }
    try {
      group.barrier();
    } catch (const forklift::BrokenGroup&) {
      std::puts("and stays so");
    }
    std::fflush(stdout);
    return 0;
  }
  std::fprintf(stderr, "there is no mode %s\n", mode.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    forklift::mpi::Job job(argc, argv);
    return run(job, argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "caught: %s\n", error.what());
    return 1;
  }
}
