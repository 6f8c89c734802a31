// The parent's side of zygote.h.
#include "process/zygote.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>

#include "base/log.h"
#include "os/socket.h"
#include "process/launch.h"
#include "process/program.h"
#include "process/zygote_wire.h"

namespace forklift::inline abi_0_1::process {
namespace {

constexpr std::int64_t kGraceNs = 5'000'000'000;
// For the first answer, before which the program has to come to init().
constexpr std::int64_t kFirstAnswerNs = 60'000'000'000;

class Zygote {
 public:
  std::mutex mutex;

  Status ensure() {
    if (child_) return {};
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
      return Status::system("socketpair", errno, "to the forkserver");
    os::Fd ours(ends[0]);
    const os::Fd theirs(ends[1]);
    ProgramInvitation invitation;
    invitation.variables = {{kZygoteVariable, std::to_string(theirs.get())}};
    invitation.descriptors = {theirs.get()};
    const Result<pid_t> pid = start_program("/proc/self/exe", {program_name()}, invitation);
    if (!pid) return pid.status();
    Result<Child> child = Child::watch(*pid);
    if (!child) {
      ours.close();  // which ends the zygote
      ::kill(*pid, SIGKILL);
      ::waitpid(*pid, nullptr, 0);
      return child.status();
    }
    child_ = *std::move(child);
    connection_ = std::move(ours);
    answered_ = false;
    return {};
  }

  // kPeerDied: the zygote is gone. kStalled: it did not answer, and was killed.
  Result<Reply> ask(const std::vector<std::int32_t>& numbers, const std::vector<std::string>& variables,
                    std::span<const int> descriptors) {
    const Status sent = send_request(connection_.get(), numbers, variables, descriptors);
    if (!sent && sent.errno_value() != EPIPE && sent.errno_value() != ECONNRESET) return sent;
    const os::Deadline deadline = os::Deadline::after_ns(answered_ ? kGraceNs : kFirstAnswerNs);
    for (;;) {
      pollfd items[2] = {{connection_.get(), POLLIN, 0}, {child_->sentinel(), POLLIN, 0}};
      const int ready = ::poll(items, 2, static_cast<int>(deadline.left_ns(kFirstAnswerNs) / 1'000'000 + 1));
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0 && !deadline.passed()) continue;
      Reply reply;
      // Read also when the zygote is gone: it may have answered before it ended.
      const ssize_t got = ::recv(connection_.get(), &reply, sizeof reply, MSG_DONTWAIT);
      if (got == sizeof reply) {
        answered_ = true;
        return reply;
      }
      if (got < 0 && errno == EAGAIN && ready > 0 && items[1].revents == 0) continue;
      return ready > 0 ? wait_for_end(false) : wait_for_end(true);
    }
  }

  // Waits for the zygote's end and returns how it ended.
  Status wait_for_end(bool stalled) {
    const pid_t pid = child_->pid();
    connection_.close();
    if (stalled) (void)child_->signal(SIGKILL).ok();
    Result<bool> ended = child_->wait(os::Deadline::after_ns(kGraceNs));
    if (!ended || !*ended) {
      (void)child_->signal(SIGKILL).ok();
      ended = child_->wait(os::Deadline::after_ns(kGraceNs));
    }
    const int code = child_->exitcode().value_or(0);
    child_.reset();
    const std::string who = "the forkserver's process " + std::to_string(pid);
    if (stalled) {
      return {Code::kStalled, who + (answered_ ? " is stopped: it did not answer for 5 s"
                                               : " did not come to forklift::init() within 60 s; is it the "
                                                 "first line of main?")};
    }
    return {Code::kPeerDied, who +
                                 (code < 0 ? " was ended by signal " + std::to_string(-code)
                                           : " exited with code " + std::to_string(code)) +
                                 (answered_ ? "" : " before it came to forklift::init()")};
  }

  void forget() {
    connection_.close();
    child_.reset();
  }
  bool exists() const noexcept { return child_.has_value(); }
  pid_t pid() const noexcept { return child_ ? child_->pid() : 0; }

