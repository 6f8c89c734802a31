#include "sync/robust_list.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace forklift::inline abi_0_1::sync {

namespace {

static_assert(offsetof(RobustList, first) - offsetof(RobustList, tid) == 16);
static_assert(sizeof(robust_list_head) == sizeof(RobustList) - offsetof(RobustList, first));

struct Sample {
  Sample() noexcept {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    made = pthread_mutex_init(&mutex, &attributes) == 0;
    pthread_mutexattr_destroy(&attributes);
  }
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;
  ~Sample() {
    if (made) pthread_mutex_destroy(&mutex);
  }
  RobustEntry& entry() noexcept { return reinterpret_cast<RobustEntry&>(mutex.__data.__list); }

  pthread_mutex_t mutex;
  bool made;
};

bool is_head(const RobustList& list, std::int32_t tid) noexcept {
  constexpr auto kOffset = static_cast<std::intptr_t>(offsetof(pthread_mutex_t, __data.__lock)) -
                           static_cast<std::intptr_t>(offsetof(pthread_mutex_t, __data.__list.__next));
  return list.tid == tid && list.word_offset == kOffset && list.pending == nullptr;
}

bool is_held(Sample& sample, const RobustList& list, const void* newer, const void* older) noexcept {
  return list.pending == nullptr && sample.mutex.__data.__lock == list.tid &&
         sample.mutex.__data.__owner == list.tid && sample.entry().previous == newer &&
         sample.entry().next == older;
}

// Do the pthread functions leave exactly the state that enter() and leave() would leave?
bool behaves(RobustList& list) noexcept {
  Sample older;
  Sample newer;
  if (!older.made || !newer.made) return false;
  void* const before = list.first;
  if (pthread_mutex_lock(&older.mutex) != 0) return false;
  if (pthread_mutex_lock(&newer.mutex) != 0) {
    pthread_mutex_unlock(&older.mutex);
    return false;
  }
  void* const head = &list.first;
  const bool both = list.first == &newer.entry().next && is_held(newer, list, head, &older.entry().next) &&
                    is_held(older, list, &newer.entry().next, before) &&
                    entry_at(before).previous == &older.entry().next;
  pthread_mutex_unlock(&newer.mutex);
  const bool one = list.first == &older.entry().next && is_held(older, list, head, before) &&
                   newer.mutex.__data.__lock == 0 && newer.mutex.__data.__owner == 0 &&
                   newer.entry().previous == nullptr && newer.entry().next == nullptr;
  pthread_mutex_unlock(&older.mutex);
  return both && one && list.first == before && entry_at(before).previous == head;
}

}  // namespace

void find_robust_list() noexcept {
  static std::atomic<bool> looked{false};
  if (!kRobustListKnown || looked.exchange(true)) return;
  robust_list_head* head = nullptr;
  std::size_t bytes = 0;
  if (::syscall(SYS_get_robust_list, 0, &head, &bytes) != 0) return;
  if (head == nullptr || bytes != sizeof *head) return;
  auto* const list =
      reinterpret_cast<RobustList*>(reinterpret_cast<std::byte*>(head) - offsetof(RobustList, first));
  if (!is_head(*list, static_cast<std::int32_t>(::syscall(SYS_gettid))) || !behaves(*list)) return;
  robust_list_offset.store(reinterpret_cast<std::byte*>(list) - thread_pointer(), std::memory_order_relaxed);
}

}  // namespace forklift::inline abi_0_1::sync
