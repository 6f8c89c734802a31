// Jobs: receiving their tasks' answers, and waiting for them.
#include <algorithm>
#include <limits>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/pool/object.h"

namespace forklift::py {
namespace {

// How many tasks of a map may be sent and not yet ended.
constexpr std::uint64_t kWindow = 8192;
constexpr std::size_t kTakenAtOnce = 256;
// How many bytes of results an iteration takes from the engine before the program asks for them.
constexpr std::uint64_t kTakenBytes = std::uint64_t{4} << 20;

}  // namespace

Status PoolJob::collect(std::vector<workers::Answer>& answers, std::size_t most, os::Deadline deadline,
                        std::uint64_t most_bytes) {
  workers::Engine& engine = core_.engine();
  GilRelease released;
  PyHooks hooks(released);
  Status status = engine.collect(*job_, answers, most, deadline, &hooks, most_bytes);
  released.acquire();
  if (!status && status.code() != Code::kTimeout) {
    raise(status);
    throw nb::python_error();
  }
  return status;
}

void PoolJob::put_in_place(nb::list& values, std::size_t chunk, std::uint64_t index, bool ok,
                           nb::object value, nb::object& error) {
  if (!ok) {
    if (error.is_none()) error = std::move(value);  // keep the first error
    return;
  }
  const auto begin = static_cast<Py_ssize_t>(index * chunk);
  const int set =
      chunk == 1 ? PyList_SetItem(values.ptr(), begin, value.release().ptr())
                 : PyList_SetSlice(values.ptr(), begin, begin + static_cast<Py_ssize_t>(chunk), value.ptr());
  if (set != 0) throw nb::python_error();
}

nb::object PoolJob::map(nb::handle function, nb::handle items, bool starred, std::size_t chunk,
                        double seconds, std::uint32_t retries, nb::list values, nb::object progress) {
  Callee callee;
  if (!open(callee, function)) throw nb::python_error();
  const auto count = static_cast<std::uint64_t>(count_of(items.ptr()));
  const std::uint64_t last = (count + chunk - 1) / chunk;
  const workers::TaskOptions options = task_options(seconds, retries);
  std::uint64_t next = 0;
  std::uint64_t done = 0;
  nb::object error = nb::none();
  std::vector<workers::Answer> answers;
  while (done < last) {
    const std::uint64_t before = next;
    const std::uint64_t until = std::min(last, done + kWindow);
    if (next < until)
      next = feed_some(callee, items.ptr(), starred, chunk, next, until, options, done == next);
    std::uint64_t came = early_.size();
    for (auto& [index, exception] : early_)
      put_in_place(values, chunk, index, false, std::move(exception), error);
    early_.clear();
    if (done + came < next || (came == 0 && next == before)) {
      (void)collect(answers, kTakenAtOnce, os::Deadline::never());
      for (workers::Answer& answer : answers) {
        auto [ok, value] = core_.outcome(answer, label_);
        put_in_place(values, chunk, answer.index, ok, std::move(value), error);
      }
      came += answers.size();
      answers.clear();
    }
    done += came;
    if (came != 0 && !progress.is_none()) {
      const std::uint64_t items_done = std::min(done * chunk, count) - std::min((done - came) * chunk, count);
      progress(items_done);
    }
  }
  return error;
}

nb::object PoolJob::call(nb::handle function, nb::handle arguments, unsigned style, double seconds,
                         std::uint32_t retries) {
  Callee callee;
  if (!open(callee, function)) throw nb::python_error();
  bool ok = false;
  nb::object value;
  if (send(callee, arguments.ptr(), static_cast<Style>(style), 0, task_options(seconds, retries), true) ==
      Fed::kFailed) {
    value = std::exchange(early_, {}).front().second;
  } else {
    std::vector<workers::Answer> answers;
    (void)collect(answers, 1, os::Deadline::never());
    if (answers.empty()) throw std::runtime_error("a task of the pool ended without an answer");
    std::tie(ok, value) = core_.outcome(answers.front(), label_);
  }
  if (ok) return value;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())), value.ptr());
  throw nb::python_error();
}

std::uint64_t PoolJob::ended() const {
  workers::Engine& engine = core_.engine();
  const std::uint64_t refused = refused_;
  const GilRelease released;
  return refused + engine.ended(*job_);
}

nb::tuple PoolJob::progress() const {
  workers::Engine& engine = core_.engine();
  workers::Engine::Progress now;
  {
    const GilRelease released;
    now = engine.progress(*job_);
  }
  return nb::make_tuple(now.ended + refused_, now.waiting, now.bytes);
}

void PoolJob::wait_progress(std::uint64_t seen) const {
  workers::Engine& engine = core_.engine();
  if (seen < refused_) return;
  seen -= refused_;
  const GilRelease released;
  // Ignore a failure to wait: it means that the pool does not work, and the next call that sends or takes
  // reports that.
  (void)engine.wait_progress(*job_, seen, os::Deadline::never());
}

bool PoolJob::wait(nb::handle timeout) {
  if (has_ended()) return true;
  const os::Deadline deadline = deadline_of(timeout);
  workers::Engine& engine = core_.engine();
  GilRelease released;
  PyHooks hooks(released);
  const Status status = engine.wait_end(*job_, deadline, &hooks);
  released.acquire();
  if (status.code() == Code::kInterrupted) {
    raise(status);
    throw nb::python_error();
  }
  return has_ended();
}

void PoolJob::watch() {
  const std::shared_ptr<Ended>& ended = core_.ended();
  const std::lock_guard<std::mutex> lock(ended->mutex);
  if (state_->watched) return;
  state_->watched = true;
  if (!state_->ended.load(std::memory_order_relaxed)) return;
  ended->jobs.push_back(number_);
  ended->bell.notify_all();
}

nb::object PoolJob::take(std::size_t most, nb::handle timeout) {
  nb::list taken;
  for (auto& [index, exception] : std::exchange(early_, {}))
    taken.append(nb::make_tuple(index, false, std::move(exception)));
  std::vector<workers::Answer> answers;
  const os::Deadline deadline = nb::len(taken) != 0 ? os::Deadline::after_ns(0) : deadline_of(timeout);
  const Status status = collect(answers, most, deadline, kTakenBytes);
  for (workers::Answer& answer : answers) {
    auto [ok, value] = core_.outcome(answer, label_);
    taken.append(nb::make_tuple(answer.index, ok, std::move(value)));
  }
  if (status && nb::len(taken) == 0) return nb::none();
  return taken;
}

nb::object PoolJob::gather(nb::list values, std::size_t chunk) {
  nb::object error = nb::none();
  for (auto& [index, exception] : std::exchange(early_, {}))
    put_in_place(values, chunk, index, false, std::move(exception), error);
  std::vector<workers::Answer> answers;
  do {
    (void)collect(answers, kTakenAtOnce, os::Deadline::after_ns(0));
    for (workers::Answer& answer : answers) {
      auto [ok, value] = core_.outcome(answer, label_);
      put_in_place(values, chunk, answer.index, ok, std::move(value), error);
    }
  } while (!answers.empty());
  return error;
}

}  // namespace forklift::py
