// The same quotes as Unix datagrams, without Forklift. See pub_sub.cpp.
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "pub_sub.h"

namespace {

[[noreturn]] void fail(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

// A name in the abstract namespace: no file stays behind.
struct Address {
  explicit Address(const std::string& name) {
    where.sun_family = AF_UNIX;
    std::memcpy(where.sun_path + 1, name.data(), std::min(name.size(), sizeof where.sun_path - 1));
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&where); }
  sockaddr_un where{};
  socklen_t length = 0;
};

class Socket {
 public:
  Socket() : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    if (fd_ < 0) fail("socket");
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  void bind(const Address& here) const {
    if (::bind(fd_, here.get(), here.length) != 0) fail("bind");
  }
  void connect(const Address& there) const {
    if (::connect(fd_, there.get(), there.length) != 0) fail("connect");
  }
  // Waits while the reader's queue is full. False: the reader is gone.
  template <class T>
  bool send(const T& item) const {
    while (::send(fd_, &item, sizeof item, MSG_NOSIGNAL) < 0) {
      if (errno == ECONNREFUSED || errno == ECONNRESET || errno == ENOTCONN) return false;
      if (errno != EINTR && errno != ENOBUFS) fail("send");
    }
    return true;
  }
  template <class T>
  T receive() const {
    T item{};
    while (::recv(fd_, &item, sizeof item, 0) < 0) {
      if (errno != EINTR) fail("recv");
    }
    return item;
  }

 private:
  int fd_;
};

std::string name_of(pid_t publisher, int reader) {
  return "pub_sub-" + std::to_string(publisher) + "-" + std::to_string(reader);
}

// A reader: binds its name, says hello, reads until the end, and answers with what it has seen.
void watch(pid_t publisher, int id) {
  Socket in, out;
  in.bind(Address(name_of(publisher, id)));
  out.connect(Address(name_of(publisher, -1)));
  if (!out.send(Seen{.quotes = id})) return;
  Seen seen;
  for (Quote quote = in.receive<Quote>(); quote.number >= 0; quote = in.receive<Quote>()) seen.add(quote);
  (void)out.send(seen);
}

}  // namespace

std::int64_t with_datagrams(std::int64_t quotes, int readers) {
  const pid_t publisher = ::getpid();
  Socket in;
  in.bind(Address(name_of(publisher, -1)));
  std::vector<pid_t> children;
  for (int id = 0; id < readers; ++id) {
    children.push_back(::fork());
    if (children.back() < 0) fail("fork");
    if (children.back() > 0) continue;
    try {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a datagram socket has no end: not to wait for a dead publisher
      watch(publisher, id);
      ::_exit(0);
    } catch (...) {
      ::_exit(1);
    }
  }
  std::vector<Socket> subscribers;
  for (int i = 0; i < readers; ++i) {
    const auto hello = in.receive<Seen>();
    subscribers.emplace_back().connect(Address(name_of(publisher, static_cast<int>(hello.quotes))));
  }
  const auto put = [&](const Quote& quote) {
    std::erase_if(subscribers, [&](const Socket& reader) { return !reader.send(quote); });
  };
  for (std::int64_t number = 0; number < quotes; ++number)
    put({.run = 0, .number = number, .price = price_of(number)});
  put({.run = 0, .number = -1, .price = 0});
  std::int64_t all = 0;
  for (std::size_t i = 0; i < subscribers.size(); ++i) {
    const auto seen = in.receive<Seen>();
    all += seen.quotes - seen.gaps;
  }
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  return all;
}
