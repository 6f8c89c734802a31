// What follows the end of a pool's task: the descriptor of its Future, and the call that Future::then() was given.
#include "forklift/future.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "api/pool_core.h"

namespace forklift::inline abi_0_1::detail {

Result<std::shared_ptr<TaskBell>> TaskBell::make() {
  auto made = std::make_shared<TaskBell>();
  made->fd_ = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->fd_.valid()) return Status::system("eventfd", errno, "for the descriptor of a Future");
  return made;
}

void TaskBell::ring() const noexcept {
  const std::uint64_t one = 1;
  (void)!::write(fd_.get(), &one, sizeof one);
}

// The job's end holds the bell, and not the task: the task holds the job.
int task_descriptor(TaskState& task) {
  PoolEngine& engine = task.pool->engine();
  if (!task.bell) {
    std::shared_ptr<TaskBell> bell = value_or_throw(TaskBell::make());
    throw_if_failed(engine.after(task.job, [bell] { bell->ring(); }));
    task.bell = std::move(bell);
  }
  return task.bell->fd();
}

void after_task(const TaskPtr& task, std::function<void()> call) {
  Callbacks& callbacks = task->pool->callbacks();
  throw_if_failed(callbacks.start());
  // A job has one call at its end, so this one rings, too.
  throw_if_failed(task->pool->engine().after(
      task->job, [&callbacks, bell = task->bell, call = std::move(call)]() mutable {
        if (bell) bell->ring();
        callbacks.add(std::move(call));
      }));
}

}  // namespace forklift::inline abi_0_1::detail