  // Logs why the zygote cannot be copied, once.
  void say_once(const Reply& reply) {
    if (said_) return;
    said_ = true;
    const std::string why = reply.threads > 1
                                ? std::to_string(reply.threads) + " threads run in it before init()"
                                : "this system does not allow it";
    log(Severity::kWarning,
        "the forkserver cannot be copied (" + why + "); its children are spawned instead");
  }

 private:
  std::optional<Child> child_;
  os::Fd connection_;
  bool answered_ = false;
  bool said_ = false;
};

Zygote& own_zygote() {
  static Zygote* const zygote = new Zygote;  // never destroyed: the connection closes with the process
  return *zygote;
}

// A forked child's copy of the connection would keep the zygote alive.
void hold_zygote() { own_zygote().mutex.lock(); }
void let_zygote_go() { own_zygote().mutex.unlock(); }
void drop_zygote() {
  own_zygote().forget();
  own_zygote().mutex.unlock();
}

// The pid that the child itself has sent, for when the zygote no longer can. 0: there is no child.
pid_t announced(int go) {
  pollfd item{go, POLLIN, 0};
  const os::Deadline deadline = os::Deadline::after_ns(kGraceNs);
  while (::poll(&item, 1, static_cast<int>(deadline.left_ns(kGraceNs) / 1'000'000)) < 0 && errno == EINTR) {
  }
  pid_t pid = 0;
  return ::recv(go, &pid, sizeof pid, MSG_DONTWAIT) == sizeof pid ? pid : 0;
}

// Lets the child run. If it cannot be watched, it is killed instead.
Result<std::optional<Child>> let_go(pid_t pid, int go) {
  Result<Child> child = Child::watch(pid);
  if (!child) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return child.status();
  }
  const char byte = 1;
  (void)!::send(go, &byte, 1, MSG_NOSIGNAL);  // if the child is dead already, its exit code says so
  return std::optional<Child>(*std::move(child));
}

}  // namespace

Result<std::optional<Child>> start_copy(const ProgramInvitation& invitation) {
  static std::once_flag installed;
  std::call_once(installed, [] { ::pthread_atfork(hold_zygote, let_zygote_go, drop_zygote); });
  std::vector<std::int32_t> numbers(invitation.descriptors.begin(), invitation.descriptors.end());
  for (int standard = 0; standard <= 2; ++standard)
    if (::fcntl(standard, F_GETFD) >= 0) numbers.push_back(standard);
  std::vector<std::string> variables;
  for (const auto& [name, value] : invitation.variables)
    variables.emplace_back(name).append("=").append(value);

  Zygote& zygote = own_zygote();
  const std::lock_guard<std::mutex> lock(zygote.mutex);
  for (bool again = false;; again = true) {
    if (Status status = zygote.ensure(); !status) return status;
    Result<std::pair<os::Fd, os::Fd>> go = os::stream_pair();
    if (!go) return go.status();
    std::vector<int> descriptors{go->second.get()};
    descriptors.insert(descriptors.end(), numbers.begin(), numbers.end());
    const Result<Reply> reply = zygote.ask(numbers, variables, descriptors);
    go->second.close();
    if (reply) {
      if (reply->pid > 0) return let_go(reply->pid, go->first.get());
      if (reply->error != 0 && reply->error != ENOSYS && reply->error != EINVAL && reply->error != EPERM)
        return Status::system("clone", reply->error, "of the forkserver");
      zygote.say_once(*reply);
      return std::optional<Child>();
    }
    if (zygote.exists()) return reply.status();  // nothing was sent
    if (const pid_t pid = announced(go->first.get()); pid > 0) return let_go(pid, go->first.get());
    if (again) return reply.status();
  }
}

void stop_zygote() {
  Zygote& zygote = own_zygote();
  const std::lock_guard<std::mutex> lock(zygote.mutex);
  if (zygote.exists()) (void)zygote.wait_for_end(false).ok();
}

pid_t zygote_pid() {
  Zygote& zygote = own_zygote();
  const std::lock_guard<std::mutex> lock(zygote.mutex);
  return zygote.pid();
}

}  // namespace forklift::inline abi_0_1::process
