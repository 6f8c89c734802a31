#include "support/gpu_fixture.h"

#include <unistd.h>

#include "support/pool_fixture.h"

namespace forklift::test {

device::cuda::Gpu& GpuFixture::gpu(int ordinal) {
  Result<std::shared_ptr<device::Device>> device = device::open_gpu(ordinal);
  if (!device) throw Error(device.status());
  return *(*device)->gpu();
}

Tensor GpuFixture::on_gpu(const std::vector<float>& values, const std::string& device) {
  Tensor here = Tensor::empty({static_cast<std::int64_t>(values.size())}, DType::kFloat32);
  std::copy(values.begin(), values.end(), here.data<float>());
  return here.to(device);
}

Tensor GpuFixture::filled(std::int64_t count, float value) {
  Tensor here = Tensor::empty({count}, DType::kFloat32);
  here.fill(value);
  return here.to("GPU");
}

std::vector<float> GpuFixture::values(const Tensor& tensor) {
  const Tensor here = tensor.to("CPU");
  const auto all = here.span<const float>();
  return {all.begin(), all.end()};
}

Code GpuFixture::code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::kOk;
}

std::string GpuFixture::text_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// What other processes held comes back when they are reaped.
void GpuFixture::TearDown() {
  if (IsSkipped()) return;
  fake_->poison(0);
  const bool used =
      device::cuda::Driver::existing() != nullptr && !device::cuda::Driver::existing()->is_forked();
  if (used) {
    EXPECT_TRUE(eventually([] {
      node().domain().reap();
      gpu().foreign().collect();
      const auto now = memory();
      return now.used == 0 && now.away == 0;
    })) << "device memory is left: "
        << memory().used << " bytes in use, " << memory().away << " away";
    gpu().foreign().trim();
    gpu().memory().trim();
    EXPECT_EQ(memory().pools, 0U);
  }
  node().domain().reap();
  // Of other processes, which have ended.
  node().memory_pools().let_go(memory_pool::Pools::Idle::kAllButTheLast);
  EXPECT_EQ(node().memory_pools().live_pieces(), 0U);
  EXPECT_EQ(node().memory_pools().live_pools(), 0U);
  EXPECT_EQ(node().audit(), std::vector<std::string>());
}

}  // namespace forklift::test
