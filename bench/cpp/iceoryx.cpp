#include "cpp/iceoryx.h"

#if FORKLIFT_BENCH_ICEORYX

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iceoryx_hoofs/log/logmanager.hpp>
#include <iceoryx_posh/popo/untyped_publisher.hpp>
#include <iceoryx_posh/popo/untyped_subscriber.hpp>
#include <iceoryx_posh/popo/wait_set.hpp>
#include <iceoryx_posh/runtime/posh_runtime.hpp>
#include <optional>
#include <string>

#include "cpp/case.h"
#include "cpp/workers.h"

namespace bench {
namespace {

constexpr char kPools[] =
    "[general]\nversion = 1\n[[segment]]\n"
    "[[segment.mempool]]\nsize = 128\ncount = 2000\n"
    "[[segment.mempool]]\nsize = 8192\ncount = 400\n"
    "[[segment.mempool]]\nsize = 1048576\ncount = 80\n";

// Runs the daemon as long as this object lives. Only this child is ever signalled.
class Roudi {
 public:
  Roudi() {
    std::string config = (std::filesystem::temp_directory_path() / "forklift-bench-roudi-XXXXXX").string();
    const int file = ::mkstemp(config.data());
    if (file < 0 || ::write(file, kPools, sizeof kPools - 1) != static_cast<ssize_t>(sizeof kPools - 1))
      fail("iceoryx: its configuration");
    ::close(file);
    if (::pipe2(output_, O_CLOEXEC) != 0) fail("pipe");
    pid_ = ::fork();
    if (pid_ < 0) fail("fork");
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // also when a measurement fails and no destructor runs
      ::dup2(output_[1], STDOUT_FILENO);
      if (const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0)
        ::dup2(nowhere, STDERR_FILENO);
      ::execlp("iox-roudi", "iox-roudi", "-c", config.c_str(), "-l", "off", "-m", "off", nullptr);
      ::_exit(127);
    }
    ::close(output_[1]);
    ready_ = wait_until_ready();
    ::unlink(config.c_str());
    if (!ready_) stop();
  }
  ~Roudi() {
    if (owner_ == ::getpid()) stop();
  }
  Roudi(const Roudi&) = delete;
  Roudi& operator=(const Roudi&) = delete;
  bool ready() const { return ready_; }

 private:
  bool wait_until_ready() {
    std::string seen;
    for (;;) {
      pollfd waiting{output_[0], POLLIN, 0};
      if (::poll(&waiting, 1, 10'000) <= 0) return false;
      char text[256];
      const ssize_t n = ::read(output_[0], text, sizeof text);
      if (n <= 0) return false;  // the daemon ended: another one is running, or none is installed
      seen.append(text, static_cast<std::size_t>(n));
      if (seen.find("ready for clients") != std::string::npos) return true;
    }
  }
  void stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    if (!ready_ || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return;
    // It failed while it ended, and left behind the two segments that it had made.
    ::shm_unlink("/iceoryx_mgmt");
    if (const group* own = ::getgrgid(::getegid()))
      ::shm_unlink(std::string("/").append(own->gr_name).c_str());
  }

  pid_t owner_ = ::getpid();
  pid_t pid_ = -1;
  int output_[2] = {-1, -1};  // kept open: without a reader the daemon's output would end it
  bool ready_ = false;
};

void need_roudi() {
  static const Roudi daemon;
  if (!daemon.ready()) throw MissingPeer("iox-roudi could not be started, or one is running already");
}

template <class String>
String iox_string(const std::string& text) {
  return String(iox::cxx::TruncateToCapacity, text.c_str());
}

void join_once() {
  static const bool joined = [] {
    iox::log::LogManager::GetLogManager().SetDefaultLogLevel(iox::log::LogLevel::kOff,
                                                             iox::log::LogLevelOutput::kHideLogLevel);
    iox::runtime::PoshRuntime::initRuntime(
        iox_string<iox::RuntimeName_t>("forklift-bench-" + std::to_string(::getpid())));
    return true;
  }();
  (void)joined;
}

}  // namespace

struct IceoryxQueue::Impl {
  std::size_t bytes;
  std::size_t depth;
  Wait wait;
  std::string name;
  std::optional<iox::popo::UntypedPublisher> publisher{};
  std::optional<iox::popo::UntypedSubscriber> subscriber{};
  std::optional<iox::popo::WaitSet<>> sleep{};

  iox::capro::ServiceDescription service() const {
    return {"forklift", "bench", iox_string<iox::capro::IdString_t>(name)};
  }

  iox::popo::UntypedPublisher& out() {
    if (!publisher) {
      join_once();
      iox::popo::PublisherOptions options;
      options.subscriberTooSlowPolicy = iox::popo::ConsumerTooSlowPolicy::WAIT_FOR_CONSUMER;
      publisher.emplace(service(), options);
      while (!publisher->hasSubscribers()) ::usleep(1000);
    }
    return *publisher;
  }

  iox::popo::UntypedSubscriber& in() {
    if (!subscriber) {
      join_once();
      iox::popo::SubscriberOptions options;
      options.queueCapacity = depth;
      options.queueFullPolicy = iox::popo::QueueFullPolicy::BLOCK_PRODUCER;
      subscriber.emplace(service(), options);
      if (wait == Wait::kSleeps) {
        sleep.emplace();
        if (sleep->attachState(*subscriber, iox::popo::SubscriberState::HAS_DATA).has_error())
          fail("iceoryx: attachState");
      }
    }
    return *subscriber;
  }

  void* loan() {
    auto chunk = out().loan(static_cast<std::uint32_t>(bytes));
    if (chunk.has_error()) fail("iceoryx: loan");
    return chunk.value();
  }

  const void* take() {
    iox::popo::UntypedSubscriber& from = in();
    SpinPolicy spin_policy;
    for (;;) {
      auto chunk = from.take();
      if (!chunk.has_error()) return chunk.value();
      if (sleep) {
        (void)sleep->wait();
      } else {
        spin_policy.wait();
      }
    }
  }
};

IceoryxQueue::IceoryxQueue(std::size_t bytes, std::size_t depth, Wait wait) {
  need_roudi();
  static int number = 0;
  impl_.reset(new Impl{bytes, depth, wait, std::to_string(::getpid()) + "_" + std::to_string(number++)});
}

IceoryxQueue::~IceoryxQueue() = default;

void IceoryxQueue::send(std::span<const std::byte> bytes) {
  void* chunk = impl_->loan();
  copy_bytes(chunk, bytes.data(), bytes.size());
  impl_->out().publish(chunk);
}

void IceoryxQueue::receive(std::span<std::byte> into) {
  const void* chunk = impl_->take();
  copy_bytes(into.data(), chunk, into.size());
  impl_->in().release(chunk);
}

void IceoryxQueue::send_handle() { impl_->out().publish(impl_->loan()); }

void IceoryxQueue::receive_handle() { impl_->in().release(impl_->take()); }

void IceoryxQueue::leave() {
  impl_->sleep.reset();
  impl_->subscriber.reset();
  impl_->publisher.reset();
}

}  // namespace bench

#endif
