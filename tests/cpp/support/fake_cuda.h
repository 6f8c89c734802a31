// The fake CUDA driver (tests/fake_cuda) for a test.
//
//   FakeCuda fake = FakeCuda::load({"FORKLIFT_FAKE_CUDA_LAZY=1"});   // before Driver::get() in the process
//   Result<Driver*> driver = Driver::get();                               // of the fake
//   fake.fail_function("cuMemCreate", 1, 2);
//   ...
//   EXPECT_EQ(fake.live().physical, 0);
//
// load() sets environment variables, which the driver reads at its first call; so a test that loads it runs in a
// process of its own, as ctest does it. Its device memory is shared with its children only.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

#include "../../fake_cuda/fake_cuda.h"

namespace forklift::test {

class FakeCuda {
 public:
  // What load() sets, "NAME=value", without loading: before a fork, for the child and this process.
  static void set_environment(const std::vector<std::string>& environment = {});
  static FakeCuda load(const std::vector<std::string>& environment = {});
  static std::string path();

  // A function of the library by the name that it is exported by.
  template <class Function>
  Function* symbol(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }

  FakeCudaLive live() const {
    FakeCudaLive now{};
    symbol<decltype(fakeCudaLive)>("fakeCudaLive")(&now);
    return now;
  }
  long calls() const { return symbol<decltype(fakeCudaCalls)>("fakeCudaCalls")(); }
  long forked_calls() const { return symbol<decltype(fakeCudaForkedCalls)>("fakeCudaForkedCalls")(); }
  void fail_at(long call_number, int error) const {
    symbol<decltype(fakeCudaFailAt)>("fakeCudaFailAt")(call_number, error);
  }
  void fail_function(const char* name, long nth, int error) const {
    symbol<decltype(fakeCudaFailFunction)>("fakeCudaFailFunction")(name, nth, error);
  }
  void poison(int error) const { symbol<decltype(fakeCudaPoison)>("fakeCudaPoison")(error); }
  void reset() const { symbol<decltype(fakeCudaReset)>("fakeCudaReset")(); }
  bool peek(unsigned long long device, void* host, std::size_t bytes) const {
    return symbol<decltype(fakeCudaPeek)>("fakeCudaPeek")(device, host, bytes) != 0;
  }

 private:
  explicit FakeCuda(void* library) : library_(library) {}
  void* library_;
};

}  // namespace forklift::test
