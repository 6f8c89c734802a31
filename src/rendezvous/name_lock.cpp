#include "rendezvous/name_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "forklift/detail/hash.h"
#include "node/names.h"
#include "os/local_socket.h"
#include "os/ofd_lock.h"

namespace forklift::inline abi_0_1::rendezvous {
namespace {

std::string in_words(mode_t mode) {
  std::array<char, 8> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), mode & 0777U, 8);
  return std::string(text.data(), end);
}

// XDG_RUNTIME_DIR if it is as its specification demands, otherwise a folder among the temporary files.
std::string choose_directory() {
  struct stat info{};
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
  struct stat info{};
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

Result<NameLock> NameLock::find(std::string_view name) {
  if (Status status = node::check_name(name, "a domain"); !status) return status;
  NameLock name_lock;
  name_lock.name_ = name;
  name_lock.directory_ = choose_directory();
  Result<os::Fd> folder = open_directory(name_lock.directory_);
  if (!folder) return folder.status();
  name_lock.folder_ = *std::move(folder);
  struct stat info{};
  if (::fstat(name_lock.folder_.get(), &info) != 0)
    return Status::system("fstat", errno, name_lock.directory_);
  // A name may have 64 bytes, an address 107.
  std::array<char, 17> directory{};
  std::to_chars(directory.data(), directory.data() + 16,
                detail::hash_of(name_lock.name_, info.st_dev * 0x9e3779b97f4a7c15U + info.st_ino), 16);
  name_lock.prefix_ = std::string(1, '\0') + "forklift/" + directory.data() + "/" + name_lock.name_ + "/";
  return name_lock;
}

std::string NameLock::socket_name(std::string_view what) const { return prefix_ + std::string(what); }
std::string NameLock::socket_name(Role role) const {
  constexpr std::array<std::string_view, 3> kNames = {"server", "member", "joiner"};
  return socket_name(kNames[static_cast<std::size_t>(role)]);
}

// Names share the directory: each has bytes of its own among the 2^62 that a lock can cover.
std::uint64_t NameLock::byte_of(Role role) const noexcept {
  return ((detail::hash_of(name_) >> 2) & ~std::uint64_t{3}) + static_cast<std::uint64_t>(role);
}

Status NameLock::open_lock(bool begin) {
  lock_ = os::Fd(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock_.valid()) return Status::system("open", errno, directory_);
  if (begin) return {};
  for (const Role role : {Role::kServer, Role::kMember, Role::kJoiner}) {
    const Result<bool> here = taken(role);
    if (!here) return here.status();
    if (*here) return {};
  }
  return {Code::kNotFound, "nobody serves \"" + name_ + "\" (looked in " + directory_ + ")"};
}

void NameLock::forget_lock() noexcept {
  for (os::Fd& socket : taken_) socket.close();
  lock_.close();
}

Result<bool> NameLock::take(Role role) {
  os::Fd& socket = taken_by_this(role);
  if (!socket.valid()) {
    Result<os::Fd> claimed = os::claim_address(socket_name(role));
    if (!claimed && claimed.status().errno_value() == EADDRINUSE) return false;
    if (!claimed) return claimed.status();
    socket = *std::move(claimed);
  }
  const Result<bool> shared = os::byte_is_locked(lock_, byte_of(role));
  if (!shared || *shared) {
    socket.close();
    if (!shared) return shared.status();
    return false;
  }
  (void)os::unlock_byte(lock_, byte_of(role));  // this process's own shared lock
  return true;
}

Result<bool> NameLock::share(Role role) {
  Result<bool> locked = os::try_share_byte(lock_, byte_of(role));
  if (!locked || !*locked) return locked;
  taken_by_this(role).close();
  const Result<bool> theirs = os::address_is_claimed(socket_name(role));
  if (theirs && !*theirs) return true;
  (void)os::unlock_byte(lock_, byte_of(role));
  if (!theirs) return theirs.status();
  return false;
}

Status NameLock::leave(Role role) {
  taken_by_this(role).close();
  return os::unlock_byte(lock_, byte_of(role));
}

Result<bool> NameLock::taken(Role role) const {
  if (!taken_[static_cast<std::size_t>(role)].valid()) {
    Result<bool> theirs = os::address_is_claimed(socket_name(role));
    if (!theirs || *theirs) return theirs;
  }
  return os::byte_is_locked(lock_, byte_of(role));
}

Result<bool> NameLock::begin() {
  if (Status opened = open_lock(true); !opened) return opened;
  for (const Role role : {Role::kMember, Role::kJoiner, Role::kServer}) {
    Result<bool> mine = take(role);
    if (!mine || !*mine) return mine;
  }
  return true;
}

Status NameLock::settle() {
  const Result<bool> member = share(Role::kMember);
  if (!member) return member.status();
  return leave(Role::kJoiner);
}

pid_t NameLock::server() const {
  const Result<os::Fd> served = knock();
  if (!served) return 0;
  const Result<os::Credentials> peer = os::peer_of(*served);
  return peer ? peer->pid : 0;
}

Result<os::Fd> NameLock::open_socket() { return os::listen_at(address()); }
Result<os::Fd> NameLock::knock() const { return os::connect_to(address()); }

void NameLock::abandon() noexcept {
  forget_lock();
  folder_.close();
}

}  // namespace forklift::inline abi_0_1::rendezvous
