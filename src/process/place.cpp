#include "process/place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "channel/names.h"
#include "forklift/hash.h"
#include "os/local_socket.h"
#include "os/ofd_lock.h"

namespace forklift::process {
namespace {

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
  struct stat info {};
  if (::fstat(place.folder_.get(), &info) != 0) return Status::system("fstat", errno, place.directory_);
  // A name may have 64 bytes, an address 107.
  std::array<char, 17> directory{};
  std::to_chars(directory.data(), directory.data() + 16,
                detail::hash_of(place.name_, info.st_dev * 0x9e3779b97f4a7c15U + info.st_ino), 16);
  place.prefix_ = std::string(1, '\0') + "forklift/" + directory.data() + "/" + place.name_ + "/";
  return place;
}

std::string Place::socket_name(std::string_view what) const { return prefix_ + std::string(what); }
std::string Place::socket_name(Stand stand) const {
  constexpr std::array<std::string_view, 3> kNames = {"server", "member", "joiner"};
  return socket_name(kNames[static_cast<std::size_t>(stand)]);
}

// Names share the directory: each has bytes of its own in the 2^62 that a lock can name.
std::uint64_t Place::byte_of(Stand stand) const noexcept {
  return ((detail::hash_of(name_) >> 2) & ~std::uint64_t{3}) + static_cast<std::uint64_t>(stand);
}

Status Place::open_lock(bool begin) {
  lock_ = os::Fd(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock_.valid()) return Status::system("open", errno, directory_);
  if (begin) return {};
  for (const Stand stand : {Stand::kServer, Stand::kMember, Stand::kJoiner}) {
    const Result<bool> here = taken(stand);
    if (!here) return here.status();
    if (*here) return {};
  }
  return {Code::kNotFound, "nobody serves \"" + name_ + "\" (looked in " + directory_ + ")"};
}

void Place::forget_lock() noexcept {
  for (os::Fd& socket : taken_) socket.close();
  lock_.close();
}

Result<bool> Place::take(Stand stand) {
  os::Fd& socket = taken_by_this(stand);
  if (!socket.valid()) {
    Result<os::Fd> claimed = os::claim_address(socket_name(stand));
    if (!claimed && claimed.status().errno_value() == EADDRINUSE) return false;
    if (!claimed) return claimed.status();
    socket = *std::move(claimed);
  }
  const Result<bool> shared = os::byte_is_locked(lock_, byte_of(stand));
  if (!shared || *shared) {
    socket.close();
    if (!shared) return shared.status();
    return false;
  }
  (void)os::unlock_byte(lock_, byte_of(stand));  // one's own share
  return true;
}

Result<bool> Place::share(Stand stand) {
  Result<bool> locked = os::try_share_byte(lock_, byte_of(stand));
  if (!locked || !*locked) return locked;
  taken_by_this(stand).close();
  const Result<bool> theirs = os::address_is_claimed(socket_name(stand));
  if (theirs && !*theirs) return true;
  (void)os::unlock_byte(lock_, byte_of(stand));
  if (!theirs) return theirs.status();
  return false;
}

Status Place::leave(Stand stand) {
  taken_by_this(stand).close();
  return os::unlock_byte(lock_, byte_of(stand));
}

Result<bool> Place::taken(Stand stand) const {
  if (!taken_[static_cast<std::size_t>(stand)].valid()) {
    Result<bool> theirs = os::address_is_claimed(socket_name(stand));
    if (!theirs || *theirs) return theirs;
  }
  return os::byte_is_locked(lock_, byte_of(stand));
}

Result<bool> Place::begin() {
  if (Status opened = open_lock(true); !opened) return opened;
  for (const Stand stand : {Stand::kMember, Stand::kJoiner, Stand::kServer}) {
    Result<bool> mine = take(stand);
    if (!mine || !*mine) return mine;
  }
  return true;
}

Status Place::settle() {
  const Result<bool> member = share(Stand::kMember);
  if (!member) return member.status();
  return leave(Stand::kJoiner);
}

pid_t Place::server() const {
  const Result<os::Fd> door = knock();
  if (!door) return 0;
  const Result<os::Credentials> peer = os::peer_of(*door);
  return peer ? peer->pid : 0;
}

Result<os::Fd> Place::open_door() { return os::listen_at(address()); }
Result<os::Fd> Place::knock() const { return os::connect_to(address()); }

void Place::abandon() noexcept {
  forget_lock();
  folder_.close();
}

}  // namespace forklift::process
