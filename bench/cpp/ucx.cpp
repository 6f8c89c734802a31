// UCX beside the round trip and the flows of large messages, through its interface of tagged messages. It brings the
// program that measures it (ucx_perftest), which is looked for on PATH when a row is measured: a server and a client
// that find each other over loopback and exchange the messages through shared memory, polling.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "cpp/case.h"
#include "cpp/workers.h"

namespace bench {
namespace {

using Words = std::vector<std::string>;

constexpr int kNotFound = 127;  // the status of a child that found no program
constexpr std::int64_t kSecond = 1'000'000'000;

// One ucx_perftest. It does not outlive this object, nor this process.
class Perftest {
 public:
  // `processor`: the one to which it is bound; negative: none.
  Perftest(Words arguments, int processor) {
    arguments.insert(arguments.begin(), "ucx_perftest");
    std::vector<char*> argv;
    for (std::string& one : arguments) argv.push_back(one.data());
    argv.push_back(nullptr);
    int output[2];
    if (::pipe2(output, O_CLOEXEC) != 0) fail("pipe");
    pid_ = ::fork();
    if (pid_ < 0) fail("fork");
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (processor >= 0) pin_to(processor);
      // Short messages through a segment, long ones by one copy from process to process; nothing over a network.
      ::setenv("UCX_TLS", "posix,cma,self", 1);
      ::dup2(output[1], STDOUT_FILENO);
      ::dup2(output[1], STDERR_FILENO);
      ::execvp(argv[0], argv.data());
      ::_exit(kNotFound);
    }
    ::close(output[1]);
    output_ = output[0];
  }
  ~Perftest() {
    if (!ended_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, &status_, 0);
    }
    ::close(output_);
  }
  Perftest(const Perftest&) = delete;
  Perftest& operator=(const Perftest&) = delete;

  // Reads what it prints until it ends; false if that takes too long.
  bool finish(std::int64_t deadline) {
    for (;;) {
      pollfd waiting{output_, POLLIN, 0};
      const std::int64_t left = deadline - now_ns();
      const int ready = left <= 0 ? 0 : ::poll(&waiting, 1, static_cast<int>(left / 1'000'000) + 1);
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return false;
      char text[1024];
      const ssize_t n = ::read(output_, text, sizeof text);
      if (n <= 0) break;
      printed_.append(text, static_cast<std::size_t>(n));
    }
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    ended_ = true;
    return true;
  }
  bool ended() {
    if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return ended_;
  }
  int status() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1; }
  const std::string& printed() const { return printed_; }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  int status_ = 0;
  bool ended_ = false;
  std::string printed_;
};

// A port of loopback that nobody uses now. Its program cannot choose one itself and say which.
std::string free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  if (socket < 0 || ::bind(socket, general, size) != 0 || ::getsockname(socket, general, &size) != 0)
    fail("a free port");
  ::close(socket);
  return std::to_string(ntohs(address.sin_port));
}

// The words between commas of a line of a table.
Words cells(const std::string& line) {
  Words found;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    found.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return found;
}

// Microseconds, of the line of figures below the line with their names; 0 if there are none.
double overall_us(const std::string& table) {
  const std::size_t head = table.find("iterations,");
  if (head == std::string::npos) return 0;
  const std::size_t end = std::min(table.find('\n', head), table.size() - 1);
  const Words names = cells(table.substr(head, end - head));
  const Words figures = cells(table.substr(end + 1, table.find('\n', end + 1) - end - 1));
  for (std::size_t i = 0; i < std::min(names.size(), figures.size()); ++i)
    if (names[i] == "overall_lat") return std::strtod(figures[i].c_str(), nullptr);
  return 0;
}

// What ucx_perftest calls the latency of `test`, over all messages.
double latency_us(const char* test, std::size_t bytes, std::size_t count, bool bound) {
  const std::string port = free_port();
  const Words client_words{"127.0.0.1",
                           "-p",
                           port,
                           "-t",
                           test,
                           "-s",
                           std::to_string(bytes),
                           "-n",
                           std::to_string(count),
                           "-w",
                           std::to_string(count / 10 + 1),
                           "-f",
                           "-v"};
  const std::int64_t begin = now_ns();
  const std::int64_t deadline = begin + 60 * kSecond;
  Perftest server({"-p", port}, bound ? 0 : -1);
  // The server does not say when it listens, as it writes that into a buffer; a client that comes too early ends.
  while (now_ns() < begin + 10 * kSecond) {
    Perftest client(client_words, bound ? 1 : -1);
    if (!client.finish(deadline)) break;
    if (client.status() == kNotFound) throw MissingPeer("there is no ucx_perftest (make setup-bench)");
    if (const double found = overall_us(client.printed()); client.status() == 0 && found > 0) {
      server.finish(now_ns() + 5 * kSecond);
      return found;
    }
    if (server.ended()) break;
    ::usleep(10'000);
  }
  throw MissingPeer(std::string("`ucx_perftest -t ") + test + "` failed");
}

// It tells the time of one way, half of what it measured.
Measure round_trip(bool apart) {
  return
      [apart](const Run& run) { return 2 * latency_us("tag_lat", 64, run.count(500'000), apart || run.pin); };
}

Measure flow(std::size_t bytes, std::size_t full) {
  return [=](const Run& run) { return latency_us("tag_bw", bytes, run.count(full), run.pin); };
}

const Contender unbound{"cpp-rtt-64B", "UCX", Role::kPeer, "us", round_trip(false)};
const Contender apart{"cpp-rtt-64B-apart", "UCX", Role::kPeer, "us", round_trip(true)};
const Contender flow_1m{"cpp-oneway-1M", "UCX", Role::kPeer, "us", flow(1'048'576, 5'000)};
const Contender flow_16m{"cpp-oneway-16M", "UCX", Role::kPeer, "us", flow(16'777'216, 150)};

}  // namespace
}  // namespace bench
