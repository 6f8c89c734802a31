#include "event_page.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <ctime>
#include <utility>

#include "physical.h"

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

using Word = std::atomic<std::uint32_t>;

constexpr std::string_view kEventPrefix = "fake-cuda-event.";

void futex_wait(const Word& word, std::uint32_t value, const timespec* limit) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, limit, nullptr, 0);
}

void futex_wake(const Word& word) { ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

void raise_to(Word& word, std::uint32_t value) {
  std::uint32_t now = word.load();
  while (now < value && !word.compare_exchange_weak(now, value)) {
  }
  futex_wake(word);
}

}  // namespace

struct EventPage::Shared {
  Word recorded;
  Word done;
  Word asked;
  Word bell;
};

EventPage::EventPage(int fd, std::string token, Shared* shared)
    : fd_(fd), token_(std::move(token)), shared_(shared) {}

EventPage::~EventPage() {
  ::munmap(shared_, kPage);
  ::close(fd_);
}

std::shared_ptr<EventPage> EventPage::create() {
  const std::string token = new_token();
  const int fd = ::memfd_create((std::string(kEventPrefix) + token).c_str(), MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  if (::ftruncate(fd, static_cast<off_t>(kPage)) != 0) {
    ::close(fd);
    return nullptr;
  }
  return adopt(fd, token);
}

std::shared_ptr<EventPage> EventPage::adopt(int fd, const std::string& token) {
  char link[PATH_MAX];
  const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), link, sizeof link);
  const std::string name = length > 0 ? memfd_name(std::string(link, static_cast<std::size_t>(length))) : "";
  if (name == std::string(kEventPrefix) + token) {
    void* const got = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (got != MAP_FAILED) {
      return std::shared_ptr<EventPage>(new EventPage(fd, token, static_cast<Shared*>(got)));
    }
  }
  ::close(fd);
  return nullptr;
}

std::uint32_t EventPage::record() { return shared_->recorded.fetch_add(1) + 1; }

std::uint32_t EventPage::recorded() const { return shared_->recorded.load(); }

void EventPage::finish(std::uint32_t number) { raise_to(shared_->done, number); }

bool EventPage::is_done(std::uint32_t number) const { return shared_->done.load() >= number; }

void EventPage::wait(std::uint32_t number, std::chrono::milliseconds slice) const {
  const std::uint32_t now = shared_->done.load();
  if (now >= number) return;
  const timespec limit{0, std::chrono::nanoseconds(slice).count()};
  futex_wait(shared_->done, now, &limit);
}

void EventPage::ask_for(std::uint32_t number) {
  if (asked_for() >= number) return;
  raise_to(shared_->asked, number);
  ring();
}

std::uint32_t EventPage::asked_for() const { return shared_->asked.load(); }

std::uint32_t EventPage::listen(std::uint32_t heard) const {
  while (shared_->bell.load() == heard) futex_wait(shared_->bell, heard, nullptr);
  return shared_->bell.load();
}

void EventPage::ring() {
  shared_->bell.fetch_add(1);
  futex_wake(shared_->bell);
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake
