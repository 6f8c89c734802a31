#include "base/log.h"

#include <pthread.h>

#include <cstdio>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace forklift::inline abi_0_1 {

namespace {

struct Sink {
  std::mutex mutex;  // held for a copy of the pointer, never while the sink runs
  std::shared_ptr<const LogSink> call;
};

// Never destroyed: threads may speak while the process ends.
Sink& sink() {
  static Sink* const one = [] {
    auto* made = new Sink;
    // So that a forked child finds the pointer whole and the lock free.
    ::pthread_atfork([] { sink().mutex.lock(); }, [] { sink().mutex.unlock(); },
                     [] { new (&sink().mutex) std::mutex; });
    return made;
  }();
  return *one;
}

bool told(Severity severity, const std::string& message) noexcept {
  try {
    Sink& to = sink();
    std::shared_ptr<const LogSink> call;
    {
      const std::lock_guard lock(to.mutex);
      call = to.call;
    }
    if (!call) return false;
    (*call)(severity, message);
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

void log(Severity severity, const std::string& message) noexcept {
  if (!told(severity, message)) std::fprintf(stderr, "forklift: %s\n", message.c_str());
}

void set_log_sink(LogSink call) {
  std::shared_ptr<const LogSink> next;
  if (call) next = std::make_shared<const LogSink>(std::move(call));
  Sink& to = sink();
  const std::lock_guard lock(to.mutex);
  std::swap(to.call, next);
}

}  // namespace forklift::inline abi_0_1
