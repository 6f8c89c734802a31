#include "support/fake_cuda.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

namespace forklift::test {

std::string FakeCuda::path() { return FORKLIFT_TEST_FAKE_CUDA; }

void FakeCuda::set_environment(const std::vector<std::string>& environment) {
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
  void* const library = ::dlopen(FORKLIFT_TEST_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << ::dlerror();
  return FakeCuda(library);
}

}  // namespace forklift::test
