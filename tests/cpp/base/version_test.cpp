#include "forklift/version.h"

#include <gtest/gtest.h>

#include <string>

namespace forklift {
namespace {

TEST(Version, OfHeadersAndLibraryAgree) {
  EXPECT_EQ(version(), kVersion);
  EXPECT_EQ(kVersion, std::to_string(kVersionMajor) + "." + std::to_string(kVersionMinor) + "." +
                          std::to_string(kVersionPatch));
}

}  // namespace
}  // namespace forklift
