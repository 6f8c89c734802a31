#include "inspect/view.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/release.h"
#include "inspect/machine.h"
#include "os/limits.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

constexpr std::string_view kControl = "/memfd:forklift-control";

// How often a process is looked at whose descriptors change meanwhile.
constexpr int kTries = 20;

bool is_control(const std::string& path) {
  char target[64];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  return length >= 0 && std::string_view(target, static_cast<std::size_t>(length)).starts_with(kControl);
}

std::string called(pid_t pid) { return "process " + std::to_string(pid); }

// A control segment that a process has open, by any of these descriptors.
struct File {
  dev_t device = 0;
  ino_t inode = 0;
  std::vector<std::string> paths{};
};

bool is_same(const File& file, const struct stat& about) {
  return file.device == about.st_dev && file.inode == about.st_ino;
}

// The control segments that a process has open, each once. One that has no size yet is being made.
Result<std::vector<File>> control_files_of(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open && errno == ENOENT) return Status(Code::kInvalid, "there is no " + called(pid));
  if (!open && (errno == EACCES || errno == EPERM)) {
    return Status(Code::kRefused, called(pid) +
                                      " may not be looked at: it belongs to another user, or protects itself "
                                      "(prctl PR_SET_DUMPABLE); ask as its user, or as root");
  }
  if (!open) return Status::system("opendir", errno, folder);
  std::vector<File> files;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string path = folder + "/" + entry->d_name;
    if (!is_control(path)) continue;
    // By now the descriptor may be another file's. What it was when it is opened here does not change any more.
    const os::Fd seen(::open(path.c_str(), O_PATH | O_CLOEXEC));
    struct stat about{};
    if (!seen.valid() || !is_control("/proc/self/fd/" + std::to_string(seen.get()))) continue;
    if (::fstat(seen.get(), &about) != 0 || about.st_size == 0) continue;
    const auto known =
        std::find_if(files.begin(), files.end(), [&](const File& each) { return is_same(each, about); });
    (known != files.end() ? *known : files.emplace_back(File{about.st_dev, about.st_ino}))
        .paths.push_back(path);
  }
  return files;
}

// A process opens its segment a second time for a moment when it forks, and the descriptor may be another file's by now: the one
// that is opened must be of the inode. kTimeout: none is.
Result<os::Fd> open_control(const File& file, pid_t pid, Access access) {
  int error = 0;
  for (const std::string& path : file.paths) {
    os::Fd fd(::open(path.c_str(), (access == Access::kWrite ? O_RDWR : O_RDONLY) | O_CLOEXEC));
    struct stat about{};
    if (!fd.valid()) {
      error = errno;
    } else if (::fstat(fd.get(), &about) == 0 && is_same(file, about)) {
      return fd;
    }
  }
  if (error == EACCES || error == EPERM) return Status::system("open", error, file.paths.front());
  return Status(Code::kTimeout, "the control segment of " + called(pid) + " cannot be opened");
}

}  // namespace

View::View(const domain::Domain& domain) noexcept : base_(domain.base()) {}

View::View(os::Mapping mapping, Access access)
    : mapping_(std::make_shared<const os::Mapping>(std::move(mapping))),
      base_(mapping_->data()),
      access_(access) {}

std::span<const std::byte> View::region(domain::Region region) const noexcept {
  const domain::Extent& extent = header().regions[static_cast<std::size_t>(region)];
  return {base_ + extent.offset, extent.bytes};
}

std::span<const domain::Slot> View::slots() const noexcept {
  const std::uint64_t used = header().slots_used.load(std::memory_order_acquire);
  return {reinterpret_cast<const domain::Slot*>(region(domain::Region::kSlots).data()),
          std::min<std::uint64_t>(used, domain::kSlotCount)};
}

std::optional<std::uint64_t> View::within(domain::Region region, std::uint64_t offset) const noexcept {
  const domain::Extent& extent = header().regions[static_cast<std::size_t>(region)];
  if (offset < extent.offset || offset - extent.offset >= extent.bytes) return std::nullopt;
  return offset - extent.offset;
}

trace::Region View::traces() const noexcept {
  const domain::Extent& extent = header().regions[static_cast<std::size_t>(domain::Region::kTraces)];
  return trace::Region({base_ + extent.offset, extent.bytes});
}

trace::Tracer::Switch* View::trace_switch() const noexcept {
  return access_ == Access::kWrite ? &reinterpret_cast<domain::Header*>(base_)->trace : nullptr;
}

Result<View> view_of(const os::Fd& control, const std::string& owner, Access access) {
  struct stat about{};
  if (::fstat(control.get(), &about) != 0) return Status::system("fstat", errno, owner);
  const auto bytes = static_cast<std::uint64_t>(about.st_size);
  if (bytes < os::page_size())
    return Status(Code::kCorrupt, "the control segment of " + owner + " is too short");
  Result<os::Mapping> mapped = access == Access::kWrite ? os::Mapping::shared(control, 0, bytes)
                                                        : os::Mapping::read_only(control, bytes);
  if (!mapped) return mapped.status();
  const auto& header = *reinterpret_cast<const domain::Header*>(mapped->data());
  if (header.magic != domain::kMagic)
    return Status(Code::kCorrupt, "the control segment of " + owner + " has no header");
  if (header.layout_version != domain::kLayoutVersion) {
    return Status(Code::kVersion, owner + " has shared memory of layout version " +
                                      std::to_string(header.layout_version) + ", and this is for version " +
                                      std::to_string(domain::kLayoutVersion) +
                                      ": use the Forklift that the program uses");
  }
  const bool fits =
      header.control_bytes == bytes &&
      std::all_of(header.regions.begin(), header.regions.end(), [&](const domain::Extent& each) {
        return each.offset <= bytes && each.bytes <= bytes - each.offset;
      });
  if (!fits) return Status(Code::kCorrupt, "the control segment of " + owner + " has a wrong header");
  return View(*std::move(mapped), access);
}

Result<std::vector<View>> views_of(pid_t pid, Access access) {
  const ProcessState process = look_at(pid);
  if (!process.there) return Status(Code::kInvalid, "there is no " + called(pid));
  if (process.is_zombie()) {
    return Status(Code::kInvalid, called(pid) + " " + ending_of(process.wait_status) + "; its parent, " +
                                      called(process.parent) + ", has not taken note of it yet");
  }
  Status missed;
  for (int i = 0; i < kTries; ++i) {
    Result<std::vector<File>> files = control_files_of(pid);
    if (!files) return files.status();
    if (files->empty()) {
      return Status(Code::kInvalid, called(pid) + " (" + process.name +
                                        ") is in no Forklift domain: it has shared nothing "
                                        "yet, or has closed the descriptors");
    }
    std::vector<View> views;
    for (const File& file : *files) {
      Result<os::Fd> control = open_control(file, pid, access);
      if (!control) missed = control.status();
      Result<View> view = control ? view_of(*control, called(pid), access) : missed;
      missed = view.status();
      if (!view) break;
      views.push_back(*std::move(view));
    }
    if (missed) return views;
    if (missed.code() != Code::kTimeout) return missed;
  }
  return Status(Code::kInvalid, std::string(missed.what()));
}

}  // namespace forklift::inline abi_0_1::inspect
