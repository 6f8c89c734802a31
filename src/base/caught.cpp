#include "forklift/detail/caught.h"

#include <stdexcept>
#include <utility>

#include "forklift/error.h"

namespace forklift::inline abi_0_1::detail {

void throw_closed(const Status& status) { throw Closed(status); }
void throw_mismatch(const Status& status) { throw TypeMismatch(status); }
void throw_out_of_range(const std::string& what) { throw std::out_of_range(what); }

std::exception_ptr caught_from(Guarded call) noexcept {
  try {
    call();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

bool met_closed_in(Guarded call) {
  try {
    call();
  } catch (const Closed&) {
    return true;
  }
  return false;
}

Status mismatch_of(Guarded call) {
  try {
    call();
  } catch (const TypeMismatch& error) {
    return error.status();
  }
  return {};
}

Status failure_of(Guarded call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

std::optional<std::string> message_of(Guarded call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return std::nullopt;
}

void rethrow(std::exception_ptr& failure) { std::rethrow_exception(std::exchange(failure, nullptr)); }

bool unreadable(const std::exception_ptr& failure) noexcept {
  try {
    std::rethrow_exception(failure);
  } catch (const TypeMismatch&) {
    return true;
  } catch (const Error& error) {
    return error.code() == Code::kCorrupt;
  } catch (...) {
    return false;
  }
}

}  // namespace forklift::inline abi_0_1::detail
