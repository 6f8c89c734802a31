#include "segment/owner_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "os/clock.h"
#include "os/ofd_lock.h"
#include "segment/file_name.h"

namespace forklift::inline abi_0_1::segment {

namespace {
constexpr std::uint64_t kUsers = 0;
constexpr std::uint64_t kManager = 1;
// A sweeper holds a lock for as long as it takes to remove some files.
constexpr double kPatienceSeconds = 5;
}  // namespace

Result<OwnerLock> OwnerLock::open(const std::string& path, int flags) {
  const int raw = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (raw < 0) return Status::system("open", errno, path + " (for named segments)");
  OwnerLock lock;
  lock.file_ = os::Fd(raw);
  struct stat info{};
  if (::fstat(raw, &info) != 0) return Status::system("fstat", errno, path);
  lock.inode_ = info.st_ino;
  lock.device_ = info.st_dev;
  lock.path_ = path;
  return lock;
}

Result<OwnerLock> OwnerLock::join(const std::string& folder, std::uint64_t token) {
  const std::string path = FileName{FileKind::kLock, token, 0}.in(folder);
  const os::Deadline deadline = os::Deadline::after_seconds(kPatienceSeconds);
  for (;;) {
    Result<OwnerLock> lock = open(path, O_CREAT);
    if (!lock) return lock.status();
    const Result<bool> shared = os::try_share_byte(lock->file_, kUsers);
    if (!shared) return shared.status();
    if (*shared && lock->has_name()) return lock;
    if (deadline.passed()) return Status(Code::kStalled, path + " is locked by a process that removes files");
    if (!*shared) ::usleep(200);
  }
}

Result<OwnerLock> OwnerLock::watch(const std::string& folder, std::uint64_t token) {
  return open(FileName{FileKind::kLock, token, 0}.in(folder), 0);
}

Result<std::optional<OwnerLock>> OwnerLock::take(const std::string& folder, std::uint64_t token) {
  Result<OwnerLock> lock = open(FileName{FileKind::kLock, token, 0}.in(folder), O_CREAT);
  if (!lock) return lock.status();
  const Result<bool> mine = os::try_lock_byte(lock->file_, kUsers);
  if (!mine) return mine.status();
  // Without its name the file is one that another sweeper has just removed.
  if (!*mine || !lock->has_name()) return std::optional<OwnerLock>();
  return std::optional<OwnerLock>(*std::move(lock));
}

bool OwnerLock::is_ours() const noexcept {
  struct stat info{};
  return file_.valid() && ::fstat(file_.get(), &info) == 0 && info.st_ino == inode_ && info.st_dev == device_;
}

bool OwnerLock::has_name() const noexcept {
  struct stat named{};
  // The device, too: another file system may have been mounted there.
  return is_ours() && ::lstat(path_.c_str(), &named) == 0 && named.st_ino == inode_ &&
         named.st_dev == device_;
}

bool OwnerLock::is_managed() const noexcept {
  const Result<bool> locked = os::byte_is_locked(file_, kManager);
  return locked && *locked;
}

Result<bool> OwnerLock::manage(bool wait) {
  if (!wait) return os::try_lock_byte(file_, kManager);
  for (;;) {
    const Status locked = os::lock_byte(file_, kManager);
    if (locked) return true;
    if (locked.code() != Code::kInterrupted) return locked;
  }
}

bool OwnerLock::has_others() const noexcept {
  const Result<bool> locked = os::byte_is_locked(file_, kUsers);
  return !locked || *locked;
}

Result<bool> OwnerLock::own() { return os::try_lock_byte(file_, kUsers); }

void OwnerLock::remove() noexcept {
  if (has_name()) ::unlink(path_.c_str());
}

void OwnerLock::disown_foreign() noexcept {
  if (!is_ours()) file_.release();
}

}  // namespace forklift::inline abi_0_1::segment
