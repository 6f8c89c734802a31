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
//
// FORKLIFT_TEST_REAL_CUDA=1 in the environment: load() loads nothing, and Forklift finds the machine's own driver. A test
// that needs the fake one says why, and is skipped there:
//
//   if (skipped_on_real_cuda("it makes calls fail")) return;
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../fake_cuda/fake_cuda.h"

namespace forklift::test {

bool tests_real_cuda();
// Marks the running test as skipped if the machine's own driver is tested.
bool skipped_on_real_cuda(const std::string& why);

class FakeCuda {
 public:
  // What load() sets, "NAME=value", without loading: before a fork, for the child and this process.
  static void set_environment(const std::vector<std::string>& environment = {});
  static FakeCuda load(const std::vector<std::string>& environment = {});
  static std::string path();

  // Not if the machine's own driver is tested. Then nothing is counted, and a test that makes calls fail fails itself.
  bool is_loaded() const { return library_ != nullptr; }

  // A function of the library by the name that it is exported by. Precondition: is_loaded().
  template <class Function>
  Function* symbol(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }

  FakeCudaLive live() const {
    FakeCudaLive now{};
    if (!is_loaded()) return now;
    symbol<decltype(fakeCudaLive)>("fakeCudaLive")(&now);
    return now;
  }
  // Nobody counts those of a real driver: 0.
  long calls() const { return is_loaded() ? symbol<decltype(fakeCudaCalls)>("fakeCudaCalls")() : 0; }
  long forked_calls() const {
    return is_loaded() ? symbol<decltype(fakeCudaForkedCalls)>("fakeCudaForkedCalls")() : 0;
  }
  void fail_at(long call_number, int error) const {
    if (is_fake()) symbol<decltype(fakeCudaFailAt)>("fakeCudaFailAt")(call_number, error);
  }
  void fail_function(const char* name, long nth, int error) const {
    if (is_fake()) symbol<decltype(fakeCudaFailFunction)>("fakeCudaFailFunction")(name, nth, error);
  }
  // None of the planned failures happens any more.
  void fail_no_more() const { fail_at(0, 0); }
  std::string failed_function() const {
    char name[64] = "";
    if (!is_fake()) return name;
    symbol<decltype(fakeCudaFailedFunction)>("fakeCudaFailedFunction")(name, sizeof name);
    return name;
  }
  void poison(int error) const {
    if (is_loaded() || (error != 0 && is_fake())) symbol<decltype(fakeCudaPoison)>("fakeCudaPoison")(error);
  }
  void reset() const {
    if (is_loaded()) symbol<decltype(fakeCudaReset)>("fakeCudaReset")();
  }
  bool peek(unsigned long long device, void* host, std::size_t bytes) const {
    return is_fake() && symbol<decltype(fakeCudaPeek)>("fakeCudaPeek")(device, host, bytes) != 0;
  }

 private:
  explicit FakeCuda(void* library) : library_(library) {}
  bool is_fake() const {
    EXPECT_TRUE(is_loaded())
        << "not on a real driver: only the fake one fails when told to, and shows memory";
    return is_loaded();
  }
  void* library_;
};

}  // namespace forklift::test
