#include "process/report.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <typeinfo>
#include <utility>

namespace forklift {
namespace {

std::string headline(const RemoteError::Details& details) {
  std::string line = details.process.empty() ? "process" : details.process;
  line += " (pid " + std::to_string(details.pid);
  if (details.rank >= 0) line += ", rank " + std::to_string(details.rank);
  return line + "): " + process::describe(details);
}

}  // namespace

RemoteError::RemoteError(Details details)
    : std::runtime_error(headline(details)), details_(std::make_shared<const Details>(std::move(details))) {}

}  // namespace forklift

namespace forklift::process {
namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kMostCauses = 16;
constexpr std::size_t kHeaderBytes = 16;
// type, message and process's name come before the causes
constexpr std::size_t kFixedStrings = 3;

std::string current_type() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "an exception of another language";
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &failed), std::free);
  std::string text = failed == 0 && name ? name.get() : type->name();
  // What std::throw_with_nested makes of a type; it is the type that was thrown that people look for.
  constexpr std::string_view kWrapper = "std::_Nested_exception<";
  if (text.starts_with(kWrapper)) text = text.substr(kWrapper.size(), text.size() - kWrapper.size() - 1);
  return text;
}

// What the exception being handled says; what it nests goes to `causes`.
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
    return error.what();
  } catch (const std::string& text) {
    return text;
  } catch (const char* text) {
    return text != nullptr ? text : "";
  } catch (...) {
    return {};
  }
}

void append(std::vector<std::byte>& out, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

}  // namespace

RemoteError::Details describe_current_exception() {
  RemoteError::Details details;
  details.type = current_type();
  details.message = current_message(details.causes);
  return details;
}

std::vector<std::byte> encode_report(const RemoteError::Details& details) {
  std::vector<std::byte> out;
  std::vector<std::string_view> strings{details.type, details.message, details.process};
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
  details.causes.assign(strings.begin() + kFixedStrings, strings.end());
  details.rank = static_cast<int>(header[1]);
  details.pid = static_cast<pid_t>(header[2]);
  return details;
}

std::string describe(const RemoteError::Details& details) {
  std::string text = details.type;
  if (!details.message.empty()) text += ": " + details.message;
  for (const std::string& cause : details.causes) text += "\n  caused by " + cause;
  return text;
}

}  // namespace forklift::process
