// The examination of this process before a fork: libraries, threads and their owners, findings, and what a child
// that hangs waits for.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <semaphore>
#include <stdexcept>
#include <thread>

#include "guard/blocked.h"
#include "guard/guards.h"
#include "guard/libraries.h"
#include "guard/runtimes.h"
#include "guard/stacks.h"
#include "guard/threads.h"
#include "os/proc.h"
#include "os/thread.h"
#include "support/child.h"
#include "support/status_check.h"

namespace forklift::guard {
namespace {

using test::Child;
using test::Gate;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

// A thread of this test that sleeps, or runs, until the object ends.
class Other {
 public:
  explicit Other(bool runs, const char* name = "other") {
    thread_ = std::thread([this, runs, name] {
      (void)os::set_thread_name(name);
      id_ = static_cast<pid_t>(os::thread_id());
      if (runs) {
        while (!stop_) {
        }
      } else {
        end_.acquire();
      }
    });
    (void)test::eventually([this] { return id_ != 0; });
    if (!runs) (void)test::eventually([this] { return os::task_state(id_) == 'S'; });
  }
  ~Other() {
    stop_ = true;
    end_.release();
    thread_.join();
  }
  pid_t id() const { return id_; }

 private:
  std::thread thread_;
  std::atomic<pid_t> id_{0};
  std::atomic<bool> stop_{false};
  std::binary_semaphore end_{0};
};

const Thread* find(const std::vector<Thread>& threads, pid_t id) {
  for (const Thread& each : threads) {
    if (each.id == id) return &each;
  }
  return nullptr;
}

// The address and the thread sanitizer begin each thread in a function of their own.
auto IsThisProgram() {
  return testing::AnyOf(mapped_libraries()->all.front().file, testing::StartsWith("libasan."),
                        testing::StartsWith("libtsan."));
}

const Finding* find(const std::vector<Finding>& findings, const std::string& library) {
  for (const Finding& each : findings) {
    if (each.library == library) return &each;
  }
  return nullptr;
}

Libraries with_file(const std::string& file) {
  Libraries libraries;
  libraries.all.push_back({"/usr/bin/program", "program", {}});
  libraries.all.push_back({"/nowhere/" + file, file, {}});
  return libraries;
}

TEST(GuardLibraries, KnowTheProgramAndTheCLibrary) {
  const auto libraries = mapped_libraries();
  EXPECT_EQ(libraries->all.front().file, "forklift_tests");
  const Library* const of_c =
      libraries->find(reinterpret_cast<std::uintptr_t>(::dlsym(RTLD_DEFAULT, "getpid")));
  ASSERT_NE(of_c, nullptr);
  EXPECT_THAT(of_c->file, testing::StartsWith("libc"));
  EXPECT_EQ(libraries->find(16), nullptr);
}

TEST(GuardLibraries, AreListedAnewOnlyAfterAChange) {
  const auto before = mapped_libraries();
  EXPECT_EQ(mapped_libraries(), before);
  // It stays loaded: what it allocates for good would count as a leak otherwise.
  void* const loaded = ::dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!loaded) GTEST_SKIP() << "no libgomp";
  EXPECT_NE(mapped_libraries(), before);
  ::dlclose(loaded);
}

TEST(GuardLibraries, SymbolIsOfThisLibraryAlone) {
  const auto libraries = mapped_libraries();
  for (const Library& each : libraries->all) {
    if (each.file.starts_with("libstdc++")) {
      EXPECT_EQ(symbol_of(each, {"getpid"}), nullptr) << "getpid is of a library that this one needs";
    }
    if (each.file.starts_with("libc.so")) {
      EXPECT_NE(symbol_of(each, {"no_such_function", "getpid"}), nullptr);
    }
  }
}

TEST(GuardThreads, SleepingThreadHasItsOwner) {
  // Beside the first thread of a process the thread sanitizer starts one of its own.
  const Other earlier(false, "earlier");
  const int before = count_threads();
  const Other other(false, "sleeper");
  EXPECT_EQ(count_threads(), before + 1);
  const std::vector<Thread> threads = other_threads(*mapped_libraries());
  const Thread* const found = find(threads, other.id());
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, "sleeper");
  EXPECT_FALSE(found->busy());
  EXPECT_THAT(found->owner, IsThisProgram());
}

