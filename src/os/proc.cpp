#include "os/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace forklift::inline abi_0_1::os {

namespace {

// The part of /proc/PID/stat behind the command's closing parenthesis (a command may hold spaces and ')'). It
// reads into the caller's buffer and without stdio or the locale: each forked child calls it, and would have
// to copy their pages.
const char* stat_tail(pid_t pid, char* buffer, std::size_t capacity) noexcept {
  char path[40] = "/proc/";
  char* const end = std::to_chars(path + 6, path + 24, static_cast<int>(pid)).ptr;
  std::memcpy(end, "/stat", 6);
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return nullptr;
  const ssize_t got = ::read(file.get(), buffer, capacity - 1);
  if (got <= 0) return nullptr;
  buffer[got] = '\0';
  const char* close = std::strrchr(buffer, ')');
  return close && close[1] == ' ' ? close + 2 : nullptr;
}

}  // namespace

char task_state(pid_t task) noexcept {
  char buffer[1024];
  const char* tail = stat_tail(task, buffer, sizeof buffer);
  return tail ? *tail : '\0';
}

std::uint64_t start_time(pid_t pid) noexcept {
  char buffer[1024];
  const char* field = stat_tail(pid, buffer, sizeof buffer);
  for (int index = 3; field && index < 22; ++index) {
    field = std::strchr(field, ' ');
    if (field) ++field;
  }
  std::uint64_t ticks = 0;
  if (field) std::from_chars(field, buffer + sizeof buffer, ticks);
  return ticks;
}

bool is_gone(pid_t pid) noexcept { return ::kill(pid, 0) != 0 && errno == ESRCH; }

std::vector<pid_t> tasks_of(pid_t process) {
  struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  std::vector<pid_t> found;
  const std::string path = "/proc/" + std::to_string(process) + "/task";
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path.c_str()));
  if (!folder) return found;
  while (const dirent* entry = ::readdir(folder.get())) {
    pid_t task = 0;
    std::from_chars(entry->d_name, entry->d_name + std::strlen(entry->d_name), task);
    if (task > 0) found.push_back(task);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<std::string> read_proc(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  char buffer[1024];
  const ssize_t got = ::read(file.get(), buffer, sizeof buffer - 1);
  if (got < 0) return std::nullopt;
  return std::string(buffer, static_cast<std::size_t>(got));
}

std::optional<bool> maps_inode(pid_t pid, std::uint64_t inode) noexcept {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/%d/maps", static_cast<int>(pid));
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(std::fopen(path, "re"), std::fclose);
  if (!maps) return errno == ENOENT || errno == ESRCH ? std::optional<bool>(false) : std::nullopt;
  char line[512];
  while (std::fgets(line, sizeof line, maps.get())) {
    // address perms offset dev inode path; lines longer than the buffer continue and match nothing
    const char* field = line;
    for (int skip = 0; field && skip < 4; ++skip) {
      field = std::strchr(field, ' ');
      if (field) ++field;
    }
    if (field && std::strtoull(field, nullptr, 10) == inode) return true;
  }
  if (std::ferror(maps.get()) != 0 && errno != ESRCH) return std::nullopt;
  return false;
}

std::uint64_t pid_namespace() noexcept {
  struct stat info{};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? static_cast<std::uint64_t>(info.st_ino) : 0;
}

int allowed_cpus() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count < 1 ? 1 : count;
}

int online_cpus() noexcept {
  const long count = ::sysconf(_SC_NPROCESSORS_ONLN);
  return count < 1 ? 1 : static_cast<int>(count);
}

int current_cpu() noexcept { return ::sched_getcpu(); }

bool leave_cpu(int cpu) noexcept {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (cpu < 0 || cpu >= CPU_SETSIZE || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  cpu_set_t others = allowed;
  CPU_CLR(static_cast<std::size_t>(cpu), &others);
  if (CPU_COUNT(&others) == 0 || ::sched_setaffinity(0, sizeof others, &others) != 0) return false;
  static_cast<void>(::sched_setaffinity(0, sizeof allowed, &allowed));
  return true;
}

Result<Fd> open_pidfd(pid_t pid) {
  const long raw = ::syscall(SYS_pidfd_open, pid, 0);
  if (raw < 0) return Status::system("pidfd_open", errno, "pid " + std::to_string(pid));
  return Fd(static_cast<int>(raw));
}

Result<bool> wait_pidfd(const Fd& pidfd, int timeout_ms) {
  pollfd item{pidfd.get(), POLLIN, 0};
  const int rc = ::poll(&item, 1, timeout_ms);
  if (rc < 0) {
    if (errno == EINTR) return Status(Code::kInterrupted, "waiting for a process");
    return Status::system("poll", errno, "pidfd");
  }
  return rc == 1;
}

}  // namespace forklift::inline abi_0_1::os
