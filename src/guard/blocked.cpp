#include "guard/blocked.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>

#include "os/proc.h"

namespace forklift::inline abi_0_1::guard {

namespace {

// The field of /proc/PID/stat with this number, counted from 1 as in proc(5); at least 3.
std::string_view stat_field(const std::string& stat, int wanted) {
  std::size_t at = stat.rfind(')');
  if (at == std::string::npos || at + 2 > stat.size()) return {};
  at += 2;
  for (int field = 3; field < wanted; ++field) {
    at = stat.find(' ', at);
    if (at == std::string::npos) return {};
    ++at;
  }
  return std::string_view(stat).substr(at, stat.find(' ', at) - at);
}

std::uint64_t number(std::string_view text, int base) {
  std::uint64_t value = 0;
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

// `text` is that of /proc/PID/task/TID/syscall: the number, six arguments, stack and program pointer.
void read_wait(std::string_view text, BlockedThread& thread) {
  if (text.starts_with("running")) {
    thread.waits = "running";
    return;
  }
  std::array<std::string_view, 5> words;
  for (std::string_view& word : words) {
    const std::size_t end = std::min(text.find(' '), text.size());
    word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const std::uint64_t call = number(words[0], 10);
  if (call != SYS_futex) {
    thread.waits = "system call " + std::string(words[0]);
    return;
  }
  const std::uint64_t operation = number(words[2], 16);
  const std::uint64_t command = operation & static_cast<std::uint64_t>(FUTEX_CMD_MASK);
  const bool is_private = (operation & FUTEX_PRIVATE_FLAG) != 0;
  const bool timed = number(words[4], 16) != 0;
  const bool waits = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET || command == FUTEX_LOCK_PI;
  thread.in_own_lock = waits && is_private;
  thread.forever = thread.in_own_lock && !timed;
  thread.waits = "futex " + std::string(words[1]) + (is_private ? " (private" : " (shared") +
                 (timed ? ", with a time-out)" : ")");
}

}  // namespace

bool Blocked::deadlocked() const {
  return !threads.empty() && std::ranges::all_of(threads, &BlockedThread::forever);
}

bool Blocked::waits_for_itself() const {
  return !threads.empty() && std::ranges::all_of(threads, &BlockedThread::in_own_lock);
}

Result<Blocked> blocked_threads(pid_t process) {
  const std::string base = "/proc/" + std::to_string(process);
  const std::optional<std::string> stat = os::read_proc(base + "/stat");
  if (!stat || stat_field(*stat, 3) == "Z") {
    return {Code::kNotFound, "process " + std::to_string(process) + " has ended"};
  }
  Blocked found;
  found.cpu_ticks = number(stat_field(*stat, 14), 10) + number(stat_field(*stat, 15), 10);
  for (const pid_t id : os::tasks_of(process)) {
    const std::string task = base + "/task/" + std::to_string(id);
    BlockedThread thread;
    thread.id = id;
    thread.name = os::read_proc(task + "/comm").value_or("\n");
    thread.name.resize(thread.name.find('\n') == std::string::npos ? thread.name.size()
                                                                   : thread.name.find('\n'));
    const std::string state = os::read_proc(task + "/stat").value_or("");
    thread.state = state.empty() ? '\0' : stat_field(state, 3).front();
    const std::optional<std::string> call = os::read_proc(task + "/syscall");
    if (!call && (errno == EPERM || errno == EACCES)) {
      return {Code::kRefused,
              "the kernel does not show the system calls of process " + std::to_string(process)};
    }
    if (call) read_wait(*call, thread);
    found.threads.push_back(std::move(thread));
  }
  return found;
}

}  // namespace forklift::inline abi_0_1::guard
