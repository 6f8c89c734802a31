// What a Value does not become:
//   EXPECT_EQ(mismatch<std::uint8_t>(Value(300)).code(), Code::kInvalid);
#pragma once

#include <gtest/gtest.h>

#include "forklift/value.h"
#include "support/status_check.h"

namespace forklift::test {

// The status of the TypeMismatch that as() throws; ok if it throws none. try_as() has to answer the same.
template <class T>
Status mismatch(const Value& value) {
  Status status;
  try {
    (void)value.as<T>();
  } catch (const TypeMismatch& error) {
    status = error.status();
  }
  EXPECT_EQ(value.try_as<T>().has_value(), status.ok());
  return status;
}

}  // namespace forklift::test
