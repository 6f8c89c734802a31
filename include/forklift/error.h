// Error: what the C++ API throws. The core below it answers with a Status; here that becomes an exception,
// once.
//
//   try {
//     queue.put(frame);
//   } catch (const forklift::Error& error) {
//     if (error.code() == forklift::Code::kOverBudget) ...   // the rest is in error.status()
//     std::cerr << error.what() << '\n';                     // "over budget: asked 4096 bytes, ..."
//   }
//
// Thread and process safety: an Error is a value. An Error that leaves a child process arrives at its
// parent's join() as a RemoteError (process.h).
//
// Invariant: status() is never ok.
#pragma once

#include <stdexcept>
#include <utility>

#include "forklift/status.h"

namespace forklift::inline abi_0_1 {

class Error : public std::runtime_error {
 public:
  // What failed: its code, and the words that what() shows.
  explicit Error(Status status) : std::runtime_error(status.to_string()), status_(std::move(status)) {}

  // What failed, as the library's inner parts say it; and which kind of failure that is.
  const Status& status() const noexcept { return status_; }
  Code code() const noexcept { return status_.code(); }

 private:
  Status status_;
};

// The end of a stream: a queue or Broadcast was closed and everything in it was read, or no process holds the other
// end of a connection any more. Also what a put into one that was closed throws.
class Closed : public Error {
 public:
  using Error::Error;
};

// A message or a queue holds another type than it was asked for. What was taken for it is gone.
class TypeMismatch : public Error {
 public:
  using Error::Error;
};

// For the library's own parts: turns what the core answers into an exception.
//   throw_if_failed(channel.close());
//   Tensor row = value_or_throw(tensor::select(image, 0, 3));
inline void throw_if_failed(const Status& status) {
  if (!status.ok()) [[unlikely]]
    detail::throw_status(status);
}
template <class T>
T value_or_throw(Result<T> result) {
  throw_if_failed(result.status());
  return *std::move(result);
}

}  // namespace forklift::inline abi_0_1
