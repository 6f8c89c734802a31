// The handshake with whoever is no proper partner: other versions, users, namespaces, garbage, the silent,
// the stopped, and directories that are not safe.
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <random>

#include "os/local_socket.h"
#include "os/proc.h"
#include "rendezvous/handshake.h"
#include "rendezvous/named_domain.h"
#include "support/child.h"
#include "support/runtime_dir.h"
#include "support/status_check.h"

namespace forklift::process {
namespace {

using test::Child;
using test::Gate;
using testing::HasSubstr;

rendezvous::NamedDomainOptions within(double seconds) {
  rendezvous::NamedDomainOptions options;
  options.deadline = os::Deadline::after_seconds(seconds);
  return options;
}

int attach_and_say(const std::vector<std::string>& arguments) {
  const Result<rendezvous::NamedDomainPtr> served =
      rendezvous::NamedDomain::attach(arguments.at(0), within(std::stod(arguments.at(1))));
  if (served) return 0;
  std::fprintf(stderr, "%s\n", served.status().to_string().c_str());
  return 10 + static_cast<int>(served.code());
}
const bool kAttach = test::add_helper("attach and say", attach_and_say);

int serve_and_stay(const std::vector<std::string>& arguments) {
  const Result<rendezvous::NamedDomainPtr> served = rendezvous::NamedDomain::serve(arguments.at(0));
  const std::uint64_t one = 1;
  (void)!::write(std::stoi(arguments.at(1)), &one, sizeof one);
  for (;;) ::pause();
}
const bool kServe = test::add_helper("serve and stay", serve_and_stay);

class HandshakeTest : public testing::Test {
 protected:
  // What the server of "x" answers to this, if anything within a second.
  static std::optional<rendezvous::Handshake> ask(std::span<const std::byte> packet,
                                                  std::size_t* files = nullptr) {
    const Result<rendezvous::NameLock> name_lock = rendezvous::NameLock::find("x");
    EXPECT_OK(name_lock);
    return ask(*name_lock->knock(), packet, files);
  }
  static std::optional<rendezvous::Handshake> ask(const os::Fd& socket, std::span<const std::byte> packet,
                                                  std::size_t* files = nullptr) {
    EXPECT_OK(os::send_packet(socket, packet, {}));
    std::array<std::byte, 512> buffer;
    std::optional<rendezvous::Handshake> said;
    test::eventually(
        [&] {
          Result<os::Packet> got = os::receive_packet(socket, buffer, 3);
          if (!got) return got.status().errno_value() != EAGAIN;
          said = rendezvous::read_handshake(std::span(buffer).first(got->bytes));
          if (files != nullptr) *files = got->files.size();
          return true;
        },
        1000);
    return said;
  }
  static std::span<const std::byte> bytes(const rendezvous::Handshake& handshake) {
    return std::as_bytes(std::span(&handshake, 1));
  }
  int attach(double seconds = 5) {
    return test::start_helper("attach and say", {"x", std::to_string(seconds)}).wait();
  }
  static int refused(Code code) { return 10 + static_cast<int>(code); }

  test::RuntimeDir directory_;
};

// Waits for something at a socket, for some seconds.
bool happens(const os::Fd& socket, short what) {
  pollfd item{.fd = socket.get(), .events = what, .revents = 0};
  return ::poll(&item, 1, 5000) > 0;
}

// Something that has the name and answers as it likes.
class FalseServer {
 public:
  FalseServer() : name_lock_(*rendezvous::NameLock::find("x")) {
    EXPECT_TRUE(*name_lock_.begin());
    listener_ = *name_lock_.open_socket();
    EXPECT_OK(name_lock_.settle());
  }
  ~FalseServer() { name_lock_.clear(); }
  // Answers `count` joining processes in the background of a child.
  void answer(const std::function<void(const os::Fd&)>& with) {
    child_ = Child([&] {
      for (;;) {
        const bool knocked = happens(listener_, POLLIN);
        Result<os::Fd> connection = knocked ? os::accept_from(listener_) : Status{Code::kTimeout, "nobody"};
        if (connection) with(*connection);
      }
    });
  }
  void answer_with(const rendezvous::Handshake& handshake) {
    answer([&](const os::Fd& connection) {
      (void)happens(connection, POLLIN);  // it has said what it wants
      (void)os::send_packet(connection, std::as_bytes(std::span(&handshake, 1)), {});
      (void)happens(connection, POLLRDHUP);
    });
  }

