#include "os/limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "os/proc.h"

namespace forklift::inline abi_0_1::os {

namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

using File = std::unique_ptr<FILE, int (*)(FILE*)>;
File open_text(const std::string& path) { return {std::fopen(path.c_str(), "re"), std::fclose}; }

// The number in a file of a control group; kUnlimited for "max" or if the file cannot be read.
std::uint64_t read_number(const std::string& path) {
  const File file = open_text(path);
  char text[64];
  if (!file || !std::fgets(text, sizeof text, file.get()) || text[0] < '0' || text[0] > '9')
    return kUnlimited;
  return std::strtoull(text, nullptr, 10);
}

std::uint64_t meminfo_available() {
  const File file = open_text("/proc/meminfo");
  char line[256];
  while (file && std::fgets(line, sizeof line, file.get())) {
    unsigned long long kib = 0;
    if (std::sscanf(line, "MemAvailable: %llu kB", &kib) == 1) return std::uint64_t{kib} * 1024;
  }
  return kUnlimited;
}

// Calls visit(folder, version) for the process's group of a controller and all its ancestors, whose limits apply, too:
// in version 2, and in version 1, where each controller has a tree of its own.
template <class Visit>
void for_each_group(const std::string& controller, Visit visit) {
  const File file = open_text("/proc/self/cgroup");
  char line[4096];
  while (file && std::fgets(line, sizeof line, file.get())) {
    line[std::strcspn(line, "\n")] = '\0';
    const char* controllers = std::strchr(line, ':');
    const char* group = controllers ? std::strchr(controllers + 1, ':') : nullptr;
    if (!group) continue;
    const std::string names(controllers + 1, group);
    if (!names.empty() && ("," + names + ",").find("," + controller + ",") == std::string::npos) continue;
    const std::string root = names.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller;
    std::string path(group + 1);
    if (path == "/") path.clear();
    for (;;) {
      visit(root + path, names.empty() ? 2 : 1);
      if (path.empty()) break;
      const std::size_t slash = path.rfind('/');
      path.resize(slash == std::string::npos ? 0 : slash);
    }
  }
}

std::uint64_t cgroup_headroom() {
  std::uint64_t least = kUnlimited;
  for_each_group("memory", [&least](const std::string& folder, int version) {
    const std::uint64_t allowed =
        read_number(folder + (version == 2 ? "/memory.max" : "/memory.limit_in_bytes"));
    const std::uint64_t used =
        read_number(folder + (version == 2 ? "/memory.current" : "/memory.usage_in_bytes"));
    if (allowed != kUnlimited && used != kUnlimited)
      least = std::min(least, allowed > used ? allowed - used : 0);
  });
  return least;
}

// The quota and the period of a group's processor time, in microseconds: "max 100000" or "150000 100000" in version 2.
bool read_quota(const std::string& folder, int version, double& quota, double& period) {
  if (version == 2) {
    const File file = open_text(folder + "/cpu.max");
    return file && std::fscanf(file.get(), "%lf %lf", &quota, &period) == 2;
  }
  const File limit = open_text(folder + "/cpu.cfs_quota_us");
  const File length = open_text(folder + "/cpu.cfs_period_us");
  return limit && length && std::fscanf(limit.get(), "%lf", &quota) == 1 &&
         std::fscanf(length.get(), "%lf", &period) == 1;
}

// In processors; infinity without a limit.
double cgroup_cpus() {
  double least = std::numeric_limits<double>::infinity();
  for_each_group("cpu", [&least](const std::string& folder, int version) {
    double quota = -1;
    double period = 0;
    if (read_quota(folder, version, quota, period) && quota > 0 && period > 0)
      least = std::min(least, quota / period);
  });
  return least;
}

}  // namespace

int usable_cpus() noexcept {
  const double quota = std::ceil(cgroup_cpus());
  const int allowed = allowed_cpus();
  return quota < allowed ? std::max(static_cast<int>(quota), 1) : allowed;
}

std::size_t last_level_cache() noexcept {
  // Not sysconf(), which for AMD's processors gives the sum of caches that no core reaches all of.
  // No static with a guard: a fork beside the first call would leave the child with one that is never finished.
  static std::atomic<std::size_t> found{0};
  if (const std::size_t known = found.load(std::memory_order_relaxed); known != 0) return known;
  std::size_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    const File file = open_text("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    std::size_t size = 0;
    char unit = 0;
    if (!file || std::fscanf(file.get(), "%zu%c", &size, &unit) < 1) continue;
    largest = std::max(largest, size << (unit == 'M' ? 20 : unit == 'K' ? 10 : 0));
  }
  if (largest == 0) largest = std::size_t{32} << 20;
  found.store(largest, std::memory_order_relaxed);
  return largest;
}

Result<std::uint64_t> bytes_in_environment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return UINT64_MAX;
  const std::string_view all(text);
  constexpr std::string_view kUnits = "KMGT";
  const std::size_t unit =
      kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(all.back()))));
  const std::string_view digits = unit == std::string_view::npos ? all : all.substr(0, all.size() - 1);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const unsigned shift = unit == std::string_view::npos ? 0 : 10 * (static_cast<unsigned>(unit) + 1);
  if (error != std::errc() || end != digits.data() + digits.size() || number == 0 ||
      number > UINT64_MAX >> shift) {
    return {Code::kInvalid, std::string(name) + " is \"" + std::string(all) +
                                "\": a number of bytes, or one with K, M, G or T"};
  }
  return number << shift;
}

bool set_in_environment(const char* name) noexcept {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != 0 && std::string_view(value) != "0";
}

std::uint64_t address_space_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  return limit.rlim_cur;
}

LiftedFileSizeLimit::LiftedFileSizeLimit() noexcept : bytes_(kUnlimited) {
  if (::getrlimit(RLIMIT_FSIZE, &before_) != 0 || before_.rlim_cur == RLIM_INFINITY) return;
  const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
  const rlimit hard{before_.rlim_max, before_.rlim_max};
  if (::setrlimit(RLIMIT_FSIZE, &none) == 0) {
    lifted_ = true;
  } else {
    lifted_ = ::setrlimit(RLIMIT_FSIZE, &hard) == 0;
    if (before_.rlim_max != RLIM_INFINITY) bytes_ = lifted_ ? before_.rlim_max : before_.rlim_cur;
  }
}

LiftedFileSizeLimit::~LiftedFileSizeLimit() {
  if (lifted_) (void)::setrlimit(RLIMIT_FSIZE, &before_);
}

std::uint64_t available_memory() noexcept { return std::min(meminfo_available(), cgroup_headroom()); }

std::uint64_t own_memory() noexcept {
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[128];
  const ssize_t length = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (length <= 0) return 0;
  text[length] = '\0';
  unsigned long long resident = 0;
  unsigned long long shared = 0;
  if (std::sscanf(text, "%*u %llu %llu", &resident, &shared) != 2 || resident < shared) return 0;
  return (resident - shared) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace forklift::inline abi_0_1::os
