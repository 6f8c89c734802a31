// The training of sgd.cpp: linear regression by stochastic gradient descent, of which each part sees some rows of every
// batch; and what the alternatives are called.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

inline constexpr std::size_t kFeatures = 64;
inline constexpr std::size_t kRows = 32'768;
inline constexpr std::size_t kBatch = 4096;

// Rows of features, and what is to be predicted of each: a sum of the features with noise.
struct Data {
  std::span<const double> x, y;
};

inline void make_data(std::span<double> x, std::span<double> y) {
  std::mt19937_64 random(1);
  const auto uniform = [&random] { return static_cast<double>(random() >> 11) * 0x1p-52 - 1; };
  for (double& each : x) each = uniform();
  for (std::size_t row = 0; row < y.size(); ++row) {
    y[row] = 0.1 * uniform();
    for (std::size_t i = 0; i < kFeatures; ++i) y[row] += x[row * kFeatures + i] * static_cast<double>(i % 5);
  }
}

struct Training {
  double loss = 0;     // of the last batch
  double seconds = 0;  // that the steps took
};

// Part `part` of `parts` trains on its share of each batch. `sums` has place for the gradient and the loss, and
// combine() makes them the sums over all parts.
template <class Combine>
Training train_part(const Data& data, std::int64_t steps, std::size_t part, std::size_t parts,
                    std::span<double> sums, Combine combine) {
  std::vector<double> weights(kFeatures, 0.0);
  const std::span<double> gradient = sums.first(kFeatures);
  double& loss = sums[kFeatures];
  std::ranges::fill(sums, 0.0);
  combine();  // all begin together
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t step = 0; step < steps; ++step) {
    std::ranges::fill(sums, 0.0);
    const std::size_t batch = static_cast<std::size_t>(step) * kBatch % kRows;
    for (std::size_t row = batch + kBatch * part / parts; row < batch + kBatch * (part + 1) / parts; ++row) {
      const double* x = &data.x[row * kFeatures];
      double error = -data.y[row];
      for (std::size_t i = 0; i < kFeatures; ++i) error += weights[i] * x[i];
      for (std::size_t i = 0; i < kFeatures; ++i) gradient[i] += error * x[i];
      loss += error * error;
    }
    combine();
    for (std::size_t i = 0; i < kFeatures; ++i) weights[i] -= 0.5 / kBatch * gradient[i];
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return {.loss = loss / kBatch, .seconds = time.count()};
}

// sgd_alternative.cpp
Training in_one_thread(const Data& data, std::int64_t steps);
Training with_threads(const Data& data, std::int64_t steps, std::size_t threads);  // a mutex and a barrier