TEST(GuardThreads, RunningThreadHasItsOwner) {
#if defined(__x86_64__)
  const Other other(true);
  const std::vector<Thread> threads = other_threads(*mapped_libraries());
  const Thread* const found = find(threads, other.id());
  ASSERT_NE(found, nullptr);
  EXPECT_THAT(found->owner, IsThisProgram());
#else
  GTEST_SKIP() << "only known on x86-64";
#endif
}

TEST(GuardThreads, CallerIsNotAmongThem) {
  const std::vector<Thread> threads = other_threads(*mapped_libraries());
  EXPECT_EQ(find(threads, static_cast<pid_t>(os::thread_id())), nullptr);
}

TEST(GuardFindings, UnknownThreadsMayHang) {
  Thread thread;
  thread.id = 7;
  thread.name = "mystery";
  thread.state = 'S';
  thread.owner = "libcamera.so";
  const std::vector<Finding> judged = judge(with_file("libcamera.so"), {thread});
  const Finding* const found = find(judged, "libcamera.so");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->verdict, Verdict::kMayHang);
  EXPECT_THAT(found->threads, testing::ElementsAre("mystery"));
  EXPECT_EQ(found->state, "idle");
}

struct Case {
  const char* file;
  const char* thread;
  char state;
  const char* library;
  Verdict verdict;
};

class Judged : public testing::TestWithParam<Case> {};

TEST_P(Judged, AsTheTableSays) {
  const Case& expected = GetParam();
  std::vector<Thread> threads;
  if (expected.thread) {
    Thread thread;
    thread.id = 7;
    thread.name = expected.thread;
    thread.state = expected.state;
    thread.owner = expected.file;
    threads.push_back(thread);
  }
  const std::vector<Finding> findings = judge(with_file(expected.file), threads);
  const Finding* const found = find(findings, expected.library);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->verdict, expected.verdict) << found->evidence;
  EXPECT_FALSE(found->evidence.empty());
  EXPECT_TRUE(expected.verdict == Verdict::kSafe || !found->remedy.empty());
}

INSTANTIATE_TEST_SUITE_P(
    GuardRuntimes, Judged,
    testing::Values(Case{"libjax_common.so", nullptr, 0, "JAX", Verdict::kSafe},
                    Case{"libjax_common.so", "python", 'S', "JAX", Verdict::kWillHang},
                    Case{"libjax_common.so", "tf_XLAEigen", 'R', "JAX", Verdict::kWillHang},
                    Case{"_polars_runtime.abi3.so", "polars-0", 'S', "polars", Verdict::kWillHang},
                    Case{"libarrow.so.2600", "python", 'R', "pyarrow", Verdict::kSafe},
                    Case{"cygrpc.cpython-311.so", "event_engine", 'S', "gRPC", Verdict::kMayHang},
                    Case{"cygrpc.cpython-311.so", nullptr, 0, "gRPC", Verdict::kSafe},
                    Case{"libiomp5.so", "openmp_worker", 'S', "libomp", Verdict::kSafe},
                    Case{"libomp.so.5", "openmp_worker", 'R', "libomp", Verdict::kSafeIfIdle},
                    Case{"libtbb.so.12", "worker", 'S', "TBB", Verdict::kSafeIfIdle},
                    Case{"libhdf5-1a2b.so.310", nullptr, 0, "HDF5", Verdict::kSafeIfIdle},
                    Case{"libtcmalloc.so.4", nullptr, 0, "tcmalloc", Verdict::kSafeIfIdle},
                    Case{"libcuda.so.1", nullptr, 0, "CUDA", Verdict::kSafe},
                    Case{"libgomp.so.1", "python", 'S', "libgomp", Verdict::kSafe},
                    Case{"libopenblas.so.0", "python", 'S', "OpenBLAS", Verdict::kSafe}));

TEST(GuardRegistry, AsksRegisteredGuards) {
  register_guard("camera", [] {
    Finding finding;
    finding.library = "camera";
    return std::vector<Finding>{finding};
  });
  EXPECT_TRUE(needs_examination());
  EXPECT_THAT(examine(), Contains(Field(&Finding::library, "camera")));
  register_guard("camera", nullptr);
  EXPECT_THAT(examine(), Not(Contains(Field(&Finding::library, "camera"))));
}

TEST(GuardRegistry, PublicFunctionsAreTheSame) {
  register_fork_guard("camera", [] { return std::vector<ForkFinding>(1); });
  EXPECT_THAT(fork_report(), Contains(Field(&ForkFinding::verdict, ForkVerdict::kSafe)));
  register_fork_guard("camera", {});
  EXPECT_EQ(verdict_name(ForkVerdict::kSafeIfIdle), "safe if idle");
}

