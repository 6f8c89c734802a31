#include "segment/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>

#include "os/limits.h"
#include "os/local_socket.h"
#include "segment/file_name.h"
#include "segment/owner_lock.h"

namespace forklift::inline abi_0_1::segment {

namespace {

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

Status no_room(const std::string& path, std::uint64_t bytes) {
  struct statvfs info{};
  std::string room;
  if (::statvfs(folder_of(path).c_str(), &info) == 0) {
    room = ", which has " + std::to_string(std::uint64_t{info.f_bavail} * info.f_frsize) + " of " +
           std::to_string(std::uint64_t{info.f_blocks} * info.f_frsize) + " bytes left";
  }
  return {Code::kNoSpace,
          std::to_string(bytes) + " bytes asked for a named segment in " + folder_of(path) + room};
}

// `pages`: makes all of them exist. Where the file system cannot do that, the size is set and pages come when
// they are touched.
Status set_size(const os::Fd& file, const std::string& path, std::uint64_t bytes, bool pages) {
  const os::LiftedFileSizeLimit limit;
  if (bytes > limit.bytes()) {
    return {Code::kNoSpace, std::to_string(bytes) + " bytes asked for a named segment, and files of " +
                                std::to_string(limit.bytes()) +
                                " bytes are all that this process may make (RLIMIT_FSIZE, ulimit -f)"};
  }
  int done = 0;
  do {
    done = pages ? ::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes))
                 : ::ftruncate(file.get(), static_cast<off_t>(bytes));
  } while (done != 0 && errno == EINTR);
  if (done != 0 && errno == EOPNOTSUPP) done = ::ftruncate(file.get(), static_cast<off_t>(bytes));
  if (done == 0) return {};
  if (errno == ENOSPC || errno == EFBIG || errno == ENOMEM) return no_room(path, bytes);
  return Status::system("fallocate", errno, path);
}

// The files of a folder by domain; of this user, and plain files or sockets only.
struct Files {
  std::vector<FileName> names;
  std::uint64_t bytes = 0;
};

Result<std::map<std::uint64_t, Files>> list(const std::string& folder) {
  const Folder open(::opendir(folder.c_str()));
  if (!open) return Status::system("opendir", errno, folder + " (for named segments)");
  std::map<std::uint64_t, Files> found;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::optional<FileName> name = FileName::parse(entry->d_name);
    struct stat info{};
    if (!name || ::fstatat(::dirfd(open.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const bool right_kind = name->kind == FileKind::kSocket ? S_ISSOCK(info.st_mode) : S_ISREG(info.st_mode);
    if (!right_kind || info.st_uid != ::geteuid()) continue;
    Files& files = found[name->token];
    files.names.push_back(*name);
    if (name->kind == FileKind::kSegment) files.bytes += static_cast<std::uint64_t>(info.st_size);
  }
  return found;
}

void remove_files(const std::string& folder, const Files& files, std::string* problem) {
  for (const FileName& name : files.names) {
    if (name.kind == FileKind::kLock || remove_file(name.in(folder)) || problem == nullptr) continue;
    *problem = Status::system("unlink", errno, name.in(folder)).to_string();
  }
}

// Does a manager listen? Then the domain lives, and somebody has removed its lock file, which the manager is
// about to make anew.
bool answers(const std::string& folder, const Files& files) {
  return std::any_of(files.names.begin(), files.names.end(), [&](const FileName& name) {
    if (name.kind != FileKind::kSocket) return false;
    const Result<os::Fd> connected = os::connect_to(name.in(folder), os::SocketKind::kStream);
    return connected || connected.status().errno_value() == EAGAIN;
  });
}

void look_at(const std::string& folder, const Files& files, bool look_only, Found& found) {
  Result<std::optional<OwnerLock>> lock = OwnerLock::take(folder, found.token);
  if (!lock) {
    found.problem = lock.status().to_string();
    return;
  }
  found.in_use = !lock->has_value() || answers(folder, files);
  const bool had_lock = std::any_of(files.names.begin(), files.names.end(),
                                    [](const FileName& name) { return name.kind == FileKind::kLock; });
  if (found.in_use) return;
  if (!look_only) {
    remove_files(folder, files, &found.problem);
    found.removed = found.problem.empty();
  }
  // Last, since without the lock file nobody else may remove the others.
  if (!look_only || !had_lock) (*lock)->remove();
}

}  // namespace

namespace {

Result<os::Fd> make(const std::string& path, std::uint64_t bytes, bool pages) {
  os::Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) {
    if (errno == EEXIST) return Status(Code::kExists, path + " exists already");
    if (errno == ENOSPC) return no_room(path, bytes);
    return Status::system("open", errno, path + " (a named segment)");
  }
  if (Status status = set_size(file, path, bytes, pages); !status) return status;
  return file;
}

}  // namespace

Result<os::Fd> make_file(const std::string& path, std::uint64_t bytes) { return make(path, bytes, true); }

Result<os::Fd> make_hollow_file(const std::string& path, std::uint64_t bytes) {
  return make(path, bytes, false);
}

Status write_all(const os::Fd& file, const std::string& path, std::span<const std::byte> head,
                 std::span<const std::byte> data) {
  const os::LiftedFileSizeLimit limit;
  const std::size_t bytes = head.size() + data.size();
  for (std::size_t at = 0; at < bytes;) {
    const std::span<const std::byte> first = head.subspan(std::min(at, head.size()));
    const std::span<const std::byte> rest = data.subspan(at - (head.size() - first.size()));
    const iovec parts[] = {{const_cast<std::byte*>(first.data()), first.size()},
                           {const_cast<std::byte*>(rest.data()), rest.size()}};
    const ssize_t done = ::pwritev(file.get(), parts, 2, static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && (errno == ENOSPC || errno == EFBIG || errno == ENOMEM)) return no_room(path, bytes);
    if (done < 0) return Status::system("pwritev", errno, path);
    at += static_cast<std::size_t>(done);
  }
  return {};
}

Result<os::Fd> open_file(const std::string& path, std::uint64_t bytes) {
  os::Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) {
    if (errno == ENOENT) return Status(Code::kNotFound, "there is no named segment " + path);
    return Status::system("open", errno, path + " (a named segment)");
  }
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return Status::system("fstat", errno, path);
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid())
    return Status(Code::kRefused, path + " is no file of this user");
  if (static_cast<std::uint64_t>(info.st_size) != bytes) {
    return Status(Code::kCorrupt,
                  path + " has " + std::to_string(info.st_size) + " bytes and not " + std::to_string(bytes));
  }
  return file;
}

bool remove_file(const std::string& path) noexcept {
  return ::unlink(path.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR;
}

Result<std::vector<Found>> sweep(const std::string& folder, bool look_only) {
  const Result<std::map<std::uint64_t, Files>> all = list(folder);
  if (!all) return all.status();
  std::vector<Found> found;
  for (const auto& [token, files] : *all) {
    Found& one = found.emplace_back();
    one.token = token;
    one.bytes = files.bytes;
    for (const FileName& name : files.names) one.segments += name.kind == FileKind::kSegment ? 1 : 0;
    look_at(folder, files, look_only, one);
  }
  return found;
}

void remove_all(const std::string& folder, std::uint64_t token) noexcept {
  const Result<std::map<std::uint64_t, Files>> all = list(folder);
  if (!all) return;
  if (const auto its = all->find(token); its != all->end()) remove_files(folder, its->second, nullptr);
}

}  // namespace forklift::inline abi_0_1::segment
