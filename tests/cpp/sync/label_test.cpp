#include "sync/label.h"

#include <gtest/gtest.h>

#include <string>

namespace forklift::sync {
namespace {

TEST(Label, KeepsANameForPeople) {
  Label label{};
  EXPECT_TRUE(label.empty());
  EXPECT_EQ(labelled("the queue", label), "the queue");
  ASSERT_TRUE(label.set("frames of the left camera").ok());
  EXPECT_EQ(label.text(), "frames of the left camera");
  EXPECT_EQ(labelled("the queue", label), "the queue \"frames of the left camera\"");
  ASSERT_TRUE(label.set("short").ok());
  EXPECT_EQ(label.text(), "short");
  label.clear();
  EXPECT_TRUE(label.empty());
}

TEST(Label, MayBeAsLongAsItsPlace) {
  Label label{};
  EXPECT_TRUE(label.set(std::string(kLabelBytes, 'x')).ok());
  EXPECT_EQ(label.text(), std::string(kLabelBytes, 'x'));
  const Status longer = label.set(std::string(kLabelBytes + 1, 'y'));
  EXPECT_EQ(longer.code(), Code::kInvalid);
  EXPECT_EQ(label.text(), std::string(kLabelBytes, 'x'));
  EXPECT_TRUE(label.set("").ok());
  EXPECT_EQ(label.text(), "");
}

TEST(Label, ShowsNoControlCharacters) {
  Label label{};
  EXPECT_EQ(label.set("two\nlines").code(), Code::kInvalid);
  EXPECT_EQ(label.set("\x1b[31mred").code(), Code::kInvalid);
  EXPECT_TRUE(label.set("für Menschen").ok());
  EXPECT_EQ(label.text(), "für Menschen");
  // What another process wrote is not trusted.
  alignas(Label) unsigned char bytes[kLabelBytes] = {'a', 7, 'b', 27, 'c'};
  EXPECT_EQ(reinterpret_cast<const Label*>(bytes)->text(), "a?b?c");
}

}  // namespace
}  // namespace forklift::sync
