// Driver over the fake driver: loading, what is missing, forks, faults and poison in its words.
#include "device/cuda/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "device/cuda_fixture.h"
#include "support/child.h"

namespace forklift::test {
namespace {

using cuda::Driver;
using testing::AllOf;
using testing::HasSubstr;

TEST(CudaDriverTest, NothingIsLoadedBeforeItIsNeeded) {
  FakeCuda::set_environment();
  EXPECT_TRUE(Driver::is_there());
  EXPECT_EQ(Driver::existing(), nullptr);
  const Result<Driver*> driver = Driver::get();
  ASSERT_TRUE(driver.ok()) << driver.status().to_string();
  EXPECT_EQ(Driver::existing(), *driver);
  if (!tests_real_cuda()) {
    EXPECT_EQ((*driver)->version(), 13000);
  }
  const Result<Driver*> again = Driver::get();
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *driver);
}

TEST(CudaDriverTest, WithoutALibraryItSaysWhich) {
  ::setenv("FORKLIFT_LIBCUDA", "/nowhere/libcuda.so.1", 1);
  EXPECT_FALSE(Driver::is_there());
  const Result<Driver*> driver = Driver::get();
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.code(), Code::kNotFound);
  EXPECT_THAT(driver.status().to_string(), HasSubstr("/nowhere/libcuda.so.1"));
  EXPECT_EQ(Driver::existing(), nullptr);
}

TEST(CudaDriverTest, WithoutADeviceItSaysSo) {
  FakeCuda::set_environment();
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);  // real drivers read it, too
  const Result<Driver*> driver = Driver::get();
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.code(), Code::kNotFound);
  EXPECT_THAT(driver.status().to_string(), AllOf(HasSubstr("cuInit"), HasSubstr("CUDA_ERROR_NO_DEVICE")));
}

TEST(CudaDriverTest, ADriverThatIsTooOldIsNamedByWhatItLacks) {
  if (skipped_on_real_cuda(kNeedsSettings)) return;
  FakeCuda::set_environment({"FORKLIFT_FAKE_CUDA_VERSION=6050"});
  const Result<Driver*> driver = Driver::get();
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.code(), Code::kVersion);
  EXPECT_THAT(driver.status().to_string(),
              AllOf(HasSubstr("cuDeviceGetUuid"), HasSubstr("cuDevicePrimaryCtxRetain"),
                    testing::Not(HasSubstr("cuMemAlloc"))));
}

TEST(CudaDriverTest, AFailedInitialisationCanBeRepeated) {
  if (skipped_on_real_cuda(kNeedsFaults)) return;
  FakeCuda::set_environment({"FORKLIFT_FAKE_CUDA_FAIL=cuInit:1:802"});
  const Result<Driver*> first = Driver::get();
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.code(), Code::kDevice);
  EXPECT_THAT(first.status().to_string(), HasSubstr("CUDA_ERROR_SYSTEM_NOT_READY"));
  EXPECT_TRUE(Driver::get().ok());
}

TEST(CudaDriverTest, FailuresHaveTheirCodeAndTheDriversWords) {
  if (skipped_on_real_cuda(kNeedsFaults)) return;
  const CudaProcess process;
  cuda::Pointer memory = 0;
  process.fake.fail_function("cuMemAlloc", 1, 2);
  const Status full = process.driver().call("cuMemAlloc", process->mem_alloc, &memory, 8U);
  EXPECT_EQ(full.code(), Code::kNoSpace);
  EXPECT_THAT(full.to_string(), AllOf(HasSubstr("cuMemAlloc"), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"),
                                      HasSubstr("out of memory")));
  const Status bad = process.driver().call("cuMemFree", process->mem_free, cuda::Pointer{0x1000});
  EXPECT_EQ(bad.code(), Code::kDevice);
  EXPECT_THAT(bad.to_string(), HasSubstr("CUDA_ERROR_INVALID_VALUE"));
  process.fake.fail_function("cuMemAlloc", 1, 801);
  EXPECT_EQ(process.driver().call("cuMemAlloc", process->mem_alloc, &memory, 8U).code(), Code::kUnsupported);
  process.fake.fail_function("cuMemAlloc", 1, 12345);
  EXPECT_THAT(process.driver().call("cuMemAlloc", process->mem_alloc, &memory, 8U).to_string(),
              HasSubstr("CUDA error 12345"));
  EXPECT_EQ(process.driver().poison(), CudaError::kSuccess);
}

TEST(CudaDriverTest, AFunctionThatTheDriverLacksIsNotCalled) {
  const CudaProcess process;
  CudaError (*const missing)(int) = nullptr;
  const Status status = process.driver().call("cuSomethingNewer", missing, 1);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  const int version = process.driver().version();
  EXPECT_THAT(status.to_string(),
              AllOf(HasSubstr("cuSomethingNewer"),
                    HasSubstr(std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10))));
}

TEST(CudaDriverTest, APoisonIsRememberedAndSaid) {
  if (skipped_on_real_cuda("it poisons the context by hand")) return;
  CudaProcess process;
  process.is_poisoned = true;
  process.fake.poison(700);
  const Status status = process.driver().call("cuCtxSynchronize", process->ctx_synchronize);
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.to_string(), AllOf(HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"),
                                        HasSubstr("cannot be used any more in this process")));
  EXPECT_EQ(process.driver().poison(), CudaError::kIllegalAddress);
}

TEST(CudaDriverTest, AForkedChildIsRefusedBeforeTheDriver) {
  const CudaProcess process;
  Child child([&] {
    EXPECT_TRUE(process.driver().is_forked());
    const Result<Driver*> driver = Driver::get();
    EXPECT_EQ(driver.code(), Code::kBrokenByFork);
    EXPECT_THAT(driver.status().to_string(), HasSubstr(std::to_string(::getppid())));
    int count = 0;
    EXPECT_EQ(process.driver().call("cuDeviceGetCount", process->device_get_count, &count).code(),
              Code::kBrokenByFork);
    EXPECT_EQ(process.fake.forked_calls(), 0) << "no call has reached the driver";
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(process.driver().is_forked());
}

TEST(CudaDriverTest, CurrentMakesAContextCurrentForItsScope) {
  const CudaProcess process;
  EXPECT_EQ(process->ctx_set_current(nullptr), CudaError::kSuccess);
  cuda::Context current = nullptr;
  {
    const cuda::Current scope(process.driver(), process.context);
    EXPECT_TRUE(scope.status().ok());
    EXPECT_EQ(process->ctx_get_current(&current), CudaError::kSuccess);
    EXPECT_EQ(current, process.context);
  }
  EXPECT_EQ(process->ctx_get_current(&current), CudaError::kSuccess);
  EXPECT_EQ(current, nullptr);
  {
    // What was not pushed is not popped.
    EXPECT_EQ(process->ctx_set_current(process.context), CudaError::kSuccess);
    const cuda::Current scope(process.driver(), nullptr);
    EXPECT_FALSE(scope.status().ok());
  }
  EXPECT_EQ(process->ctx_get_current(&current), CudaError::kSuccess);
  EXPECT_EQ(current, process.context);
}

}  // namespace
}  // namespace forklift::test
