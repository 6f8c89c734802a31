#include "segment/start_manager.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <vector>

namespace forklift::inline abi_0_1::segment {

namespace {

constexpr const char* kProgram = "forklift-shm-manager";

// Attributes and file actions of a spawn: a session of its own, no signal blocked or ignored, nothing on the
// standard descriptors.
class Spawn {
 public:
  Spawn() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    ::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, 1, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, 2, "/dev/null", O_WRONLY, 0);
  }
  ~Spawn() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  Result<pid_t> run(const std::string& program, const ManagerArguments& arguments) {
    for (const int file : {arguments.control, arguments.data, arguments.ready}) {
      if (file < 0) continue;
      if (const int error = ::posix_spawn_file_actions_adddup2(&actions_, file, file))
        return Status::system("posix_spawn_file_actions", error);
    }
    std::vector<std::string> words = {kProgram,
                                      std::string(name_of(arguments.role)),
                                      arguments.folder,
                                      std::to_string(arguments.token),
                                      std::to_string(arguments.control),
                                      std::to_string(arguments.data),
                                      std::to_string(arguments.ready)};
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t pid = 0;
    const int error = ::posix_spawn(&pid, program.c_str(), &actions_, &attributes_, argv.data(), environ);
    if (error != 0) return Status::system("posix_spawn", error, program);
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

// Numbers 0 to 2 are the standard descriptors of the program.
os::Fd copy_above_standard(const os::Fd& file) { return os::Fd(::fcntl(file.get(), F_DUPFD_CLOEXEC, 3)); }
os::Fd above_standard(os::Fd file) { return file.get() > 2 ? std::move(file) : copy_above_standard(file); }

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool is_program(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

// The folders of the file that this code is in and of the running program.
std::vector<std::string> own_folders() {
  std::vector<std::string> folders;
  Dl_info info{};
  char path[PATH_MAX];
  if (::dladdr(reinterpret_cast<const void*>(&find_manager), &info) != 0 && info.dli_fname != nullptr &&
      ::realpath(info.dli_fname, path) != nullptr)
    folders.push_back(parent_of(path));
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  if (length > 0) folders.push_back(parent_of(std::string(path, static_cast<std::size_t>(length))));
  return folders;
}

// The program has forked and its first process ends at once; the manager is nobody's child.
void wait_for_end(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// What the manager says: "R", or what is wrong.
Status read_answer(const os::Fd& pipe, const std::string& what, os::Deadline deadline) {
  std::string said;
  for (;;) {
    pollfd item{pipe.get(), POLLIN, 0};
    const auto left = static_cast<int>(deadline.left_ns(1'000'000'000) / 1'000'000);
    const int ready = ::poll(&item, 1, left);
    if (ready == 0 && deadline.passed())
      return {Code::kTimeout, std::string(kProgram) + " did not answer in time"};
    if (ready <= 0) continue;
    char bytes[512];
    const ssize_t got = ::read(pipe.get(), bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    said.append(bytes, static_cast<std::size_t>(got));
    if (said == "R") return {};
  }
  if (said.empty()) said = "it ended without a word";
  return {Code::kPeerDied, std::string(kProgram) + " cannot " + what + ": " + said};
}

// Waits until it works, or another process of the same role does.
Status start(const domain::Domain& domain, Role role, const std::string& folder, const std::string& what,
             os::Deadline deadline) {
  const Result<std::string> program = find_manager();
  if (!program) return program.status();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::system("pipe2", errno, kProgram);
  const os::Fd read(ends[0]);
  os::Fd write = above_standard(os::Fd(ends[1]));
  const os::Fd control = copy_above_standard(domain.control_file());
  const os::Fd data = copy_above_standard(domain.data_file());
  if (!write.valid() || !control.valid() || !data.valid()) return Status::system("fcntl", errno, kProgram);
  const Result<pid_t> started = Spawn().run(
      *program, {folder, domain.header().domain_id, control.get(), data.get(), write.get(), role});
  write.close();
  if (!started) return started.status();
  Status answer = read_answer(read, what, deadline);
  wait_for_end(*started);
  return answer;
}

}  // namespace

std::string_view name_of(Role role) noexcept {
  switch (role) {
    case Role::kManage: return "manage";
    case Role::kStandBy: return "stand-by";
    case Role::kBroker: return "broker";
  }
  return "";
}

Result<std::string> find_manager() {
  std::string tried;
  if (const char* const named = std::getenv("FORKLIFT_SHM_MANAGER"); named != nullptr && *named != '\0') {
    if (is_program(named)) return std::string(named);
    return {Code::kNotFound, "FORKLIFT_SHM_MANAGER is \"" + std::string(named) +
                                 "\", which is no program that this user may run"};
  }
  std::vector<std::string> places;
  for (const std::string& folder : own_folders()) {
    for (const char* below : {"/", "/libexec/", "/../libexec/forklift/"})
      places.push_back(folder + below + kProgram);
  }
#ifdef FORKLIFT_LIBEXEC
  places.push_back(std::string(FORKLIFT_LIBEXEC "/") + kProgram);
#endif
  for (const std::string& place : places) {
    if (is_program(place)) return place;
    tried += (tried.empty() ? "" : ", ") + place;
  }
  return {Code::kNotFound, "named segments and memory pools need the program " + std::string(kProgram) +
                               ", which is not where it should be (" + tried +
                               "); FORKLIFT_SHM_MANAGER says where it is"};
}

Status start_manager(const domain::Domain& domain, const std::string& folder, os::Deadline deadline) {
  return start(domain, Role::kManage, folder, "manage named segments", deadline);
}

Status start_broker(const domain::Domain& domain, os::Deadline deadline) {
  return start(domain, Role::kBroker, "-", "keep the descriptors of memory pools", deadline);
}

Result<pid_t> start_stand_by(const ManagerArguments& arguments) {
  ManagerArguments mine = arguments;
  mine.role = Role::kStandBy;
  mine.ready = -1;
  return Spawn().run("/proc/self/exe", mine);
}

}  // namespace forklift::inline abi_0_1::segment
