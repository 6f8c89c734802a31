// What a call into the core answers: Status (done, or why not) and Result<T> (a value, or why not).
//
//   Result<Fd> fd = Memfd::create("name", size);
//   if (!fd) return fd.status();          // pass the reason on, unchanged
//   use(*fd);
//
// The core never throws. A Status says what failed in the words of whoever noticed it first: the kind of
// failure (Code), the system call and its errno where there was one, and a sentence with the values that
// were involved. The edges (C++ API, bindings) turn a Status into an exception, once.
//
// Thread safety: a Status is a value; distinct objects may be used from distinct threads.
// Cost: success is one null pointer, so returning it is free; a failure allocates once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace forklift::inline abi_0_1 {

namespace detail {
// A program whose containers are those of libstdc++'s debug mode does not agree with a library whose are not
// on what a std::vector is. So it does not link: each has the name of one of these.
extern const char the_library_has_plain_containers;
extern const char the_library_has_debug_containers;  // _GLIBCXX_DEBUG
#if defined(_GLIBCXX_DEBUG)
[[gnu::used]] inline const char* const kContainers = &the_library_has_debug_containers;
#else
[[gnu::used]] inline const char* const kContainers = &the_library_has_plain_containers;
#endif
}  // namespace detail

// What kind of failure: each asks for another reaction.
enum class Code : std::uint8_t {
  kOk = 0,
  kTimeout,       // the caller's deadline passed; nothing was changed
  kInterrupted,   // the caller's own interrupt hook asked to stop; nothing was taken
  kClosed,        // the object was closed by this process
  kInvalid,       // an argument that can never be right
  kUnsupported,   // right, but not on this platform, version or build
  kOverBudget,    // the domain's memory budget would be exceeded
  kNoSpace,       // a fixed table (slots, channels, blocks, leases, address space) is full
  kCorrupt,       // what came from another process failed its check; it was not used
  kStalled,       // the holder of an internal lock is stopped or does not make progress
  kPeerDied,      // the process that should have answered is gone
  kVersion,       // another layout version
  kRefused,       // not allowed: another user, another pid namespace, a child that cannot be attached
  kNotFound,      // nothing has this name
  kExists,        // something has this name already
  kNotAttached,   // this process belongs to no domain (or its attachment was lost)
  kBrokenByFork,  // an operation was under way in the parent at the fork; this child has no result of it
  kSystem,        // a system call failed; see errno_value() and call()
  kDevice,        // a device's driver failed; the words name its function and its error
  kMismatch,      // ranks of a group called different collectives; nothing was changed
  kBroken,        // a group can no longer be used: one of its ranks gave a collective up
  kRemote,        // another process threw, or ended otherwise than it should (attempt.h)
};

// "timed out", "closed", ...
std::string_view code_name(Code code) noexcept;

// Whether a call succeeded, and what was wrong.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  // A failure, with words for people.
  Status(Code code, std::string what)
      : rep_(std::make_shared<const Rep>(Rep{code, 0, {}, std::move(what)})) {}

  // A failed system call: `call` is its name ("mmap"), `error` its errno, `what` the values involved.
  static Status system(std::string_view call, int error, std::string what = {});

  // No failure; or which, with errno, the system call and the words.
  bool ok() const noexcept { return !rep_; }
  explicit operator bool() const noexcept { return ok(); }
  Code code() const noexcept { return rep_ ? rep_->code : Code::kOk; }
  int errno_value() const noexcept { return rep_ ? rep_->error : 0; }
  std::string_view call() const noexcept { return rep_ ? std::string_view(rep_->call) : std::string_view(); }
  std::string_view what() const noexcept { return rep_ ? std::string_view(rep_->what) : std::string_view(); }

  // One line for people: "over budget: asked 4096 bytes, ..." or "mmap: Cannot allocate memory (ENOMEM 12):
  // ...".
  std::string to_string() const;

 private:
  struct Rep {
    Code code;
    int error;
    std::string call;
    std::string what;
  };
  explicit Status(Rep rep) : rep_(std::make_shared<const Rep>(std::move(rep))) {}
  std::shared_ptr<const Rep> rep_;
};

namespace detail {
[[noreturn]] void throw_status(const Status& status);
}

// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  // A success.
  Result(const T& value) : value_(value) {}
  Result(T&& value) : value_(std::move(value)) {}
  // A success whose value is made in its place.
  template <class... Args>
  explicit Result(std::in_place_t, Args&&... args) : value_(std::in_place, std::forward<Args>(args)...) {}
  // Precondition: !status.ok(). A success without a value cannot be expressed.
  Result(Status status) : status_(std::move(status)) {}
  Result(Code code, std::string what) : status_(code, std::move(what)) {}

  // Whether there is a value; otherwise why not.
  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const Status& status() const noexcept { return status_; }
  Code code() const noexcept { return status_.code(); }

  // As std::expected: what to take where there is no value, and the next step where there is one. `next` answers a
  // Result or a Status; the first failure is what the chain answers.
  template <class U>
  T value_or(U&& otherwise) const& {
    return ok() ? *value_ : static_cast<T>(std::forward<U>(otherwise));
  }
  template <class U>
  T value_or(U&& otherwise) && {
    return ok() ? std::move(*value_) : static_cast<T>(std::forward<U>(otherwise));
  }
  template <class Next>
  auto and_then(Next&& next) && -> std::invoke_result_t<Next, T&&> {
    if (!ok()) return std::move(status_);
    return std::forward<Next>(next)(std::move(*value_));
  }

  // The value. Where there is none: Error (error.h), with the status's words.
  T& operator*() & { return checked(); }
  const T& operator*() const& { return checked(); }
  // By value, so that `for (int x : *numbers())` does not walk through what is gone already.
  T operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &checked(); }

 private:
  T& checked() {
    if (!value_) [[unlikely]]
      detail::throw_status(status_);
    return *value_;
  }
  const T& checked() const {
    if (!value_) [[unlikely]]
      detail::throw_status(status_);
    return *value_;
  }
  std::optional<T> value_;
  Status status_;
};

}  // namespace forklift::inline abi_0_1
