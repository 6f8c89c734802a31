#include "process/place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "channel/names.h"
#include "os/local_socket.h"
#include "os/ofd_lock.h"

namespace forklift::process {
namespace {

constexpr const char* kDoor = ".sock";
constexpr const char* kLock = ".lock";

std::uint64_t byte_of(Stand stand) { return static_cast<std::uint64_t>(stand); }

std::string in_words(mode_t mode) {
  std::array<char, 8> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), mode & 0777U, 8);
  return std::string(text.data(), end);
}

// XDG_RUNTIME_DIR where it is what its specification says, else a folder among the temporary files.
std::string choose_directory() {
  struct stat info {};
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/' && ::stat(runtime, &info) == 0 && S_ISDIR(info.st_mode) &&
      info.st_uid == ::geteuid()) {
    return std::string(runtime) + "/forklift";
  }
  const char* temporary = std::getenv("TMPDIR");
  if (temporary == nullptr || temporary[0] != '/') temporary = "/tmp";
  return std::string(temporary) + "/forklift-" + std::to_string(::geteuid());
}

Result<os::Fd> open_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return Status::system("mkdir", errno, path);
  os::Fd folder(::open(path.c_str(), O_DIRECTORY | O_NOFOLLOW | O_RDONLY | O_CLOEXEC));
  if (!folder.valid()) {
    if (errno == ELOOP || errno == ENOTDIR)
      return Status(Code::kRefused, path + " is no directory (a link, perhaps): remove it");
    return Status::system("open", errno, path);
  }
  struct stat info {};
  if (::fstat(folder.get(), &info) != 0) return Status::system("fstat", errno, path);
  if (info.st_uid != ::geteuid()) {
    return Status(Code::kRefused, path + " belongs to user " + std::to_string(info.st_uid) +
                                      ", this is user " + std::to_string(::geteuid()) +
                                      ": set XDG_RUNTIME_DIR to a directory of your own");
  }
  if ((info.st_mode & 077U) != 0) {
    return Status(Code::kRefused, path + " has mode 0" + in_words(info.st_mode) +
                                      ", so that others may enter it: chmod 0700 it");
  }
  return folder;
}

}  // namespace

Result<Place> Place::find(std::string_view name) {
  if (Status status = channel::check_name(name, "a domain"); !status) return status;
  Place place;
  place.name_ = name;
  place.directory_ = choose_directory();
  Result<os::Fd> folder = open_directory(place.directory_);
  if (!folder) return folder.status();
  place.folder_ = *std::move(folder);
  return place;
}

// Through the descriptor: the directory that was checked, and short enough for a socket's address.
std::string Place::path(const char* suffix) const {
  return "/proc/self/fd/" + std::to_string(folder_.get()) + "/" + name_ + suffix;
}

Status Place::open_lock(bool make) {
  const std::string file = name_ + kLock;
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (make ? O_CREAT : 0);
  lock_ = os::Fd(::openat(folder_.get(), file.c_str(), flags, 0600));
  if (lock_.valid()) return {};
  if (errno == ENOENT)
    return {Code::kNotFound, "nobody serves \"" + name_ + "\" (looked in " + directory_ + ")"};
  return Status::system("open", errno, directory_ + "/" + file);
}

bool Place::is_current() const {
  struct stat info {};
  const std::string file = name_ + kLock;
  return ::fstatat(folder_.get(), file.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         static_cast<std::uint64_t>(info.st_ino) == lock_.inode();
}

Result<bool> Place::take(Stand stand) { return os::try_lock_byte(lock_, byte_of(stand)); }
Result<bool> Place::share(Stand stand) { return os::try_share_byte(lock_, byte_of(stand)); }
Status Place::leave(Stand stand) { return os::unlock_byte(lock_, byte_of(stand)); }
Result<bool> Place::taken(Stand stand) const { return os::byte_is_locked(lock_, byte_of(stand)); }

Result<bool> Place::begin() {
  if (Status opened = open_lock(true); !opened) return opened;
  for (const Stand stand : {Stand::kMember, Stand::kJoiner, Stand::kServer}) {
    Result<bool> mine = take(stand);
    if (!mine || !*mine) return mine;
  }
  return is_current();
}

Status Place::settle() {
  const Result<bool> member = share(Stand::kMember);
  if (!member) return member.status();
  return leave(Stand::kJoiner);
}

pid_t Place::server() const {
  std::array<char, 16> text{};
  const ssize_t got = ::pread(lock_.get(), text.data(), text.size(), 0);
  pid_t pid = 0;
  if (got > 0) std::from_chars(text.data(), text.data() + got, pid);
  return pid;
}

Result<os::Fd> Place::open_door() {
  const std::string file = name_ + kDoor;
  if (::unlinkat(folder_.get(), file.c_str(), 0) != 0 && errno != ENOENT)
    return Status::system("unlink", errno, directory_ + "/" + file);
  Result<os::Fd> door = os::listen_at(path(kDoor));
  if (!door) return door.status();
  // Sixteen characters always, so that a reader finds one number, this or the one before.
  std::array<char, 16> text{};
  text.fill(' ');
  std::to_chars(text.data(), text.data() + text.size(), ::getpid());
  (void)!::pwrite(lock_.get(), text.data(), text.size(), 0);
  return door;
}

Result<os::Fd> Place::knock() const { return os::connect_to(path(kDoor)); }

void Place::clear() noexcept {
  if (!lock_.valid()) return;
  // First what is held, so that of several who leave at once the last one finds nobody. While all three are
  // taken nobody comes, and whoever has opened the file before will find that it has lost its name.
  for (const Stand stand : {Stand::kServer, Stand::kMember, Stand::kJoiner}) (void)leave(stand);
  const auto mine = [this](Stand stand) {
    const Result<bool> got = take(stand);
    return got && *got;
  };
  if (mine(Stand::kMember) && mine(Stand::kJoiner) && mine(Stand::kServer) && is_current()) {
    ::unlinkat(folder_.get(), (name_ + kDoor).c_str(), 0);
    ::unlinkat(folder_.get(), (name_ + kLock).c_str(), 0);
  }
  lock_.close();
}

void Place::abandon() noexcept {
  lock_.close();
  folder_.close();
}

}  // namespace forklift::process
