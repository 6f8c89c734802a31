#include "base/event_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "forklift/error.h"
#include "forklift/log.h"

namespace forklift::inline abi_0_1 {

namespace {

constexpr int kUnknown = -1;
constinit std::atomic<int> is_on{kUnknown};  // kUnknown: the environment was not looked at yet

struct EventFile;
constinit std::atomic<const EventFile*> newest{nullptr};  // the list of all

// Never changed once it is made, and never freed: writers take no lock, since some write in fork handlers.
struct EventFile {
  std::string path;
  int fd = -1;
  struct stat about{};
  const EventFile* before = nullptr;  // in the list

  static EventFile* open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return nullptr;
    auto* const made = new EventFile{path, fd, {}, nullptr};
    ::fstat(fd, &made->about);
    made->before = newest.load();
    while (!newest.compare_exchange_weak(made->before, made)) {
    }
    return made;
  }
  // Other code may have closed our descriptor, and its number may be another file's by now.
  bool is_ours() const noexcept {
    struct stat now{};
    return ::fstat(fd, &now) == 0 && now.st_dev == about.st_dev && now.st_ino == about.st_ino;
  }
};
constinit std::atomic<EventFile*> current{nullptr};
constinit std::atomic<int> writers{0};

// What `next` replaces is closed once nobody writes to it. In a child forked meanwhile a writer may count that is not
// there: then, after a moment, it stays open.
void replace(EventFile* next) {
  EventFile* const old = current.exchange(next);
  if (old == nullptr) return;
  constexpr int kMoments = 100;
  const timespec moment{0, 1'000'000};
  for (int i = 0; i < kMoments && writers.load() != 0; ++i) ::nanosleep(&moment, nullptr);
  if (writers.load() == 0 && old->is_ours()) ::close(old->fd);
}

bool look_at_environment() noexcept {
  try {
    const char* const path = std::getenv(kEventLogVariable);
    if (path != nullptr && *path != '\0' && open_event_log(path)) return true;
  } catch (...) {
    // No memory: there is no log.
  }
  int unknown = kUnknown;
  is_on.compare_exchange_strong(unknown, 0);
  return is_on.load(std::memory_order_relaxed) == 1;
}

void append_quoted(std::string& text, std::string_view value) {
  text += '"';
  for (const char each : value) {
    if (each == '"' || each == '\\') {
      text += '\\';
      text += each;
    } else if (static_cast<unsigned char>(each) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(each));
      text += escaped;
    } else {
      text += each;
    }
  }
  text += '"';
}

}  // namespace

bool event_log_on() noexcept {
  const int known = is_on.load(std::memory_order_relaxed);
  return known != kUnknown ? known == 1 : look_at_environment();
}

std::string event_log_path() {
  if (!event_log_on()) return {};
  const EventFile* const file = current.load(std::memory_order_acquire);
  return file != nullptr ? file->path : std::string();
}

Status open_event_log(const std::string& path) {
  if (path.empty()) {
    is_on.store(0, std::memory_order_relaxed);
    replace(nullptr);
    return {};
  }
  EventFile* const next = EventFile::open(path);
  if (next == nullptr) return Status::system("open", errno, path);
  replace(next);
  is_on.store(1, std::memory_order_relaxed);
  return {};
}

EventLine::EventLine(std::string_view event) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  char time[32];
  std::snprintf(time, sizeof time, "%lld.%06ld", static_cast<long long>(now.tv_sec), now.tv_nsec / 1000);
  text_ = std::string("{\"time\": ") + time;
  (*this)("event", event)("pid", static_cast<std::int64_t>(::getpid()));
}

EventLine& EventLine::raw(std::string_view key, std::string_view value) {
  text_ += ", ";
  append_quoted(text_, key);
  text_ += ": ";
  text_ += value;
  return *this;
}

EventLine& EventLine::operator()(std::string_view key, std::string_view value) {
  std::string quoted;
  append_quoted(quoted, value);
  return raw(key, quoted);
}

EventLine& EventLine::operator()(std::string_view key, std::int64_t value) {
  return raw(key, std::to_string(value));
}

EventLine& EventLine::operator()(std::string_view key, bool value) {
  return raw(key, value ? "true" : "false");
}

void EventLine::write() noexcept {
  writers.fetch_add(1);
  try {
    text_ += "}\n";
    EventFile* file = current.load();
    if (file != nullptr && !file->is_ours()) {
      EventFile* const again = EventFile::open(file->path);
      if (again != nullptr && current.compare_exchange_strong(file, again)) {
        file = again;
      } else if (again != nullptr) {
        ::close(again->fd);  // another thread was faster
      } else {
        file = nullptr;
      }
    }
    while (file != nullptr && ::write(file->fd, text_.data(), text_.size()) < 0 && errno == EINTR) {
    }
  } catch (...) {
    // No memory: the line is lost.
  }
  writers.fetch_sub(1);
}

void log_events_to(const std::string& path) { throw_if_failed(open_event_log(path)); }

}  // namespace forklift::inline abi_0_1
