// Tests of tensors on a GPU, the fake driver's, between processes. The processes are forked before any of them uses the
// driver, as CUDA wants it.
//
//   TEST_F(GpuTensors, Travel) {
//     Queue<Tensor> queue;
//     Child child = start([&] { queue.put(on_gpu({1, 2})); });
//     EXPECT_EQ(values(*queue.get()), ...);
//
// They run on a real driver as well (support/fake_cuda.h), but for those that need what only the fake one does.
//
// After each test no tensor's memory is left: no range in use or away, no pool without its owner, no broker.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "device/cuda/gpu.h"
#include "forklift/error.h"
#include "forklift/queue.h"
#include "forklift/tensor.h"
#include "node/node.h"
#include "support/child.h"
#include "support/fake_cuda.h"
#include "support/status_check.h"

namespace forklift::test {

class GpuFixture : public testing::Test {
 protected:
  // Environment variables of the fake driver, "NAME=value".
  void load(const std::vector<std::string>& environment = {}) {
    fake_ = std::make_unique<FakeCuda>(FakeCuda::load(environment));
  }
  void SetUp() override {
    load();
    ASSERT_TRUE(node::Node::current().ok());  // before the children, who are to be members
  }
  void TearDown() override;

  static node::Node& node() { return **node::Node::current(); }
  const FakeCuda& fake() const { return *fake_; }
  // This process's; opened at the first use.
  static device::cuda::Gpu& gpu(int ordinal = 0);
  static Tensor on_gpu(const std::vector<float>& values, const std::string& device = "GPU");
  // A tensor of this size, each element `value`.
  static Tensor filled(std::int64_t count, float value);
  static std::vector<float> values(const Tensor& tensor);
  static device::cuda::DeviceMemory::Stats memory() { return gpu().memory().stats(); }
  static Code code_of(const std::function<void()>& action);
  static std::string text_of(const std::function<void()>& action);

 private:
  std::unique_ptr<FakeCuda> fake_;
};

}  // namespace forklift::test
