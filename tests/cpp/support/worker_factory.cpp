#include "support/worker_factory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "support/node_fixture.h"
#include "support/numbered_message.h"

namespace forklift::test {
namespace {

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

WorkerFactory::WorkerFactory(MakeReady make_ready)
    : make_ready_(std::move(make_ready)),
      counters_(static_cast<Counters*>(
          ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}

WorkerFactory::~WorkerFactory() { ::munmap(counters_, 4096); }

workers::WorkerFactory WorkerFactory::factory() {
  return [this](const workers::WorkerSlot& worker_slot) -> Result<std::unique_ptr<workers::WorkerHandle>> {
    if (fail_) return {Code::kRefused, "no more workers"};
    const pid_t pid = ::fork();
    if (pid < 0) return Status::system("fork", errno);
    if (pid == 0) work(worker_slot);
    Result<process::Child> child = process::Child::watch(pid);
    if (!child) return child.status();
    return std::unique_ptr<workers::WorkerHandle>(new ForkedWorker(*std::move(child)));
  };
}

void WorkerFactory::work(const workers::WorkerSlot& worker_slot) {
  ++counters_->started;
  workers::Worker worker = must(workers::Worker::open(worker_slot));
  if (make_ready_ && !make_ready_(worker)) ::_exit(1);
  Status status = worker.ready();
  channel::Incoming task;
  while (status && (status = worker.next(task))) obey(worker, task);
  if (status.code() != Code::kClosed) must(status);
  worker.domain().mark_clean();
  ::_exit(0);
}

void WorkerFactory::obey(workers::Worker& worker, channel::Incoming& task) {
  const std::string text = text_of(task);
  const std::size_t space = std::min(text.find(' '), text.size());
  const std::string verb = text.substr(0, space);
  const std::string rest = text.substr(std::min(space + 1, text.size()));
  const auto answer = [&](const std::string& what, Ending ending = Ending::kValue) {
    const Status sent = worker.answer(ending, {.bytes = as_bytes(what)});
    if (sent.code() != Code::kClosed) must(sent);
  };
  if (verb == "echo") return answer(rest);
  if (verb == "fail") return answer(rest, Ending::kError);
  if (verb == "pid") return answer(std::to_string(::getpid()));
  if (verb == "lease") return use_lease(worker, task);
  if (verb == "tell") {
    ++counters_->told;
    return answer("");
  }
  if (verb == "sleep") {
    ::usleep(static_cast<useconds_t>(std::stoul(rest) * 1000));
    return answer("slept");
  }
  if (verb == "grow") {
    const std::size_t bytes = std::stoul(rest) << 20;
    std::memset(std::malloc(bytes), 1, bytes);  // kept: that is what it is for
    return answer("grown");
  }
  if (verb == "exit") ::_exit(std::stoi(rest));
  if (verb == "stop") ::raise(SIGSTOP);
  if (verb == "kill" || (verb == "once" && counters_->once.fetch_add(1) == 0)) ::raise(SIGKILL);
  answer("again");
}

void WorkerFactory::use_lease(workers::Worker& worker, channel::Incoming& task) {
  std::uint64_t sum = 0;
  arena::Lease& lease = *task.leases().front();
  for (std::size_t i = 0; i < lease.size(); ++i) sum += static_cast<std::uint64_t>(lease.data()[i]);
  std::memset(lease.data(), 0, lease.size());
  if (counters_->once.fetch_add(1) == 0) ::raise(SIGKILL);
  const std::string text = std::to_string(sum);
  task.clear();
  must(worker.answer(Ending::kValue, {.bytes = as_bytes(text)}));
}

int ForkedWorker::wait() {
  must(child_.wait(os::Deadline::never()).status());
  return child_.exitcode().value_or(255);
}

std::string text_of(const workers::Answer& answer) {
  switch (answer.ending) {
    case Ending::kValue: return text_of(answer.payload);
    case Ending::kError: return "error: " + text_of(answer.payload);
    case Ending::kUnreadable: return "unreadable: " + text_of(answer.payload);
    case Ending::kDied: return "died: " + std::to_string(answer.exitcode);
    case Ending::kTimedOut: return "timed out";
    case Ending::kCancelled: return "cancelled";
    case Ending::kStopped: return "stopped";
    case Ending::kBadStart: return "bad start";
  }
  return "?";
}

Status submit(Engine& engine, const workers::JobPtr& job, std::uint64_t index, const std::string& text,
              const workers::TaskOptions& options) {
  return engine.submit(job, index, {.bytes = as_bytes(text)}, options);
}

std::vector<std::string> rest_of(Engine& engine, workers::Job& job, std::size_t tasks) {
  std::vector<std::string> texts(tasks, "nothing");
  std::vector<workers::Answer> answers;
  const os::Deadline deadline = os::Deadline::after_seconds(20);
  for (;;) {
    const Status status = engine.collect(job, answers, 16, deadline);
    EXPECT_TRUE(status.ok()) << status.to_string();
    if (!status || answers.empty()) return texts;
    for (const workers::Answer& answer : answers) {
      EXPECT_LT(answer.index, tasks);
      EXPECT_EQ(texts.at(answer.index), "nothing") << "task " << answer.index << " has ended twice";
      texts.at(answer.index) = text_of(answer);
    }
  }
}

std::vector<std::string> run(Engine& engine, const std::vector<std::string>& tasks,
                             const workers::TaskOptions& options) {
  const workers::JobPtr job = Engine::make_job();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Status sent = submit(engine, job, i, tasks[i], options);
    EXPECT_TRUE(sent.ok()) << sent.to_string();
  }
  return rest_of(engine, *job, tasks.size());
}

}  // namespace forklift::test
