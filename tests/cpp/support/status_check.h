// EXPECT_OK(status or result), ASSERT_OK, EXPECT_CODE(code, status or result): failures print the status.
//
//   EXPECT_EQ(code_of([&] { return image.select(2, 0); }), Code::kInvalid);      // of what throws an Error
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "forklift/error.h"
#include "forklift/status.h"

namespace forklift::test {

inline const Status& status_of(const Status& status) { return status; }
template <class T>
const Status& status_of(const Result<T>& result) {
  return result.status();
}

template <class Answer>
testing::AssertionResult is_ok(const Answer& answer) {
  if (answer.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << status_of(answer).to_string();
}

template <class Answer>
testing::AssertionResult has_code(Code code, const Answer& answer) {
  if (answer.code() == code) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "expected " << code_name(code) << ", got "
                                     << status_of(answer).to_string();
}

// The code of the Error that the call throws; kOk if it throws none. What it returns is dropped.
template <class Call>
Code code_of(Call&& call) {
  try {
    (void)std::forward<Call>(call)();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::kOk;
}

}  // namespace forklift::test

#define EXPECT_OK(...) EXPECT_TRUE(::forklift::test::is_ok(__VA_ARGS__))
#define ASSERT_OK(...) ASSERT_TRUE(::forklift::test::is_ok(__VA_ARGS__))
#define EXPECT_CODE(code, ...) EXPECT_TRUE(::forklift::test::has_code(code, __VA_ARGS__))
#define ASSERT_CODE(code, ...) ASSERT_TRUE(::forklift::test::has_code(code, __VA_ARGS__))