TEST(GuardRegistry, FailureOfAGuardIsAFinding) {
  register_guard("broken", []() -> std::vector<Finding> { throw std::runtime_error("no camera"); });
  const std::vector<Finding> findings = examine();
  register_guard("broken", nullptr);
  const Finding* const found = find(findings, "broken");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->verdict, Verdict::kMayHang);
  EXPECT_THAT(found->evidence, HasSubstr("no camera"));
}

TEST(GuardStdio, HeldLockIsFoundAndAChildCanWrite) {
  std::binary_semaphore held{0};
  std::binary_semaphore end{0};
  std::thread holder([&] {
    ::flockfile(stderr);
    held.release();
    end.acquire();
    ::funlockfile(stderr);
  });
  held.acquire();
  const std::vector<Finding> findings = examine_runtimes();
  EXPECT_NE(find(findings, "C stdio"), nullptr);
  // Not Child, which flushes all streams before it forks.
  const pid_t child = ::fork();
  if (child == 0) {
    ::fputs("", stderr);
    ::_exit(::ftrylockfile(stderr) == 0 ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  end.release();
  holder.join();
}

// A child that locks what it has locked. The thread sanitizer ends such a process.
#if defined(__SANITIZE_THREAD__)
constexpr bool kCanLockTwice = false;
#else
constexpr bool kCanLockTwice = true;
#endif

TEST(GuardBlocked, ProcessInItsOwnLockIsDeadlocked) {
  if (!kCanLockTwice) GTEST_SKIP() << "the thread sanitizer ends a process that locks a mutex twice";
  Gate started;
  Child child([&] {
    started.open();
    std::mutex never;
    never.lock();
    never.lock();
  });
  ASSERT_TRUE(started.wait());
  ASSERT_TRUE(test::eventually([&] {
    const Result<Blocked> blocked = blocked_threads(child.pid());
    return blocked.ok() && blocked->deadlocked();
  }));
  const Result<Blocked> blocked = blocked_threads(child.pid());
  ASSERT_OK(blocked);
  EXPECT_TRUE(blocked->waits_for_itself());
  EXPECT_THAT(blocked->threads.front().waits, HasSubstr("private"));
}

TEST(GuardBlocked, ProcessThatWaitsForAnotherOneIsNot) {
  Gate started, go;
  Child child([&] {
    started.open();
    EXPECT_TRUE(go.wait());
  });
  ASSERT_TRUE(started.wait());
  ASSERT_TRUE(test::eventually([&] { return os::task_state(child.pid()) == 'S'; }));
  const Result<Blocked> blocked = blocked_threads(child.pid());
  ASSERT_OK(blocked);
  EXPECT_FALSE(blocked->deadlocked());
  EXPECT_FALSE(blocked->waits_for_itself());
  go.open();
  EXPECT_EQ(child.wait(), 0);
}

TEST(GuardBlocked, EndedProcessIsNotFound) {
  Child child([] {});
  const pid_t pid = child.pid();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(blocked_threads(pid).code(), Code::kNotFound);
}

std::string contents(int file) {
  std::array<char, 16384> buffer{};
  const ssize_t got = ::pread(file, buffer.data(), buffer.size(), 0);
  return got > 0 ? std::string(buffer.data(), static_cast<std::size_t>(got)) : std::string();
}

TEST(GuardStacks, ChildInALockWritesItsStack) {
  if (!kCanLockTwice) GTEST_SKIP() << "the thread sanitizer ends a process that locks a mutex twice";
  const os::Fd file(::memfd_create("forklift-stack-test", MFD_CLOEXEC));
  Result<StackSignal> armed = StackSignal::arm(file.get());
  ASSERT_OK(armed);
  Gate started;
  Child child([&] {
    started.open();
    std::mutex never;
    never.lock();
    never.lock();
  });
  armed->disarm();
  ASSERT_TRUE(started.wait());
  ASSERT_OK(request_stack(child.pid(), child.pid(), armed->number()));
  ASSERT_TRUE(test::eventually([&] { return contents(file.get()).ends_with(kEndOfStack); }));
  EXPECT_THAT(contents(file.get()), HasSubstr("forklift_tests"));
  struct sigaction now{};
  ASSERT_EQ(::sigaction(armed->number(), nullptr, &now), 0);
  EXPECT_EQ(now.sa_handler, SIG_DFL) << "the parent keeps no handler";
}

}  // namespace
}  // namespace forklift::guard
