// first: a child process that computes, a queue that brings the result.
#include <forklift/multiprocessing.h>

#include <cstdio>

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  forklift::Queue<double> results;
  auto worker = forklift::Process::fork([&] {
                  double sum = 0;
                  for (int i = 1; i <= 1'000'000; ++i) sum += 1.0 / i;
                  results.put(sum);
                }).start();
  std::printf("the sum is %.3f\n", results.get());
  worker.join();
}
