// cpp-ops-tiny: an addition of one number to another, each in a tensor, and the tensor of the result made and freed.
// cpp-ops-tiny-out: into a tensor that is there. The peer is what such an addition costs in a library that has neither
// dtypes nor shapes at run time: Eigen's arrays, whose memory comes from malloc.
#include <Eigen/Core>
#include <chrono>

#include "cpp/case.h"
#include "forklift/multiprocessing.h"
#include "forklift/ops.h"

namespace bench {
namespace {

using forklift::DType;
using forklift::Tensor;

// Nanoseconds of a call.
template <class Operation>
double each_ns(const Run& run, Operation operation) {
  const std::size_t count = run.count(500'000);
  for (std::size_t i = 0; i < 1000; ++i) operation();
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < count; ++i) operation();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  return took.count() / static_cast<double>(count);
}

// Keeps the compiler from leaving out what nobody looks at.
void look_at(const void* data) { asm volatile("" : : "g"(data) : "memory"); }

const Contender tiny_ours{"cpp-ops-tiny", "forklift", Role::kOurs, "ns", [](const Run& run) {
                            const Tensor x = Tensor::zeros({1}, DType::kFloat32);
                            const Tensor y = Tensor::zeros({1}, DType::kFloat32);
                            return each_ns(run, [&] {
                              const Tensor sum = forklift::ops::add(x, y);
                              look_at(&sum);
                            });
                          }};
const Contender tiny_peer{"cpp-ops-tiny", "Eigen", Role::kPeer, "ns", [](const Run& run) {
                            const Eigen::ArrayXf x = Eigen::ArrayXf::Zero(1);
                            const Eigen::ArrayXf y = Eigen::ArrayXf::Zero(1);
                            return each_ns(run, [&] {
                              const Eigen::ArrayXf sum = x + y;
                              look_at(sum.data());
                            });
                          }};

const Contender out_ours{"cpp-ops-tiny-out", "forklift", Role::kOurs, "ns", [](const Run& run) {
                           const Tensor x = Tensor::zeros({1}, DType::kFloat32);
                           const Tensor y = Tensor::zeros({1}, DType::kFloat32);
                           const Tensor out = Tensor::zeros({1}, DType::kFloat32);
                           look_at(out.data<float>());
                           return each_ns(run, [&] {
                             forklift::ops::add(x, y, out);
                             look_at(out.data<float>());
                           });
                         }};

}  // namespace
}  // namespace bench