 private:
  rendezvous::NameLock name_lock_;
  os::Fd listener_;
  Child child_;
};

TEST_F(HandshakeTest, AProperGuestIsWelcome) {
  const Result<rendezvous::NamedDomainPtr> served = rendezvous::NamedDomain::serve("x");
  ASSERT_OK(served);
  std::size_t files = 0;
  const std::optional<rendezvous::Handshake> said =
      ask(bytes(handshake(rendezvous::MessageType::kJoin, 0)), &files);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->type, rendezvous::MessageType::kWelcome);
  EXPECT_EQ(files, 3U);
  EXPECT_EQ(said->domain_id, (*served)->node().domain().header().domain_id);
  // It never came; its slot is free again soon.
  EXPECT_TRUE(test::eventually([&] { return (*served)->node().domain().live_slots() == 1; }));
}

TEST_F(HandshakeTest, AnotherVersionIsToldBoth) {
  const Result<rendezvous::NamedDomainPtr> served = rendezvous::NamedDomain::serve("x");
  ASSERT_OK(served);
  rendezvous::Handshake other = handshake(rendezvous::MessageType::kJoin, 0);
  other.layout_version += 7;
  std::optional<rendezvous::Handshake> said = ask(bytes(other));
  ASSERT_TRUE(said);
  EXPECT_EQ(said->type, rendezvous::MessageType::kOtherVersion);
  EXPECT_THAT(text_of(*said), HasSubstr("(layout " + std::to_string(domain::kLayoutVersion)));
  EXPECT_THAT(text_of(*said), HasSubstr("(layout " + std::to_string(domain::kLayoutVersion + 7)));
  other = handshake(rendezvous::MessageType::kJoin, 0);
  other.mutex_bytes = 48;
  EXPECT_EQ(ask(bytes(other))->type, rendezvous::MessageType::kOtherVersion);
  // A later protocol, of which only the beginning is known.
  other.protocol = 9;
  EXPECT_EQ(ask(bytes(other).first(40))->type, rendezvous::MessageType::kOtherVersion);
}

TEST_F(HandshakeTest, AServerOfAnotherVersionIsNamed) {
  FalseServer server;
  rendezvous::Handshake other = handshake(rendezvous::MessageType::kWelcome, 5);
  other.layout_version = 99;
  server.answer_with(other);
  const Result<rendezvous::NamedDomainPtr> served = rendezvous::NamedDomain::attach("x");
  EXPECT_CODE(Code::kVersion, served.status());
  EXPECT_THAT(std::string(served.status().what()), HasSubstr("(layout 99"));
  EXPECT_THAT(std::string(served.status().what()),
              HasSubstr("(layout " + std::to_string(domain::kLayoutVersion)));
}

TEST_F(HandshakeTest, AServerOfAnotherVersionIsNamedToAProcessWithADomain) {
  ASSERT_OK(node::Node::home());
  FalseServer server;
  rendezvous::Handshake other = handshake(rendezvous::MessageType::kOtherDomain, 5);
  other.layout_version = 99;
  server.answer_with(other);
  const Status status = rendezvous::NamedDomain::attach("x").status();
  EXPECT_CODE(Code::kVersion, status);
  EXPECT_THAT(std::string(status.what()), HasSubstr("(layout 99"));
}

TEST_F(HandshakeTest, AnotherPidNamespaceIsRefused) {
  const Result<rendezvous::NamedDomainPtr> served = rendezvous::NamedDomain::serve("x");
  ASSERT_OK(served);
  rendezvous::Handshake other = handshake(rendezvous::MessageType::kJoin, 0);
  ++other.pid_namespace;
  const std::optional<rendezvous::Handshake> said = ask(bytes(other));
  ASSERT_TRUE(said);
  EXPECT_EQ(said->type, rendezvous::MessageType::kOtherNamespace);
  EXPECT_THAT(text_of(*said), HasSubstr("another pid namespace"));
  if (::geteuid() != 0) GTEST_SKIP() << "a real one needs root";
  Child outer([&] {
    if (::unshare(CLONE_NEWPID) != 0) return;  // not allowed here either: the above must do
    const Child inner([&] { _exit(attach()); });
    EXPECT_EQ(const_cast<Child&>(inner).wait(), refused(Code::kRefused));
  });
  EXPECT_EQ(outer.wait(), 0);
}

constexpr uid_t kNobody = 65534;

TEST_F(HandshakeTest, AnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  const Result<rendezvous::NamedDomainPtr> served = rendezvous::NamedDomain::serve("x");
  ASSERT_OK(served);
  const std::string address = rendezvous::NameLock::find("x")->address();
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
  Child stranger([&] {
    ASSERT_EQ(::setgroups(0, nullptr), 0);
    ASSERT_EQ(::setuid(kNobody), 0);
    // The directory is not its own, so it looks elsewhere, where there is nothing.
    ::setenv("TMPDIR", "/nonexistent", 1);
    EXPECT_CODE(Code::kSystem, rendezvous::NamedDomain::attach("x").status());
  });
  EXPECT_EQ(stranger.wait(), 0);
  // Even where it can reach the socket.
  ASSERT_EQ(::chmod(directory_.file("").c_str(), 0755), 0);
  Child connection([&] {
    ASSERT_EQ(::setuid(kNobody), 0);
    const Result<os::Fd> socket = os::connect_to(address);
    ASSERT_OK(socket);
    rendezvous::Handshake lie = handshake(rendezvous::MessageType::kJoin, 0);
    lie.user = 0;
    std::size_t files = 7;
    const std::optional<rendezvous::Handshake> said = ask(*socket, bytes(lie), &files);
    ASSERT_TRUE(said);
    EXPECT_EQ(said->type, rendezvous::MessageType::kOtherUser);
    EXPECT_EQ(files, 0U);
    EXPECT_THAT(text_of(*said), HasSubstr("user 65534"));
  });
  EXPECT_EQ(connection.wait(), 0);
  ASSERT_EQ(::chmod(directory_.file("").c_str(), 0700), 0);
  (*served)->node().domain().reap();  // the forked children's
  EXPECT_EQ((*served)->node().domain().live_slots(), 1U);
}

TEST_F(HandshakeTest, AServerOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  rendezvous::NameLock name_lock = *rendezvous::NameLock::find("x");
  ASSERT_TRUE(*name_lock.begin());
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(directory_.file("").c_str(), 0777), 0);
  const std::string address = name_lock.address();
  Gate listening;
  Child stranger([&] {
    ASSERT_EQ(::setuid(kNobody), 0);
    name_lock.abandon();  // it has copies of its parent's descriptors
    const Result<os::Fd> listener = os::listen_at(address);
    ASSERT_OK(listener);
    listening.open();
    for (;;) ::pause();
  });
  ASSERT_TRUE(listening.wait());
  ASSERT_EQ(::chmod(directory_.file("").c_str(), 0700), 0);
  ASSERT_OK(name_lock.settle());
  const Status status = rendezvous::NamedDomain::attach("x").status();
  EXPECT_CODE(Code::kRefused, status);
  EXPECT_THAT(std::string(status.what()), HasSubstr("served by user 65534"));
  name_lock.clear();
}

