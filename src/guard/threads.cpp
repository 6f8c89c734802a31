#include "guard/threads.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "os/proc.h"
#include "os/thread.h"

namespace forklift::inline abi_0_1::guard {

namespace {

struct Known {
  std::uint64_t started;  // a thread id is used again
  std::string owner;
};

// Never destroyed. A forked child clears nothing: its threads have other ids or start times.
std::map<pid_t, Known>& owners() {
  static auto* const instance = new std::map<pid_t, Known>;
  return *instance;
}

std::string task_file(pid_t task, const char* name) {
  return "/proc/self/task/" + std::to_string(task) + "/" + name;
}

// The stack pointer of a sleeping thread: the last word but one of its file `syscall`.
std::optional<std::uintptr_t> stack_pointer(pid_t task) {
  const std::string text = os::read_proc(task_file(task, "syscall")).value_or("");
  const std::size_t last = text.rfind(" 0x");
  if (last == std::string::npos || last == 0) return std::nullopt;
  const std::size_t at = text.rfind(" 0x", last - 1);
  if (at == std::string::npos) return std::nullopt;
  std::uintptr_t value = 0;
  const auto parsed = std::from_chars(text.data() + at + 3, text.data() + last, value, 16);
  return parsed.ec == std::errc() && value != 0 ? std::optional(value) : std::nullopt;
}

bool is_runtime_of_the_language(const std::string& file) {
  for (const char* prefix :
       {"libc.so", "libc-", "libstdc++", "libc++", "libpthread", "ld-linux", "libgcc_s"}) {
    if (file.starts_with(prefix)) return true;
  }
  return false;
}

// Reads words upwards from the stack pointer. The last word that points into a library's code is the function
// that the thread was started with, which the C library keeps in the thread's descriptor above the stack; if
// that is std::thread's, the last return address before it.
std::string owner_by_stack(std::uintptr_t pointer, const Libraries& libraries) {
  constexpr std::size_t kMost = std::size_t{256} << 10;
  constexpr std::size_t kWords = 512;
  constexpr std::size_t kDescriptor = 2304;
  std::array<std::uintptr_t, kWords> words{};
  std::uintptr_t at = pointer & ~(sizeof(std::uintptr_t) - 1);
  const std::uintptr_t end = at + kMost;
  const Library* last = nullptr;
  std::uintptr_t descriptor = 0;
  while (at < end && (descriptor == 0 || at < descriptor + kDescriptor)) {
    // To the end of a page: the guard page behind a stack ends what can be read.
    const std::size_t bytes = std::min(sizeof words, 4096 - at % 4096);
    const iovec local{words.data(), bytes};
    const iovec remote{reinterpret_cast<void*>(at), bytes};
    const ssize_t got = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
    if (got <= 0) break;
    const std::size_t count = static_cast<std::size_t>(got) / sizeof(std::uintptr_t);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uintptr_t where = at + i * sizeof(std::uintptr_t);
      // On x86-64 a thread's descriptor has its own address in its first and its third word.
      if (descriptor == 0 && words[i] == where && i + 2 < count && words[i + 2] == where) descriptor = where;
      if (descriptor != 0 && where >= descriptor + kDescriptor) break;
      const Library* const library = libraries.find(words[i]);
      if (library && !is_runtime_of_the_language(library->file)) last = library;
    }
    at += bytes;
  }
  return last ? last->file : std::string();
}

#if defined(__x86_64__)
// Reads this process's memory without a fault where it is not mapped.
bool read_own(std::uintptr_t at, void* to, std::size_t bytes) {
  const iovec local{to, bytes};
  const iovec remote{reinterpret_cast<void*>(at), bytes};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

// The address of the descriptor of the thread with this id, if it lies in the memory below `top`, where a stack
// ends. A descriptor has its own address in its first and its third word, and the thread's id in its first KiB.
std::uintptr_t descriptor_below(std::uintptr_t top, pid_t task) {
  constexpr std::size_t kSearched = 16384;
  std::vector<std::uintptr_t> words(kSearched / sizeof(std::uintptr_t));
  const std::uintptr_t begin = top - kSearched;
  if (!read_own(begin, words.data(), kSearched)) return 0;
  constexpr std::size_t kStep = 64 / sizeof(std::uintptr_t);
  constexpr std::size_t kIdWithin = 1024 / sizeof(std::uintptr_t);
  for (std::size_t at = 0; at + kIdWithin < words.size(); at += kStep) {
    const std::uintptr_t address = begin + at * sizeof(std::uintptr_t);
    if (words[at] != address || words[at + 2] != address) continue;
    for (std::size_t i = at; i < at + kIdWithin; ++i) {
      if (static_cast<std::uint32_t>(words[i]) == static_cast<std::uint32_t>(task)) return address;
    }
  }
  return 0;
}

// A running thread's stack ends somewhere in a mapping that is private, writable and above a guard page.
std::optional<std::uintptr_t> top_of_running(pid_t task) {
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(::fopen("/proc/self/maps", "re"), ::fclose);
  if (!maps) return std::nullopt;
  char line[512];
  std::uintptr_t guard_end = 0;
  constexpr std::size_t kBelow = std::size_t{64} << 10;
  std::size_t usual = 0;  // the size of a stack, if the program chose none
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) == 0) {
    ::pthread_attr_getstacksize(&attributes, &usual);
    ::pthread_attr_destroy(&attributes);
  }
  while (::fgets(line, sizeof line, maps.get())) {
    unsigned long begin = 0;
    unsigned long end = 0;
    char permissions[5] = "";
    if (::sscanf(line, "%lx-%lx %4s", &begin, &end, permissions) != 3) continue;
    if (std::string_view(permissions) == "---p") {
      guard_end = end;
    } else if (std::string_view(permissions) == "rw-p" && begin == guard_end && end - begin >= 65536) {
      // The kernel makes one mapping of a stack and of what lies above it.
      for (const std::uintptr_t top : {guard_end + usual, std::uintptr_t{end}}) {
        const std::uintptr_t descriptor = top > begin && top <= end ? descriptor_below(top, task) : 0;
        // Between a stack and its thread's descriptor lie the thread's variables.
        if (descriptor != 0) return descriptor - kBelow;
      }
    }
  }
  return std::nullopt;
}
#else
std::optional<std::uintptr_t> top_of_running(pid_t) { return std::nullopt; }
#endif

