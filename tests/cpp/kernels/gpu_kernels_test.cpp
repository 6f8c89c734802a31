// The parts of the GPU's kernels that can be looked at alone: which element a thread computes, conversions of narrow floats,
// the images, and launches by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "../../fake_cuda/host_kernels/device_language.h"
#include "../device/cuda_fixture.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/images.h"
#include "kernels/cuda/launcher.h"
#include "kernels/cuda/place.cuh"
#include "kernels/cuda/strided.h"

namespace forklift::kernels::cuda {
namespace {

using testing::HasSubstr;

TEST(KernelPlaceTest, DividersAreExact) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> lengths{1, 2, 3, 5, 7, 255, 256, 257, 65535, 65536, INT32_MAX - 1, INT32_MAX};
  for (int i = 0; i < 2000; ++i) lengths.push_back(static_cast<std::uint32_t>(random()) % INT32_MAX + 1);
  for (const std::uint32_t length : lengths) {
    const Divider divider = divider_of(length);
    std::vector<std::uint32_t> numbers{0, 1, length - 1, length, INT32_MAX};
    for (int i = 0; i < 200; ++i)
      numbers.push_back(static_cast<std::uint32_t>(random()) % (std::uint32_t{INT32_MAX} + 1));
    for (const std::uint32_t number : numbers)
      ASSERT_EQ(quotient(divider, number), number / length) << number << " / " << length;
  }
}

Layout layout_of(std::initializer_list<std::int64_t> lengths, std::initializer_list<std::int64_t> steps) {
  Layout layout{};
  for (const std::int64_t length : lengths) layout.lengths[layout.ndim++] = length;
  std::copy(steps.begin(), steps.end(), layout.steps[0]);
  seal(layout);
  return layout;
}

std::int64_t offset_of(const Layout& layout, std::int64_t number) {
  std::int64_t offsets[1];
  locate(layout, number, offsets);
  return offsets[0];
}

TEST(KernelPlaceTest, OffsetsOfElements) {
  const Layout layout = layout_of({3, 4, 5}, {-160, 8, 32});
  EXPECT_EQ(layout.size, 60);
  std::int64_t number = 0;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      for (std::int64_t k = 0; k < 5; ++k) ASSERT_EQ(offset_of(layout, number++), -160 * i + 8 * j + 32 * k);
    }
  }
  EXPECT_EQ(offset_of(layout_of({}, {}), 0), 0);
}

// Beyond 2^31 elements, and beyond 2^32, where numbers of 32 bits would come back to the beginning.
TEST(KernelPlaceTest, OffsetsOfMoreElementsThan32BitsCount) {
  const Layout layout = layout_of({5, 70'000, 70'001}, {9'800'140'000, 140'002, 2});
  EXPECT_EQ(layout.size, std::int64_t{5} * 70'000 * 70'001);
  EXPECT_EQ(layout.narrow, 0);
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{INT32_MAX}, std::int64_t{INT32_MAX} + 1,
                                    std::int64_t{UINT32_MAX} + 5, layout.size - 1})
    EXPECT_EQ(offset_of(layout, number), 2 * number) << "its elements have no gaps";
  // Few elements that lie far apart.
  const Layout far = layout_of({4, 3}, {std::int64_t{1} << 40, -(std::int64_t{1} << 33)});
  EXPECT_EQ(far.narrow, 1);
  EXPECT_EQ(offset_of(far, 11), 3 * (std::int64_t{1} << 40) - 2 * (std::int64_t{1} << 33));
}

TEST(KernelPlaceTest, ThreadsAreNumberedIn64Bits) {
  blockDim = {kBlock, 1, 1};
  blockIdx = {INT32_MAX - 1, 0, 0};
  gridDim = {INT32_MAX, 1, 1};
  threadIdx = {255, 0, 0};
  EXPECT_EQ(thread_number(), (std::int64_t{INT32_MAX} - 1) * 256 + 255);
  EXPECT_EQ(thread_count(), std::int64_t{INT32_MAX} * 256);
  EXPECT_EQ(blocks_for(1), 1);
  EXPECT_EQ(blocks_for(257), 2);
  EXPECT_EQ(blocks_for(std::int64_t{1} << 45), kMostBlocks);
}

TEST(KernelElementTest, NarrowFloatsRoundAsTheLibrarys) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    const float wide = to_float(Brain{narrow});
    ASSERT_EQ(to_brain(wide).bits, detail::float_to_bfloat(wide)) << bits;
    // Half way to the next number, where ties are decided.
    const float between = bits_as<float>((bits << 16) | 0x8000u);
    ASSERT_EQ(to_brain(between).bits, detail::float_to_bfloat(between)) << bits;
  }
}

TEST(KernelElementTest, IntegersThatDoNotFit) {
  EXPECT_EQ(to_integer<std::int64_t>(1e300), INT64_MIN);
  EXPECT_EQ(to_integer<std::int32_t>(NAN), INT32_MIN);
  EXPECT_EQ(to_integer<std::uint64_t>(1.5e19), 15'000'000'000'000'000'000U);
  EXPECT_EQ(to_integer<std::uint8_t>(300.0), 44);
  EXPECT_EQ(to_integer<std::int8_t>(-1.9F), -1);
}

// Without nvcc the library says so; with it, the images are what the driver loads.
TEST(KernelImageTest, TheLibrarysOwn) {
  ::unsetenv("FORKLIFT_CUDA_IMAGES");
  for (const Image each : {Image::kMap, Image::kReduce, Image::kMatmul}) {
    const Result<const void*> image = image_of(each);
    ASSERT_EQ(image.ok(), has_images());
    if (!image) {
      EXPECT_EQ(image.status().code(), Code::kUnsupported);
      EXPECT_THAT(std::string(image.status().what()), HasSubstr("compiled without nvcc"));
      continue;
    }
    std::uint32_t magic = 0;
    std::memcpy(&magic, *image, sizeof magic);
    EXPECT_EQ(magic, 0xBA55ED50U) << "a fat binary";
  }
#ifdef FORKLIFT_TEST_HAS_IMAGES
  EXPECT_TRUE(has_images()) << "CMake has found nvcc, and has it compile the kernels";
#endif
}

TEST(KernelImageTest, OfAFolder) {
  ::setenv("FORKLIFT_CUDA_IMAGES", "/nowhere", 1);
  const Result<const void*> image = image_of(Image::kReduce);
  EXPECT_EQ(image.status().code(), Code::kSystem);
  EXPECT_THAT(std::string(image.status().what()), HasSubstr("/nowhere/reduce.fatbin"));
}

TEST(BlasTest, IsLookedForBesideTheLibrary) {
  EXPECT_THAT(cublas_beside("/v/site-packages/forklift/_core.so"),
              testing::Contains("/v/site-packages/nvidia/cublas/lib/libcublas.so.12"));
  EXPECT_THAT(cublas_beside("/v/site-packages/forklift/cpp/lib/libforklift.so"),
              testing::Contains("/v/site-packages/nvidia/cu13/lib/libcublas.so.13"));
  EXPECT_TRUE(cublas_beside("libforklift.so").empty());
}

// Each kernel that the library can launch is in the sources, under its name. The fake takes the names from there.
TEST(LauncherTest, EachKernelHasASource) {
  if (!has_images()) GTEST_SKIP() << "this build has no images";
  const test::CudaProcess cuda;
  for (std::size_t i = 0; i < kKernels; ++i) {
    const char* const wanted = name(static_cast<Kernel>(i));
    device::cuda::Module module = nullptr;
    device::cuda::Function function = nullptr;
    ASSERT_EQ(cuda->module_load_data(&module, *image_of(Image::kMap)), device::cuda::CudaError::kSuccess);
    EXPECT_EQ(cuda->module_get_function(&function, module, wanted), device::cuda::CudaError::kSuccess)
        << wanted;
    EXPECT_EQ(cuda->module_unload(module), device::cuda::CudaError::kSuccess);
  }
}

TEST(LauncherTest, LaunchesOnTheQueue) {
  if (!has_images()) GTEST_SKIP() << "this build has no images";
  test::CudaProcess cuda("FORKLIFT_FAKE_CUDA_LAZY=1");
  const device::cuda::Stream stream = cuda.stream();
  constexpr std::int64_t kCount = 1000;
  const device::cuda::Pointer memory = cuda.allocate(kCount * sizeof(float));
  const Result<Launcher> launcher = Launcher::of({&cuda.driver(), cuda.context, stream});
  ASSERT_TRUE(launcher);
  ASSERT_TRUE(launcher->set_bytes(memory, 0, kCount * sizeof(float)));
  DirectParameters parameters{};
  const float number = 2.5F;
  std::memcpy(parameters.inputs[0].constant, &number, sizeof number);
  parameters.out = memory;
  parameters.size = kCount;
  parameters.op = static_cast<std::uint16_t>(UnaryOp::kNegative);
  ASSERT_TRUE(launcher->launch(Kernel::kDirectF32, blocks_for(kCount), 1, parameters));
  float seen[kCount];
  ASSERT_TRUE(cuda.fake.peek(memory, seen, sizeof seen));
  EXPECT_EQ(seen[0], 0) << "nothing is done before a synchronisation";
  EXPECT_EQ(cuda->stream_synchronize(stream), device::cuda::CudaError::kSuccess);
  ASSERT_TRUE(cuda.fake.peek(memory, seen, sizeof seen));
  EXPECT_THAT(seen, testing::Each(-2.5F));
  EXPECT_EQ(cuda.fake.live().modules, 1) << "it stays loaded";
  EXPECT_EQ(cuda->mem_free(memory), device::cuda::CudaError::kSuccess);
  EXPECT_EQ(cuda->stream_destroy(stream), device::cuda::CudaError::kSuccess);
  cuda.modules_of_the_context = 1;
}

}  // namespace
}  // namespace forklift::kernels::cuda
