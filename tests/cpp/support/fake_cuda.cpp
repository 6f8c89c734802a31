#include "support/fake_cuda.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace forklift::test {

bool tests_real_cuda() {
  const char* const wish = std::getenv("FORKLIFT_TEST_REAL_CUDA");
  return wish != nullptr && std::string_view(wish) == "1";
}

bool skipped_on_real_cuda(const std::string& why) {
  if (!tests_real_cuda()) return false;
  [&] { GTEST_SKIP() << "not on a real driver: " << why; }();
  return true;
}

std::string FakeCuda::path() { return FORKLIFT_TEST_FAKE_CUDA; }

void FakeCuda::set_environment(const std::vector<std::string>& environment) {
  if (tests_real_cuda()) return;
  ::setenv("FORKLIFT_LIBCUDA", FORKLIFT_TEST_FAKE_CUDA, 1);
  // Children that load it again inherit the name of the machine.
  ::setenv("FORKLIFT_FAKE_CUDA_MACHINE", ("test-" + std::to_string(::getpid())).c_str(), 0);
  for (const std::string& each : environment) {
    const std::size_t sign = each.find('=');
    ::setenv(each.substr(0, sign).c_str(), each.substr(sign + 1).c_str(), 1);
  }
}

FakeCuda FakeCuda::load(const std::vector<std::string>& environment) {
  set_environment(environment);
  if (tests_real_cuda()) return FakeCuda(nullptr);
  void* const library = ::dlopen(FORKLIFT_TEST_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << ::dlerror();
  return FakeCuda(library);
}

}  // namespace forklift::test
