// What a forked child's function throws never comes to the frames that it has of its parent, and what ends so
// soon that nobody can watch it has ended.
#include <gmock/gmock.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <exception>
#include <fstream>
#include <string>

#include "forklift/multiprocessing.h"
#include "support/child.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using test::Child;
using testing::HasSubstr;

struct Wordless : std::exception {
  const char* what() const noexcept override { return nullptr; }
};

void quick(int) {}
const Registered<&quick> kQuick{"barrier quick"};

int same(int x) { return x; }
const Registered<&same> kSame{"barrier same"};

class ForkBarrier : public test::ProcessFixture {
 protected:
  // Forks `body` and joins it; the process that comes out of it must be the one that went in.
  template <class Body>
  std::optional<int> exitcode_of(Body body) {
    const pid_t before = ::getpid();
    std::optional<int> code;
    try {
      Process child = Process::fork(body).start();
      try {
        child.join();
      } catch (const RemoteError& error) {
        said_ = error.what();
      }
      code = child.exitcode();
    } catch (...) {
      if (::getpid() != before) ::_exit(77);  // the test's own frames, in a copy of it
      throw;
    }
    if (::getpid() != before) ::_exit(77);
    return code;
  }

  std::string said_;
};

TEST_F(ForkBarrier, AnExceptionWithoutWords) {
  EXPECT_EQ(exitcode_of([] { throw Wordless(); }), 1);
  EXPECT_THAT(said_, HasSubstr("Wordless"));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need all addresses
TEST_F(ForkBarrier, NoMemoryForTheReport) {
  EXPECT_EQ(exitcode_of([] {
              std::string large(std::size_t{200} << 20, 'x');
              std::uint64_t pages = 0;
              std::ifstream("/proc/self/statm") >> pages;
              rlimit limit{};
              limit.rlim_cur = limit.rlim_max =
                  pages * static_cast<std::uint64_t>(::getpagesize()) + 2'000'000;
              ::setrlimit(RLIMIT_AS, &limit);
              throw std::move(large);
            }),
            1);
}
#endif

TEST_F(ForkBarrier, AThreadThatEndsItself) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(exitcode_of([] { ::pthread_exit(nullptr); }), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("about to leave its function"));
}

// With SIGCHLD ignored the kernel buries children at once: there may be nothing left to watch.
TEST_F(ForkBarrier, ChildrenThatNobodyCanWaitForHaveEnded) {
  for (const StartMethod method : {StartMethod::kFork, StartMethod::kSpawn}) {
    Child program([method] {
      ::signal(SIGCHLD, SIG_IGN);
      const Context context(method);
      for (int i = 0; i < 5; ++i) {
        try {
          forklift::spawn({.context = context}, quick, 4);
        } catch (const ProcessExitedError& error) {
          EXPECT_EQ(error.exitcode(), 255);
          EXPECT_THAT(error.what(), HasSubstr("SIGCHLD"));
        }
      }
      Pool pool({.workers = 2, .context = context, .tasks_per_worker = 1});
      for (int i = 0; i < 20; ++i) EXPECT_EQ(pool.apply(same, i), i);
    });
    EXPECT_EQ(program.wait(), 0);
  }
}

}  // namespace
}  // namespace forklift
