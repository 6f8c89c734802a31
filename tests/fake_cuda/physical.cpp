#include "physical.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "settings.h"

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

constexpr const char* kPrefix = "fake-cuda";

// What a memfd's name says: "fake-cuda.<machine>.<device>.<kind>.<exportable>.<bytes>.<token>".
struct Description {
  std::string machine;
  int device = 0;
  char kind = 0;
  bool exportable = false;
  std::size_t bytes = 0;
  std::string token;
};

std::optional<Description> read_description(const std::string& name) {
  std::istringstream in(name);
  std::string words[7];
  for (std::string& word : words) {
    if (!std::getline(in, word, '.')) return std::nullopt;
  }
  if (words[0] != kPrefix || words[3].size() != 1) return std::nullopt;
  return Description{words[1],
                     static_cast<int>(std::strtol(words[2].c_str(), nullptr, 10)),
                     words[3][0],
                     words[4] == "1",
                     std::strtoull(words[5].c_str(), nullptr, 10),
                     words[6]};
}

std::map<std::string, std::weak_ptr<Physical>>& known() {
  static auto* const made = new std::map<std::string, std::weak_ptr<Physical>>;
  return *made;
}

// Of the device by this process alone.
std::size_t used_here(int machine_device) {
  std::size_t used = 0;
  for (const auto& [token, memory] : known()) {
    const std::shared_ptr<Physical> alive = memory.lock();
    if (alive != nullptr && alive->machine_device() == machine_device) used += alive->mapped_bytes();
  }
  return used;
}

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

std::string new_token() {
  static std::atomic<unsigned> count{0};
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) random = 0;
  char text[64];
  std::snprintf(text, sizeof text, "%x-%x-%016llx", static_cast<unsigned>(::getpid()), count.fetch_add(1),
                static_cast<unsigned long long>(random));
  return text;
}

std::string memfd_name(const std::string& link) {
  static constexpr std::string_view kMemfd = "/memfd:";
  static constexpr std::string_view kDeleted = " (deleted)";
  if (!link.starts_with(kMemfd)) return {};
  std::string name = link.substr(kMemfd.size());
  if (name.ends_with(kDeleted)) name.resize(name.size() - kDeleted.size());
  return name;
}

bool Physical::read_name(const std::string& name) {
  const std::optional<Description> read = read_description(name);
  if (!read) return false;
  machine_device_ = read->device;
  bytes_ = read->bytes;
  kind_ = static_cast<Kind>(read->kind);
  exportable_ = read->exportable;
  token_ = read->token;
  name_ = name;
  return true;
}

std::size_t Physical::mapped_bytes() const { return whole_pages(bytes_); }

CudaError Physical::create(int machine_device, std::size_t bytes, Kind kind, bool exportable,
                           std::shared_ptr<Physical>* made) {
  const std::size_t used = settings().bytes_are_set ? used_bytes(machine_device) : used_here(machine_device);
  if (used > settings().bytes || whole_pages(bytes) > settings().bytes - used) return CudaError::kOutOfMemory;
  std::ostringstream name;
  name << kPrefix << '.' << settings().machine << '.' << machine_device << '.' << static_cast<char>(kind)
       << '.' << (exportable ? 1 : 0) << '.' << bytes << '.' << new_token();
  const std::shared_ptr<Physical> memory(new Physical);
  if (!memory->read_name(name.str())) return CudaError::kInvalidValue;
  memory->fd_ = ::memfd_create(name.str().c_str(), MFD_CLOEXEC);
  if (memory->fd_ < 0) return CudaError::kOperatingSystem;
  const std::size_t size = memory->mapped_bytes() + (kind == Kind::kPlain ? kPage : 0);
  if (::ftruncate(memory->fd_, static_cast<off_t>(size)) != 0) return CudaError::kOutOfMemory;
  known()[memory->token_] = memory;
  *made = memory;
  return CudaError::kSuccess;
}

CudaError Physical::adopt(int fd, std::shared_ptr<Physical>* made) {
  char link[PATH_MAX];
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(path.c_str(), link, sizeof link);
  // A descriptor that is none, or not the driver's: as driver 580.159.04 says.
  if (length <= 0) return CudaError::kUnknown;
  const std::shared_ptr<Physical> memory(new Physical);
  if (!memory->read_name(memfd_name(std::string(link, static_cast<std::size_t>(length))))) {
    return CudaError::kUnknown;
  }
  if (const auto found = known().find(memory->token_); found != known().end()) {
    if (const std::shared_ptr<Physical> alive = found->second.lock()) {
      *made = alive;
      return CudaError::kSuccess;
    }
  }
  memory->fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (memory->fd_ < 0) return CudaError::kOperatingSystem;
  known()[memory->token_] = memory;
  *made = memory;
  return CudaError::kSuccess;
}

Physical::~Physical() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (const auto found = known().find(token_); found != known().end() && found->second.expired()) {
    known().erase(found);
  }
}

int Physical::duplicate() const { return ::fcntl(fd_, F_DUPFD_CLOEXEC, 0); }

long Physical::live() {
  long count = 0;
  for (const auto& [token, memory] : known()) count += memory.expired() ? 0 : 1;
  return count;
}

long Physical::live_bytes() {
  long bytes = 0;
  for (const auto& [token, memory] : known()) {
    if (const std::shared_ptr<Physical> alive = memory.lock()) bytes += static_cast<long>(alive->bytes());
  }
  return bytes;
}

namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

// Adds the memory behind the descriptors of a process to what has been seen. One of another user, or one that has
// ended meanwhile, has none to look at.
void look_at_descriptors(const char* process, int machine_device, std::set<std::string>& seen,
                         std::size_t* used) {
  const Folder folder(::opendir((std::string("/proc/") + process + "/fd").c_str()));
  if (folder == nullptr) return;
  while (const dirent* const entry = ::readdir(folder.get())) {
    char link[512];
    const ssize_t length = ::readlinkat(::dirfd(folder.get()), entry->d_name, link, sizeof link);
    static constexpr std::string_view kBegin = "/memfd:fake-cuda.";
    if (length <= 0 || !std::string_view(link, static_cast<std::size_t>(length)).starts_with(kBegin))
      continue;
    const std::optional<Description> read =
        read_description(memfd_name(std::string(link, static_cast<std::size_t>(length))));
    if (!read || read->machine != settings().machine || read->device != machine_device) continue;
    if (seen.insert(read->token).second) *used += whole_pages(read->bytes);
  }
}

}  // namespace

std::size_t used_bytes(int machine_device) {
  std::set<std::string> seen;
  std::size_t used = 0;
  const Folder processes(::opendir("/proc"));
  while (const dirent* const entry = processes != nullptr ? ::readdir(processes.get()) : nullptr) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    look_at_descriptors(entry->d_name, machine_device, seen, &used);
  }
  return used;
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake
