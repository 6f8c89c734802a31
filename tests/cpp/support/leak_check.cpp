#include "support/leak_check.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "support/fake_cuda.h"

#if defined(__SANITIZE_ADDRESS__)
namespace {
bool no_leak_report = false;
}
// LeakSanitizer asks it when a process ends (sanitizer/lsan_interface.h).
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() { return no_leak_report; }
#endif

namespace forklift::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShm = "/dev/shm";

struct Registry {
  std::map<std::string, Count> probes;
  Count domains;
  std::function<std::set<int>()> kept_descriptors;
};

Registry& registry() {
  static Registry instance;  // initializers of other files add to it
  return instance;
}

bool is_forklift_memfd(const std::string& target) { return target.starts_with("/memfd:forklift"); }

std::map<std::string, std::size_t> read_descriptors() {
  std::map<std::string, std::size_t> found;
  std::error_code error;
  const std::set<int> kept = registry().kept_descriptors ? registry().kept_descriptors() : std::set<int>();
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd", error)) {
    if (kept.contains(std::stoi(entry.path().filename()))) continue;
    fs::path target = fs::read_symlink(entry.path(), error);
    if (error) continue;
    // The descriptor of this very listing ends with the loop.
    if (target.string() == "/proc/" + std::to_string(getpid()) + "/fd") continue;
    ++found[target.string()];
  }
  return found;
}

// Bytes, not lines: changing the protection of a part splits a mapping and leaks nothing.
std::map<std::string, std::uint64_t> read_mappings() {
  std::map<std::string, std::uint64_t> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    char dash = 0;
    std::string skipped;
    std::string name;
    fields >> std::hex >> begin >> dash >> end;
    for (int i = 0; i < 4; ++i) fields >> skipped;
    std::getline(fields >> std::ws, name);
    const bool shared_object = name.starts_with("/memfd:") || name.starts_with("/dev/shm/") ||
                               name.starts_with("/SYSV") || name.starts_with("/dev/zero");
    if (shared_object) found[name] += end - begin;
  }
  return found;
}

// Names that Python's standard library and torch give. No C++ test starts either; somebody else may be.
bool is_of_other_programs(const std::string& name) {
  return name.starts_with("sem.mp-") || name.starts_with("psm_") || name.starts_with("torch_") ||
         (tests_real_cuda() && name.starts_with("cuda.shm."));
}

std::set<std::string> read_shm_entries() {
  std::set<std::string> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(kShm, error)) {
    struct stat info{};
    std::string name = entry.path().filename().string();
    if (lstat(entry.path().c_str(), &info) == 0 && info.st_uid == geteuid() && !is_of_other_programs(name))
      found.insert(std::move(name));
  }
  return found;
}

std::set<pid_t> read_children() {
  std::set<pid_t> found;
  std::error_code error;
  for (const fs::directory_entry& task : fs::directory_iterator("/proc/self/task", error)) {
    std::ifstream children(task.path() / "children");
    for (pid_t pid = 0; children >> pid;) found.insert(pid);
  }
  // Kernels without the file above: at least a dead child, or that there is one.
  siginfo_t info{};
  if (found.empty() && waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0) {
    found.insert(info.si_pid);
  }
  return found;
}

// Does a process other than this one use the entry, or did it go meanwhile (a name that somebody else makes
// and unlinks at once)? Then it is not ours.
bool used_by_somebody_else(const std::string& entry) {
  const std::string path = std::string(kShm) + "/" + entry;
  std::error_code error;
  for (const fs::directory_entry& process : fs::directory_iterator("/proc", error)) {
    const std::string pid = process.path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos || pid == std::to_string(getpid())) continue;
    std::ifstream maps(process.path() / "maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.ends_with(path)) return true;
    }
    std::error_code unreadable;
    for (const fs::directory_entry& fd : fs::directory_iterator(process.path() / "fd", unreadable)) {
      if (fs::read_symlink(fd.path(), unreadable) == path) return true;
    }
  }
  struct stat info{};
  return lstat(path.c_str(), &info) != 0;
}

struct ForkliftFiles {
  std::size_t descriptors = 0;
  std::size_t mapped_files = 0;
};

ForkliftFiles count_forklift_files(const Snapshot& snapshot) {
  ForkliftFiles files;
  for (const auto& [target, count] : snapshot.descriptors) {
    if (is_forklift_memfd(target)) files.descriptors += count;
  }
  for (const auto& [name, bytes] : snapshot.mappings) {
    if (is_forklift_memfd(name)) ++files.mapped_files;
  }
  return files;
}

