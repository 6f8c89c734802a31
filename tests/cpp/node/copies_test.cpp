// Two copies of the library in one process: a host and its plugin that each link the static one.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "forklift/queue.h"
#include "support/child.h"

namespace forklift {
namespace {

using test::Child;
using testing::AllOf;
using testing::HasSubstr;

class CopiesTest : public testing::Test {
 protected:
  void SetUp() override {
    void* const plugin = ::dlopen(FORKLIFT_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(plugin, nullptr) << ::dlerror();
    use_ = reinterpret_cast<const char* (*)()>(::dlsym(plugin, "forklift_test_plugin_use"));
    ASSERT_NE(use_, nullptr) << ::dlerror();
  }
  std::string in_plugin() { return use_(); }
  static std::string in_host() {
    try {
      Queue<int> queue;
      queue.put(7);
      return queue.get() == 7 ? "" : "another number came back";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kRefused);
      return error.what();
    }
  }
  static auto is_refusal() {
    return AllOf(HasSubstr("two copies of libforklift"), HasSubstr(FORKLIFT_TEST_PLUGIN),
                 HasSubstr("forklift_tests"), HasSubstr("FORKLIFT_COPIES=separate"));
  }

 private:
  const char* (*use_)() = nullptr;
};

TEST_F(CopiesTest, APluginIsToldThatItsHostHasACopyInUse) {
  EXPECT_EQ(in_host(), "");
  EXPECT_THAT(in_plugin(), is_refusal());
  EXPECT_THAT(in_plugin(), is_refusal()) << "the second time as the first";
  EXPECT_EQ(in_host(), "");
}

TEST_F(CopiesTest, AHostIsToldThatItsPluginHasACopyInUse) {
  Child child([&] {  // a domain of the plugin's would look like a leak of this program
    EXPECT_EQ(in_plugin(), "");
    EXPECT_THAT(in_host(), is_refusal());
    EXPECT_EQ(in_plugin(), "");
    if (HasFailure()) std::abort();
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(CopiesTest, SoIsAForkedChild) {
  EXPECT_EQ(in_host(), "");
  Child child([&] {
    if (!in_host().empty() || in_plugin().empty()) std::abort();
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(CopiesTest, BothWorkWhereTheUserSaysThatTheyAreSeparate) {
  ::setenv("FORKLIFT_COPIES", "separate", 1);
  EXPECT_EQ(in_host(), "");
  EXPECT_EQ(in_plugin(), "");
  ::unsetenv("FORKLIFT_COPIES");
}

}  // namespace
}  // namespace forklift
