// collectives: ranks that compute the mean of their gradients in place, and what happens when they disagree.
#include <forklift/multiprocessing.h>

#include <cstdio>

void train(int rank, forklift::Queue<double>& results) {
  const forklift::Group group = forklift::Group::world();  // the ranks of this spawn()

  auto gradient = forklift::Tensor::zeros({1000, 100}, forklift::DType::kFloat32);
  gradient.fill(static_cast<float>(rank));
  group.all_reduce(gradient, forklift::Reduction::kMean);  // in place, the same bits at all ranks

  // While a helper thread gathers what each rank has, this one computes.
  auto loss = forklift::Tensor::zeros({1}, forklift::DType::kFloat64);
  loss.fill(1.0 / (rank + 1));
  auto losses = forklift::Tensor::zeros({group.size()}, forklift::DType::kFloat64);
  const forklift::CollectiveFuture gathered = group.all_gather_async(loss, losses);
  const float mean = gradient.at<float>({999, 99});
  gathered.wait();

  try {
    // Ranks that call different things are told what each of them has called, and go on.
    rank == 0 ? group.barrier() : group.broadcast(gradient, 0);
  } catch (const forklift::CollectiveMismatch& error) {
    if (rank == 0) std::printf("%s\n", error.what());
  }
  group.barrier();
  if (rank == 0) {
    results.put(mean);
    results.put(losses.at<double>({1}));
  }
}
static const forklift::Registered<&train> registered_train{"train"};

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  forklift::Queue<double> results;
  forklift::spawn(train, 3, results);
  std::printf("the mean gradient is %.1f\n", results.get());
  std::printf("rank 1's loss is %.1f\n", results.get());
}
