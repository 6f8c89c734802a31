#include "process/report.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <typeinfo>
#include <utility>

#include "base/release.h"
#include "process/bytes.h"
#include "process/stack.h"

namespace forklift::inline abi_0_1 {
namespace {

std::string headline(const RemoteError::Details& details) {
  std::string line = details.process.empty() ? "process" : details.process;
  line += " (pid " + std::to_string(details.pid);
  if (details.rank >= 0) line += ", rank " + std::to_string(details.rank);
  return line + "): " + process::describe(details);
}

std::string exit_line(const std::string& process, int rank, pid_t pid, int exitcode) {
  std::string line = process + " (pid " + std::to_string(pid);
  if (rank >= 0) line += ", rank " + std::to_string(rank);
  line += exitcode < 0 ? "): ended by signal " + std::to_string(-exitcode)
                       : "): exited with code " + std::to_string(exitcode);
  if (exitcode < 0) line += std::string(" (") + ::strsignal(-exitcode) + ")";
  if (exitcode == 255) line += ", or somebody else waited for it (SIGCHLD ignored?)";
  return line;
}

}  // namespace

RemoteError::RemoteError(Details details)
    : std::runtime_error(headline(details)), details_(std::make_shared<const Details>(std::move(details))) {}

ProcessExitedError::ProcessExitedError(const std::string& process, int rank, pid_t pid, int exitcode)
    : std::runtime_error(exit_line(process, rank, pid, exitcode)),
      rank_(rank),
      pid_(pid),
      exitcode_(exitcode) {}

}  // namespace forklift::inline abi_0_1

namespace forklift::inline abi_0_1::process {
namespace {

constexpr std::uint32_t kVersion = 2;
constexpr std::size_t kMostCauses = 16;
constexpr std::size_t kHeaderBytes = 16;
// type, message, process's name and stack come before the causes
constexpr std::size_t kFixedStrings = 4;

std::string current_type() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "an exception of another language";
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &failed), std::free);
  std::string text = failed == 0 && name ? without_release(name.get()) : type->name();
  // std::throw_with_nested wraps the type that was thrown, and that is the type that people look for.
  constexpr std::string_view kWrapper = "std::_Nested_exception<";
  if (text.starts_with(kWrapper)) text = text.substr(kWrapper.size(), text.size() - kWrapper.size() - 1);
  return text;
}

// The message of the exception that is being handled; its nested exceptions are appended to `causes`.
std::string current_message(std::vector<std::string>& causes);

void add_cause(const std::exception& outer, std::vector<std::string>& causes) {
  if (causes.size() >= kMostCauses) return;
  try {
    std::rethrow_if_nested(outer);
  } catch (...) {
    const std::size_t at = causes.size();
    causes.emplace_back();
    const std::string message = current_message(causes);
    causes[at] = current_type() + (message.empty() ? "" : ": " + message);
  }
}

std::string current_message(std::vector<std::string>& causes) {
  try {
    throw;
  } catch (const std::exception& error) {
    add_cause(error, causes);
    const char* const text = error.what();
    return text != nullptr ? text : "";
  } catch (const std::string& text) {
    return text;
  } catch (const char* text) {
    return text != nullptr ? text : "";
  } catch (...) {
    return {};
  }
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    lines.emplace_back(text.substr(0, text[end] == '\n' ? end : end + 1));
    text.remove_prefix(end + 1);
  }
  return lines;
}

}  // namespace

// A forced unwinding has no exception object, so its handler's reference is null, which the sanitizer would report.
__attribute__((no_sanitize("null"))) std::optional<RemoteError::Details> failure_of(
    const std::function<void()>& body) {
  forget_stack();
  try {
    body();
    return std::nullopt;
#if defined(__GLIBCXX__)  // of other C++ libraries catch (...) does not see it
  } catch (const abi::__forced_unwind&) {
    throw;  // the thread is ending: the C library's unwinding must go on
#endif
  } catch (const ThrowSite&) {
    return std::nullopt;  // never
  } catch (...) {
    RemoteError::Details details;
    try {
      details = describe_current_exception();
      details.stack = throw_stack(reinterpret_cast<const void*>(&failure_of));
    } catch (...) {
      // The exception could not be described (no memory, what() throws); that `body` failed must be reported
      // in any case.
      details = {};
      details.type = "an exception that cannot be described";
    }
    return details;
  }
}

RemoteError::Details describe_current_exception() {
  RemoteError::Details details;
  details.type = current_type();
  details.message = current_message(details.causes);
  return details;
}

std::vector<std::byte> encode_report(const RemoteError::Details& details) {
  std::vector<std::byte> out;
  const std::string stack = joined(details.stack);
  std::vector<std::string_view> strings{details.type, details.message, details.process, stack};
  strings.insert(strings.end(), details.causes.begin(), details.causes.end());
  const std::uint32_t header[4] = {kVersion, static_cast<std::uint32_t>(details.rank),
                                   static_cast<std::uint32_t>(details.pid),
                                   static_cast<std::uint32_t>(strings.size())};
  static_assert(sizeof header == kHeaderBytes);
  append(out, header, sizeof header);
  for (const std::string_view text : strings) {
    const auto size = static_cast<std::uint32_t>(std::min<std::size_t>(text.size(), UINT32_MAX));
    append(out, &size, sizeof size);
    append(out, text.data(), size);
  }
  return out;
}

Result<RemoteError::Details> decode_report(std::span<const std::byte> shared) {
  const Status corrupt(Code::kCorrupt, "a child's report of an exception is malformed");
  const std::vector<std::byte> bytes(shared.begin(), shared.end());  // may lie in shared memory
  std::uint32_t header[4];
  if (bytes.size() < sizeof header) return corrupt;
  std::memcpy(header, bytes.data(), sizeof header);
  if (header[0] != kVersion || header[3] < kFixedStrings || header[3] > kFixedStrings + 2 * kMostCauses) {
    return corrupt;
  }
  std::vector<std::string> strings;
  std::size_t at = sizeof header;
  for (std::uint32_t i = 0; i < header[3]; ++i) {
    std::uint32_t size = 0;
    if (bytes.size() - at < sizeof size) return corrupt;
    std::memcpy(&size, bytes.data() + at, sizeof size);
    at += sizeof size;
    if (bytes.size() - at < size) return corrupt;
    strings.emplace_back(reinterpret_cast<const char*>(bytes.data() + at), size);
    at += size;
  }
  if (at != bytes.size()) return corrupt;
  RemoteError::Details details;
  details.type = std::move(strings[0]);
  details.message = std::move(strings[1]);
  details.process = std::move(strings[2]);
  details.stack = lines_of(strings[3]);
  details.causes.assign(strings.begin() + kFixedStrings, strings.end());
  details.rank = static_cast<int>(header[1]);
  details.pid = static_cast<pid_t>(header[2]);
  return details;
}

std::string describe(const RemoteError::Details& details) {
  std::string text = details.type;
  if (!details.message.empty()) text += ": " + details.message;
  for (const std::string& cause : details.causes) text += "\n  caused by " + cause;
  for (const std::string& frame : details.stack) text += "\n  at " + frame;
  return text;
}

std::optional<RemoteError::Details> take_report(channel::Channel& reports) {
  channel::Incoming message;
  const Status got = reports.get(message, os::Deadline::after_ns(0));
  if (!got.ok() || message.codec() != kErrorCodec) return std::nullopt;
  Result<RemoteError::Details> details = decode_report(message.bytes());
  if (!details) return std::nullopt;
  return *std::move(details);
}

}  // namespace forklift::inline abi_0_1::process
