// A tour of the C++ face: queues of structs, strings and tensors, forked and fresh processes, errors.
//
//   ./tour
#include <forklift/multiprocessing.h>

#include <chrono>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using forklift::DType;
using forklift::Process;
using forklift::Queue;
using forklift::Tensor;
using forklift::Value;

struct Measurement {
  int sensor;
  double celsius;
};

// Runs in a fresh process: the line below is all that it needs.
void sum_rows(const Tensor& matrix, int first, int count, Queue<std::vector<double>>& sums) {
  std::vector<double> result;
  for (int row = first; row < first + count; ++row) {
    const auto numbers = matrix.select(0, row).span<const float>();
    result.push_back(std::accumulate(numbers.begin(), numbers.end(), 0.0));
  }
  sums.put(result);
}
static const forklift::Registered<&sum_rows> registered_sum_rows{"sum_rows"};

// A queue of structs. Full means: put() waits.
void structs() {
  Queue<Measurement> measurements({.capacity = 4});
  auto sensor = Process::fork([&] {
                  for (int i = 0; i < 10; ++i) measurements.put({i, 20.0 + 0.1 * i});
                }).start();
  double sum = 0;
  for (int i = 0; i < 10; ++i) sum += measurements.get().celsius;
  sensor.join();
  std::printf("structs:  10 measurements, %.2f degrees on average\n", sum / 10);
}

// Strings and vectors of any length; a get that does not wait for ever.
void strings() {
  Queue<std::string> lines;
  auto writer = Process::fork([&] { lines.put(std::string(3'000'000, 'x')); }).start();
  const std::size_t length = lines.get().size();
  const bool more = lines.try_get(std::chrono::milliseconds(10)).has_value();
  std::printf("strings:  one of %zu bytes, %s\n", length, more ? "and another" : "and no other");
}

// A tensor in the arena is the same memory in every process: only a handle travels.
void tensors() {
  Queue<Tensor> images;
  auto camera = Process::fork([&] {
                  Tensor image = Tensor::zeros({1080, 1920, 3}, DType::kUInt8);
                  image.fill<std::uint8_t>(7);
                  images.put(image);
                  images.put(image.narrow(0, 0, 10));  // a view of it: the same memory again
                }).start();
  const Tensor image = images.get();
  const Tensor strip = images.get();
  camera.join();  // the memory outlives the process that made it
  image.at<std::uint8_t>({5, 100, 1}) = 99;
  std::printf("tensors:  %s, %zu bytes, not one copied; written here, seen in the view: %d\n",
              image.to_string().c_str(), image.nbytes(), strip.at<std::uint8_t>({5, 100, 1}));
}

// Values: what C++ and Python can both read.
void values() {
  Queue<Value> queue;
  queue.put(Value::Map{{"name", "lidar"},
                       {"range", Value::List{0.5, 120}},
                       {"points", Tensor::zeros({64, 3}, DType::kFloat32)}});
  const Value value = queue.get();
  std::printf("values:   %s with %s\n", value.at("name").as<std::string>().c_str(),
              value.at("points").as<Tensor>().to_string().c_str());
}

// Functions in fresh processes: nothing is inherited but what they are given.
void fresh_processes() {
  const Tensor matrix = Tensor::empty({100, 1000}, DType::kFloat32);
  std::iota(matrix.data<float>(), matrix.data<float>() + matrix.numel(), 0.0F);
  Queue<std::vector<double>> sums;
  auto lower = Process::spawn(sum_rows, matrix, 0, 50, sums).start();
  auto upper = Process::spawn(sum_rows, matrix, 50, 50, sums).start();
  double total = 0;
  for (int i = 0; i < 2; ++i) {
    for (const double sum : sums.get()) total += sum;
  }
  lower.join();
  upper.join();
  std::printf("spawn:    two fresh processes summed one matrix: %.0f\n", total);
}

// What a child throws arrives at join(); a child that dies says how.
void errors() {
  auto careless = Process::fork([] { (void)std::vector<int>(3).at(7); });
  careless.set_name("careless").start();
  try {
    careless.join();
  } catch (const forklift::RemoteError& error) {
    std::printf("errors:   %s threw %s\n", error.process().c_str(), error.type().c_str());
  }
  auto sleeper = Process::fork([] { std::this_thread::sleep_for(std::chrono::hours(1)); }).start();
  sleeper.kill();
  sleeper.join();
  std::printf("          a killed child ends with exit code %d\n", *sleeper.exitcode());
}

int main(int argc, char** argv) {
  forklift::init(argc, argv);
  try {
    structs();
    strings();
    tensors();
    values();
    fresh_processes();
    errors();
    for (const std::string& wrong : forklift::audit()) throw std::runtime_error(wrong);
    const forklift::Stats stats = forklift::stats();
    std::printf("left:     %llu blocks, %llu queues, %llu process\n",
                static_cast<unsigned long long>(stats.held_blocks),
                static_cast<unsigned long long>(stats.channels),
                static_cast<unsigned long long>(stats.processes));
    return stats.held_blocks == 0 && stats.channels == 0 && stats.processes == 1 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