std::string owner_of(pid_t task, const Libraries& libraries) {
  const std::uint64_t started = os::start_time(task);
  {
    const std::lock_guard<std::mutex> lock(tables_mutex());
    const auto found = owners().find(task);
    if (found != owners().end() && found->second.started == started) return found->second.owner;
  }
  std::optional<std::uintptr_t> pointer = stack_pointer(task);
  if (!pointer) pointer = top_of_running(task);
  if (!pointer) return {};
  std::string owner = owner_by_stack(*pointer, libraries);
  if (!owner.empty()) {
    const std::lock_guard<std::mutex> lock(tables_mutex());
    owners()[task] = {started, owner};
  }
  return owner;
}

}  // namespace

int count_threads() noexcept {
  struct stat info{};
  // A folder has a link for each folder in it, and two of its own.
  return ::stat("/proc/self/task", &info) == 0 ? static_cast<int>(info.st_nlink) - 2 : 0;
}

bool another_thread_is_busy() {
  const auto own = static_cast<pid_t>(os::thread_id());
  return std::ranges::any_of(os::tasks_of(::getpid()),
                             [own](pid_t task) { return task != own && is_busy(os::task_state(task)); });
}

std::vector<Thread> other_threads(const Libraries& libraries) {
  std::vector<Thread> found;
  const auto own = static_cast<pid_t>(os::thread_id());
  for (const pid_t task : os::tasks_of(::getpid())) {
    if (task == own) continue;
    Thread thread;
    thread.id = task;
    thread.name = os::read_proc(task_file(task, "comm")).value_or("");
    if (thread.name.empty()) continue;  // it has ended
    if (thread.name.back() == '\n') thread.name.pop_back();
    thread.state = os::task_state(task);
    thread.owner = owner_of(task, libraries);
    found.push_back(std::move(thread));
  }
  return found;
}

}  // namespace forklift::inline abi_0_1::guard
