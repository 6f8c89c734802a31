#include "forklift/status.h"

#include <cstring>

#include "forklift/error.h"

namespace forklift::inline abi_0_1 {

namespace detail {
#if defined(_GLIBCXX_DEBUG)
const char the_library_has_debug_containers = 0;
#else
const char the_library_has_plain_containers = 0;
#endif
}  // namespace detail

void detail::throw_status(const Status& status) { throw Error(status); }

std::string_view code_name(Code code) noexcept {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kTimeout: return "timed out";
    case Code::kInterrupted: return "interrupted";
    case Code::kClosed: return "closed";
    case Code::kInvalid: return "invalid argument";
    case Code::kUnsupported: return "not supported";
    case Code::kOverBudget: return "over budget";
    case Code::kNoSpace: return "no space";
    case Code::kCorrupt: return "corrupt";
    case Code::kStalled: return "stalled";
    case Code::kPeerDied: return "peer died";
    case Code::kVersion: return "version mismatch";
    case Code::kRefused: return "refused";
    case Code::kNotFound: return "not found";
    case Code::kExists: return "exists already";
    case Code::kNotAttached: return "not attached";
    case Code::kBrokenByFork: return "broken by a fork";
    case Code::kSystem: return "system call failed";
    case Code::kDevice: return "device failed";
    case Code::kMismatch: return "collectives differ";
    case Code::kRemote: return "failed in another process";
    case Code::kBroken: return "broken group";
  }
  return "unknown";
}

Status Status::system(std::string_view call, int error, std::string what) {
  return Status(Rep{Code::kSystem, error, std::string(call), std::move(what)});
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  std::string text;
  if (rep_->code == Code::kSystem) {
    text += rep_->call;
    text += ": ";
    text += strerrordesc_np(rep_->error) ? strerrordesc_np(rep_->error) : "unknown error";
    if (const char* name = strerrorname_np(rep_->error)) {
      text += " (";
      text += name;
      text += ")";
    }
  } else {
    text += code_name(rep_->code);
  }
  if (!rep_->what.empty()) {
    text += ": ";
    text += rep_->what;
  }
  return text;
}

}  // namespace forklift::inline abi_0_1