TEST_F(HandshakeTest, ASocketOfAnotherSortIsInNobodysWay) {
  const std::string path = rendezvous::NameLock::find("x")->address();
  const os::Fd stream(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  ASSERT_EQ(::bind(stream.get(), reinterpret_cast<const sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(::listen(stream.get(), 5), 0);
  EXPECT_CODE(Code::kNotFound, rendezvous::NamedDomain::attach("x").status());
  EXPECT_OK(rendezvous::NamedDomain::serve("x"));
}

TEST_F(HandshakeTest, AServerThatTalksNonsenseIsRefused) {
  FalseServer server;
  server.answer([](const os::Fd& connection) {
    (void)happens(connection, POLLIN);
    const std::array<std::byte, 192> nonsense{std::byte{42}};
    (void)os::send_packet(connection, nonsense, {});
    (void)happens(connection, POLLRDHUP);
  });
  EXPECT_EQ(attach(), refused(Code::kRefused));
}

TEST_F(HandshakeTest, AWelcomeWithoutDescriptorsIsCorrupt) {
  FalseServer server;
  server.answer_with(handshake(rendezvous::MessageType::kWelcome, 5));
  EXPECT_EQ(attach(), refused(Code::kCorrupt));
}

TEST_F(HandshakeTest, AServerThatGoesInTheMiddleIsTriedAgain) {
  FalseServer server;
  server.answer([](const os::Fd&) {});  // hangs up at once, for ever
  EXPECT_EQ(attach(0.3), refused(Code::kStalled));
}

TEST_F(HandshakeTest, AStoppedServerIsNamed) {
  ASSERT_TRUE(kServe && kAttach);
  Gate serving;
  Child server = test::start_helper("serve and stay", {"x", std::to_string(serving.fd().get())},
                                    std::array{serving.fd().get()});
  ASSERT_TRUE(serving.wait());
  EXPECT_EQ(attach(), 0);
  server.signal(SIGSTOP);
  EXPECT_TRUE(test::eventually([&] { return os::task_state(server.pid()) == 'T'; }));
  const Status status = rendezvous::NamedDomain::attach("x", within(0.3)).status();
  EXPECT_CODE(Code::kStalled, status);
  EXPECT_THAT(std::string(status.what()), HasSubstr("process " + std::to_string(server.pid()) +
                                                    " serves \"x\" and does not answer: it is stopped"));
  server.signal(SIGCONT);
  EXPECT_EQ(attach(), 0);
  server.kill_now();
  directory_.empty();
}

TEST_F(HandshakeTest, TheSilentKeepNobodyWaiting) {
  const Result<rendezvous::NamedDomainPtr> served = rendezvous::NamedDomain::serve("x");
  ASSERT_OK(served);
  const rendezvous::NameLock name_lock = *rendezvous::NameLock::find("x");
  std::vector<os::Fd> silent;
  for (int i = 0; i < 100; ++i) {
    Result<os::Fd> one = name_lock.knock();
    ASSERT_OK(one);
    silent.push_back(*std::move(one));
    if (i % 20 == 19) ::usleep(2000);
  }
  EXPECT_EQ(attach(), 0);
}

TEST_F(HandshakeTest, GarbageIsDroppedAndTheServerGoesOn) {
  const Result<rendezvous::NamedDomainPtr> served = rendezvous::NamedDomain::serve("x");
  ASSERT_OK(served);
  const rendezvous::NameLock name_lock = *rendezvous::NameLock::find("x");
  std::mt19937 random(5);  // NOLINT: the same each time
  const rendezvous::Handshake proper = handshake(rendezvous::MessageType::kJoin, 0);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::byte> packet(bytes(proper).begin(), bytes(proper).end());
    for (unsigned flips = random() % 4; flips > 0; --flips)
      packet[random() % packet.size()] ^= static_cast<std::byte>(1U << (random() % 8));
    packet.resize(random() % 3 == 0 ? random() % 500 : packet.size());
    std::vector<int> files(random() % 4, STDERR_FILENO);
    Result<os::Fd> socket = name_lock.knock();
    if (!socket) {
      ::usleep(2000);  // as many as may wait do so
      continue;
    }
    // A packet of no bytes cannot be told from the end.
    if (!packet.empty()) (void)os::send_packet(*socket, packet, files);
    if (random() % 2 == 0) ::usleep(100);
  }
  EXPECT_EQ(attach(), 0);
  EXPECT_TRUE(test::eventually([&] { return (*served)->node().domain().live_slots() == 1; }));
  EXPECT_THAT((*served)->node().audit(), testing::IsEmpty());
}

TEST_F(HandshakeTest, AnUnsafeDirectoryIsNotUsed) {
  const std::string folder = directory_.file("");
  {
    const Result<rendezvous::NameLock> made = rendezvous::NameLock::find("x");
    ASSERT_OK(made);
  }
  struct stat info{};
  ASSERT_EQ(::stat(folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
  ASSERT_EQ(::chmod(folder.c_str(), 0750), 0);
  const Status open = rendezvous::NameLock::find("x").status();
  EXPECT_CODE(Code::kRefused, open);
  EXPECT_THAT(std::string(open.what()), HasSubstr("has mode 0750"));
  const std::string path = directory_.path() + "/forklift";
  ASSERT_EQ(::rmdir(path.c_str()), 0);
  ASSERT_EQ(::symlink("/tmp", path.c_str()), 0);
  EXPECT_CODE(Code::kRefused, rendezvous::NameLock::find("x").status());
  ASSERT_EQ(::unlink(path.c_str()), 0);
  if (::geteuid() == 0) {
    ASSERT_OK(rendezvous::NameLock::find("x").status());
    ASSERT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
    const Status foreign = rendezvous::NameLock::find("x").status();
    EXPECT_CODE(Code::kRefused, foreign);
    EXPECT_THAT(std::string(foreign.what()), HasSubstr("belongs to user 65534"));
  }
}

TEST_F(HandshakeTest, WithoutARuntimeDirectoryTheTemporaryOneServes) {
  ::unsetenv("XDG_RUNTIME_DIR");
  const char* const before = ::getenv("TMPDIR");
  const std::string saved = before != nullptr ? before : "";
  const std::string deep = directory_.path() + "/" + std::string(150, 'd');  // longer than a socket's address
  ASSERT_EQ(::mkdir(deep.c_str(), 0700), 0);
  ::setenv("TMPDIR", deep.c_str(), 1);
  {
    const Result<rendezvous::NamedDomainPtr> served = rendezvous::NamedDomain::serve("x");
    ASSERT_OK(served);
    EXPECT_EQ(attach(), 0);
    EXPECT_EQ(rendezvous::NameLock::find("x")->directory(),
              deep + "/forklift-" + std::to_string(::geteuid()));
  }
  saved.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", saved.c_str(), 1);
}

}  // namespace
}  // namespace forklift::process
