// groups: n processes that stop together, and the error of the one that failed.
#include <forklift/multiprocessing.h>

#include <cstdio>
#include <stdexcept>

void train(int rank, const forklift::Tensor& weights, bool fail) {
  if (fail && rank == 2) throw std::runtime_error("diverged");
  if (fail) forklift::Event().wait();  // would wait for ever: it is stopped
  weights.at<double>({rank}) = rank;
}
static const forklift::Registered<&train> registered_train{"train"};

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  const auto weights = forklift::Tensor::zeros({4}, forklift::DType::kFloat64);
  forklift::spawn(train, 4, weights, false);
  std::printf("rank 3 wrote %.0f\n", weights.at<double>({3}));

  try {
    forklift::spawn({.context = forklift::forkserver_context()}, train, 4, weights, true);
    return 1;
  } catch (const forklift::ProcessRaisedError& error) {
    std::printf("rank %d: %s\n", error.rank(), error.message().c_str());
  }
}
