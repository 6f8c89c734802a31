#include "inspect/machine.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "os/mapping.h"
#include "os/proc.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

std::string trimmed(std::optional<std::string> text) {
  if (!text) return {};
  while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
  return *std::move(text);
}

// The fields of a stat file behind the name, which may hold anything; the first is the state (field 3).
std::vector<std::string> stat_fields(const std::string& path) {
  const std::string text = trimmed(os::read_proc(path));
  const std::size_t end = text.rfind(')');
  std::vector<std::string> fields;
  if (end == std::string::npos) return fields;
  std::istringstream rest(text.substr(end + 1));
  for (std::string field; rest >> field;) fields.push_back(std::move(field));
  return fields;
}

std::optional<Call> call_of(const std::string& path) {
  const std::string text = trimmed(os::read_proc(path));
  if (text.empty() || text == "running") return std::nullopt;
  std::istringstream words(text);
  Call call;
  if (!(words >> call.number)) return std::nullopt;
  for (std::uint64_t& argument : call.arguments) {
    std::string word;
    if (!(words >> word)) break;
    argument = std::strtoull(word.c_str(), nullptr, 16);
  }
  return call;
}

ThreadState look_at_thread(const std::string& folder, pid_t thread) {
  const std::string path = folder + "/task/" + std::to_string(thread);
  ThreadState state;
  state.thread = thread;
  const std::vector<std::string> fields = stat_fields(path + "/stat");
  if (!fields.empty()) state.state = fields[0][0];
  state.name = trimmed(os::read_proc(path + "/comm"));
  state.channel = trimmed(os::read_proc(path + "/wchan"));
  if (state.channel == "0") state.channel.clear();
  state.call = call_of(path + "/syscall");
  return state;
}

bool is_one_of(long number, std::initializer_list<long> numbers) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

}  // namespace

bool ThreadState::is_internal(pid_t process) const noexcept {
  return thread != process && name.starts_with("forklift-");
}

bool ThreadState::waits_for_memory(pid_t process) const noexcept {
  if (state != 'S') return false;
  if (!call) return thread != process && channel.starts_with("futex");
  if (call->number != SYS_futex) return false;
  const std::uint64_t operation = call->arguments[1] & static_cast<std::uint64_t>(FUTEX_CMD_MASK);
  const bool sleeps = operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET || operation == FUTEX_LOCK_PI;
  // One that other processes can wake is for something that this library does not know.
  return sleeps && call->arguments[3] == 0 && (call->arguments[1] & FUTEX_PRIVATE_FLAG) != 0;
}

bool ThreadState::reads_input() const noexcept {
  if (state != 'S' || !call || call->arguments[0] != 0) return false;
  return is_one_of(call->number, {SYS_read, SYS_readv, SYS_pread64});
}

pid_t ThreadState::waits_for_process() const noexcept {
  if (state != 'S' || !call) return 0;
  constexpr std::uint64_t kByPid = P_PID;
  if (call->number == SYS_wait4 && static_cast<pid_t>(call->arguments[0]) > 0)
    return static_cast<pid_t>(call->arguments[0]);
  if (call->number == SYS_waitid && call->arguments[0] == kByPid)
    return static_cast<pid_t>(call->arguments[1]);
  return 0;
}

ProcessState look_at(pid_t pid, Detail detail) {
  ProcessState process;
  process.pid = pid;
  const std::string folder = "/proc/" + std::to_string(pid);
  const std::vector<std::string> fields = stat_fields(folder + "/stat");
  if (fields.size() < 2) return process;
  process.there = true;
  process.state = fields[0][0];
  process.parent = static_cast<pid_t>(std::atoi(fields[1].c_str()));
  constexpr std::size_t kExitCode = 52 - 3;
  if (process.is_zombie() && fields.size() > kExitCode)
    process.wait_status = std::atoi(fields[kExitCode].c_str());
  process.name = trimmed(os::read_proc(folder + "/comm"));
  constexpr std::size_t kUserTime = 14 - 3, kSystemTime = 15 - 3;
  if (fields.size() > kSystemTime) {
    const double ticks = std::atof(fields[kUserTime].c_str()) + std::atof(fields[kSystemTime].c_str());
    process.cpu_seconds = ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }
  std::istringstream pages(trimmed(os::read_proc(folder + "/statm")));
  std::uint64_t all = 0, resident = 0, shared = 0;
  if (pages >> all >> resident >> shared)
    process.own_bytes = (resident - std::min(shared, resident)) * os::page_size();
  if (detail == Detail::kNumbers) return process;
  for (const pid_t thread : os::tasks_of(pid)) {
    process.threads.push_back(look_at_thread(folder, thread));
    std::istringstream children(
        trimmed(os::read_proc(folder + "/task/" + std::to_string(thread) + "/children")));
    for (pid_t child = 0; children >> child;) process.children.push_back(child);
  }
  return process;
}

std::string ending_of(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const char* const name = ::sigabbrev_np(WTERMSIG(wait_status));
    return name != nullptr ? std::string("was killed by SIG") + name
                           : "was killed by signal " + std::to_string(WTERMSIG(wait_status));
  }
  return "ended with exit code " + std::to_string(WEXITSTATUS(wait_status));
}

}  // namespace forklift::inline abi_0_1::inspect
