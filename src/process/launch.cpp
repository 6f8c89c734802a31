#include "process/launch.h"

#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <new>
#include <string_view>

#include "base/log.h"
#include "device/device.h"
#include "node/node.h"
#include "process/report.h"

namespace forklift::inline abi_0_1::process {
namespace {

Status put_report(const RemoteError::Details& details, const channel::ChannelPtr& reports) {
  if (!reports) return {Code::kClosed, "there is no channel to the parent"};
  const std::vector<std::byte> bytes = encode_report(details);
  // The channel is unbounded, so only a stalled lock could make this wait.
  return reports->put({bytes, {}, kErrorCodec, 0}, os::Deadline::after_seconds(5));
}

void send_report(RemoteError::Details details, const channel::ChannelPtr& reports, const Identity& identity) {
  details.process = identity.name;
  details.rank = identity.rank;
  details.pid = ::getpid();
  Status sent;
  try {
    sent = put_report(details, reports);
  } catch (const std::bad_alloc&) {
    // The text itself may be too large for the memory that is left.
    details.message.resize(std::min<std::size_t>(details.message.size(), 200));
    details.causes.clear();
    details.stack.clear();
    sent = put_report(details, reports);
  }
  if (!sent.ok()) {
    log(Severity::kError, identity.name + " (pid " + std::to_string(details.pid) + "): " + describe(details) +
                              "\n  (not told to the parent: " + sent.to_string() + ")");
  }
}

// A forked child has its parent's frames below it. No unwinding (an exception thrown while the report is
// made, a thread that ends) may reach them: the child would continue as if it were its parent.
class NoWayBack {
 public:
  NoWayBack() = default;
  ~NoWayBack() {
    log(Severity::kError, "a forked process was about to leave its function by an exception");
    ::_exit(1);
  }
  NoWayBack(const NoWayBack&) = delete;
  NoWayBack& operator=(const NoWayBack&) = delete;
};

class FileActions {
 public:
  FileActions() { ::posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;

  // Duplicates the descriptor onto itself, which clears close-on-exec in the child alone.
  int inherit(int file) { return ::posix_spawn_file_actions_adddup2(&actions_, file, file); }
  const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Is this a variable of an invitation to this process? Those must not reach its children.
bool is_for_us(std::string_view variable) {
  constexpr std::string_view kOurs[] = {"FORKLIFT_DOMAIN=",   "FORKLIFT_CHANNELS=", "FORKLIFT_LIFELINE=",
                                        "FORKLIFT_FUNCTION=", "FORKLIFT_ZYGOTE=",   "FORKLIFT_NAME=",
                                        "FORKLIFT_PARENT=",   "FORKLIFT_SELF=",     "FORKLIFT_GROUP="};
  return std::any_of(std::begin(kOurs), std::end(kOurs),
                     [&](std::string_view name) { return variable.starts_with(name); });
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (!is_for_us(*entry)) result.emplace_back(*entry);
  }
  for (const auto& [name, value] : variables) result.emplace_back(name).append("=").append(value);
  return result;
}

}  // namespace

void flush_streams() {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
}

int run_and_report(const std::function<int()>& entry, const channel::ChannelPtr& reports,
                   const Identity& identity) {
  int code = 1;
  std::optional<RemoteError::Details> failure = failure_of([&] { code = entry(); });
  if (failure) send_report(*std::move(failure), reports, identity);
  return code;
}

Result<pid_t> fork_child(const std::function<int()>& entry, const channel::ChannelPtr& reports,
                         const Identity& identity) {
  flush_streams();
  const Parent parent = as_parent();
  const pid_t pid = ::fork();
  if (pid < 0) return Status::system("fork", errno);
  if (pid > 0) return pid;
  const NoWayBack here;
  node::MakeIn::forget();
  become(identity, parent);
  const int code = run_and_report(entry, reports, identity);
  flush_streams();
  device::leave();
  node::Node::mark_all_clean();
  ::_exit(code & 0xff);
}

Result<pid_t> start_program(const std::string& path, const std::vector<std::string>& argv,
                            const ProgramInvitation& invitation) {
  if (argv.empty()) return {Code::kInvalid, "a program without a name: argv is empty"};
  FileActions actions;
  for (const int file : invitation.descriptors) {
    if (const int error = actions.inherit(file)) return Status::system("posix_spawn_file_actions", error);
  }
  std::vector<std::string> arguments = argv;
  std::vector<std::string> environment = environment_with(invitation.variables);
  flush_streams();
  pid_t pid = 0;
  const std::string& program = path.empty() ? argv.front() : path;
  const auto start = path.empty() ? ::posix_spawnp : ::posix_spawn;
  const int error = start(&pid, program.c_str(), actions.get(), nullptr, pointers(arguments).data(),
                          pointers(environment).data());
  if (error != 0) return Status::system("posix_spawn", error, program);
  return pid;
}

}  // namespace forklift::inline abi_0_1::process
