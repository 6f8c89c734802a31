// pool: workers that call functions, results in order, as they come, or as futures.
#include <forklift/multiprocessing.h>
#include <forklift/pool.h>

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <utility>
#include <vector>

double integrate(double from, double to) {
  double sum = 0;
  const double step = (to - from) / 100'000;
  for (double x = from; x < to; x += step) sum += std::exp(-x * x) * step;
  return sum;
}
static const forklift::Registered<&integrate> registered_integrate{"integrate"};

int half(int number) {
  if (number % 2 != 0) throw std::domain_error("odd");
  return number / 2;
}
static const forklift::Registered<&half> registered_half{"half"};

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  forklift::Pool pool({.workers = 2});
  std::vector<std::pair<double, double>> parts;
  for (double from = -3; from < 3; from += 0.5) parts.emplace_back(from, from + 0.5);
  double sum = 0;
  for (const double part : pool.starmap(integrate, parts)) sum += part;
  std::printf("the integral is %.3f\n", sum);

  auto later = pool.submit(half, 8);
  std::printf("half of 8 is %d\n", later.get());
  try {
    (void)pool.apply(half, 7);
    return 1;
  } catch (const forklift::RemoteError& error) {
    std::printf("half of 7: %s\n", error.message().c_str());
  }
}
