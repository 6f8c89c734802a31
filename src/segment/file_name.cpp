#include "segment/file_name.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace forklift::inline abi_0_1::segment {

namespace {

constexpr std::string_view kPrefix = "forklift-";
constexpr std::string_view kTorchPrefix = "torch_";
constexpr std::size_t kTokenDigits = 16;

// Digits as text() writes them and nothing else: lower case, no sign.
template <class T>
std::optional<T> parse_digits(std::string_view digits, int base) {
  T value = 0;
  if (digits.find_first_not_of(base == 10 ? "0123456789" : "0123456789abcdef") != std::string_view::npos)
    return std::nullopt;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Takes what stands before the token off the text. The pid that it tells, 0 for a name of Forklift's own;
// nullopt if it is neither beginning.
std::optional<std::uint32_t> take_prefix(std::string_view& text) {
  if (text.starts_with(kPrefix)) {
    text.remove_prefix(kPrefix.size());
    return 0;
  }
  if (!text.starts_with(kTorchPrefix)) return std::nullopt;
  text.remove_prefix(kTorchPrefix.size());
  const std::size_t end = text.find('_');
  if (end == 0 || end == std::string_view::npos || text.front() == '0') return std::nullopt;
  const std::optional<std::uint32_t> pid = parse_digits<std::uint32_t>(text.substr(0, end), 10);
  text.remove_prefix(end + 1);
  return pid;
}

}  // namespace

std::string FileName::text() const {
  char digits[64];
  const std::string prefix =
      pid == 0 ? std::string(kPrefix) : std::string(kTorchPrefix) + std::to_string(pid) + "_";
  switch (kind) {
    case FileKind::kSegment:
      std::snprintf(digits, sizeof digits, "%016llx-%llx", static_cast<unsigned long long>(token),
                    static_cast<unsigned long long>(number));
      break;
    case FileKind::kLock:
      std::snprintf(digits, sizeof digits, "%016llx.lock", static_cast<unsigned long long>(token));
      break;
    case FileKind::kSocket:
      std::snprintf(digits, sizeof digits, "%016llx.sock", static_cast<unsigned long long>(token));
      break;
  }
  return prefix + digits;
}

std::optional<FileName> FileName::parse(std::string_view text) {
  const std::optional<std::uint32_t> pid = take_prefix(text);
  if (!pid || text.size() < kTokenDigits) return std::nullopt;
  const std::optional<std::uint64_t> token = parse_digits<std::uint64_t>(text.substr(0, kTokenDigits), 16);
  const std::string_view rest = text.substr(kTokenDigits);
  if (!token || *token == 0) return std::nullopt;
  if (rest == ".lock" && *pid == 0) return FileName{FileKind::kLock, *token};
  if (rest == ".sock" && *pid == 0) return FileName{FileKind::kSocket, *token};
  if (rest.size() < 2 || rest.size() > 15 || rest.front() != '-' || rest[1] == '0') return std::nullopt;
  const std::optional<std::uint64_t> number = parse_digits<std::uint64_t>(rest.substr(1), 16);
  if (!number) return std::nullopt;
  return FileName{FileKind::kSegment, *token, *number, *pid};
}

Result<std::string> default_folder() {
  const char* const wish = std::getenv("FORKLIFT_SHM_DIR");
  if (wish == nullptr || *wish == '\0') return std::string("/dev/shm");
  std::string folder(wish);
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  if (folder.front() != '/' || folder.size() > kLongestFolder) {
    return {Code::kInvalid, "FORKLIFT_SHM_DIR is \"" + folder + "\": an absolute path of at most " +
                                std::to_string(kLongestFolder) + " bytes is needed"};
  }
  return folder;
}

}  // namespace forklift::inline abi_0_1::segment
