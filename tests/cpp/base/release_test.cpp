#include "base/release.h"

#include <gtest/gtest.h>

#include <string>

#include "forklift/detail/hash.h"
#include "forklift/queue.h"
#include "forklift/version.h"

namespace forklift {
namespace {

TEST(Release, IsLeftOutOfNames) {
  EXPECT_EQ(without_release("std::vector<forklift::abi_0_1::Tensor>"), "std::vector<forklift::Tensor>");
  EXPECT_EQ(without_release("forklift::abi_10_22::os::abi_0_1::Fd"), "forklift::os::Fd");
  EXPECT_EQ(without_release("abi_alike::Type my_abi_0_1"), "abi_alike::Type my_abi_0_1");
  EXPECT_EQ(without_release(""), "");
}

TEST(Release, IsNotInTheHashOfAType) {
  EXPECT_EQ(detail::hash_of_type_name("forklift::abi_0_1::Tensor"), detail::hash_of("forklift::Tensor"));
  EXPECT_EQ(detail::hash_of_type_name("forklift::abi_0_2::Tensor"), detail::hash_of("forklift::Tensor"));
  EXPECT_NE(detail::hash_of_type_name("forklift::abi_x::Tensor"), detail::hash_of("forklift::Tensor"));
}

TEST(Release, IsInTheSymbolsOfTypes) {
  const std::string symbol = typeid(Queue<int>).name();
  const std::string expected = "abi_" + std::to_string(kVersionMajor) + "_" + std::to_string(kVersionMinor);
  EXPECT_NE(symbol.find(expected), std::string::npos) << symbol;
}

}  // namespace
}  // namespace forklift