class LeakListener : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo&) override { before_ = Snapshot::take(); }

  void OnTestEnd(const testing::TestInfo&) override {
    const Snapshot after = Snapshot::take();
    for (const std::string& leak : leaks_between(*before_, after)) ADD_FAILURE() << "left behind: " << leak;
    for (pid_t child : after.children) {
      if (before_->children.contains(child) || child <= 0) continue;
      kill(child, SIGKILL);
      while (waitpid(child, nullptr, __WALL) < 0 && errno == EINTR) {
      }
    }
  }

 private:
  std::optional<Snapshot> before_;
};

}  // namespace

bool add_leak_probe(std::string name, Count count) {
  registry().probes[std::move(name)] = std::move(count);
  return true;
}

bool set_kept_descriptors(std::function<std::set<int>()> numbers) {
  registry().kept_descriptors = std::move(numbers);
  return true;
}

bool set_domain_count(Count count) {
  registry().domains = std::move(count);
  return true;
}

Snapshot Snapshot::take() {
  Snapshot snapshot;
  snapshot.children = read_children();
  snapshot.descriptors = read_descriptors();
  snapshot.mappings = read_mappings();
  snapshot.shm_entries = read_shm_entries();
  for (const auto& [name, count] : registry().probes) snapshot.probes[name] = count();
  const ForkliftFiles files = count_forklift_files(snapshot);
  snapshot.domains = registry().domains ? registry().domains() : (files.descriptors + files.mapped_files > 0);
  return snapshot;
}

std::vector<std::string> leaks_between(const Snapshot& before, const Snapshot& after,
                                       const DomainAllowance& allowance) {
  std::vector<std::string> leaks;
  for (pid_t child : after.children) {
    if (!before.children.contains(child)) leaks.push_back("child process " + std::to_string(child));
  }

  // A real driver keeps its own files until the process ends; what is Forklift's is looked for there, too.
  const bool has_driver = tests_real_cuda();
  const auto is_drivers = [&](const std::string& name) { return has_driver && !is_forklift_memfd(name); };

  // The memfds of domains that are new in this process, made by the first use of Forklift.
  const auto grown = static_cast<std::size_t>(std::max<std::int64_t>(0, after.domains - before.domains));
  const ForkliftFiles had = count_forklift_files(before);
  const ForkliftFiles has = count_forklift_files(after);
  const bool excused = grown > 0 && has.descriptors <= had.descriptors + grown * allowance.descriptors &&
                       has.mapped_files <= had.mapped_files + grown * allowance.mapped_files;

  for (const auto& [target, count] : after.descriptors) {
    const auto known = before.descriptors.find(target);
    const std::size_t old = known == before.descriptors.end() ? 0 : known->second;
    if (count > old && !is_drivers(target) && !(excused && is_forklift_memfd(target))) {
      leaks.push_back(std::to_string(count - old) + " descriptor(s) of " + target);
    }
  }
  for (const auto& [name, bytes] : after.mappings) {
    const auto known = before.mappings.find(name);
    const std::uint64_t old = known == before.mappings.end() ? 0 : known->second;
    if (bytes > old && !is_drivers(name) && !(excused && is_forklift_memfd(name))) {
      leaks.push_back("mapping of " + std::to_string(bytes - old) + " bytes of " + name);
    }
  }
  for (const std::string& entry : after.shm_entries) {
    if (!before.shm_entries.contains(entry) && !used_by_somebody_else(entry)) {
      leaks.push_back(std::string(kShm) + "/" + entry);
    }
  }
  for (const auto& [name, count] : after.probes) {
    const auto known = before.probes.find(name);
    const std::int64_t old = known == before.probes.end() ? 0 : known->second;
    if (count > old) leaks.push_back(std::to_string(count - old) + " " + name);
  }
  return leaks;
}

void expect_no_leak_report_here() {
#if defined(__SANITIZE_ADDRESS__)
  no_leak_report = true;
#endif
}

namespace {
// A /dev/shm that no other program writes into, where this user may have one: the leak check looks at all of
// it.
void have_own_dev_shm() {
  if (::unshare(CLONE_NEWNS) != 0) return;
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0)
    (void)::mount("tmpfs", kShm, "tmpfs", MS_NOSUID | MS_NODEV, nullptr);
}
}  // namespace

void install_leak_check() {
  have_own_dev_shm();
  // GoogleTest owns the listener.
  testing::UnitTest::GetInstance()->listeners().Append(new LeakListener);
}

}  // namespace forklift::test
