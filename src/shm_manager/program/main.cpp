// forklift-shm-manager: the manager of a domain's named segments, or the broker of its memory pools' descriptors.
// Forklift starts it; see shm_manager/segment_manager.h and shm_manager/pool_broker.h.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "shm_manager/pool_broker.h"
#include "shm_manager/segment_manager.h"

namespace {

using forklift::segment::Role;

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<forklift::segment::ManagerArguments> read_arguments(int argc, char** argv) {
  forklift::segment::ManagerArguments arguments;
  if (argc != 7) return std::nullopt;
  const std::string_view role = argv[1];
  for (const Role each : {Role::kManage, Role::kStandBy, Role::kBroker})
    if (role == forklift::segment::name_of(each)) arguments.role = each;
  arguments.folder = argv[2];
  if (role != forklift::segment::name_of(arguments.role) || !parse(argv[3], arguments.token) ||
      !parse(argv[4], arguments.control) || !parse(argv[5], arguments.data) ||
      !parse(argv[6], arguments.ready) || arguments.control < 3 || arguments.data < 3)
    return std::nullopt;
  return arguments;
}

// Descriptors that the starting program did not mark close-on-exec: its pipes and files must not stay open
// because of us.
void close_others(const forklift::segment::ManagerArguments& arguments) {
  std::array<int, 4> keep = {2, arguments.control, arguments.data, arguments.ready};
  std::sort(keep.begin(), keep.end());
#ifdef SYS_close_range
  constexpr long kCloseRange = SYS_close_range;
#else
  constexpr long kCloseRange = 436;  // on every architecture
#endif
  bool closed = true;
  for (std::size_t i = 0; i < keep.size(); ++i) {
    const unsigned from = static_cast<unsigned>(std::max(keep[i], 2)) + 1;
    const unsigned to = i + 1 < keep.size() ? static_cast<unsigned>(std::max(keep[i + 1], 2)) - 1 : ~0U;
    if (from <= to) closed = ::syscall(kCloseRange, from, to, 0) == 0 && closed;
  }
  if (closed) return;
  // Before Linux 5.9.
  std::array<int, 1024> open{};
  std::size_t count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int file = -1;
    if (count < open.size() && parse(entry.path().filename().native(), file) && file > 2 &&
        std::find(keep.begin(), keep.end(), file) == keep.end())
      open[count++] = file;
  }
  std::for_each_n(open.begin(), count, [](int file) { ::close(file); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<forklift::segment::ManagerArguments> arguments = read_arguments(argc, argv);
  if (!arguments) {
    std::fputs(
        "forklift-shm-manager is started by Forklift, for programs that share memory by name or by "
        "descriptor.\n",
        stderr);
    return EXIT_FAILURE;
  }
  close_others(*arguments);
  for (const int file : {arguments->control, arguments->data, arguments->ready})
    if (file >= 0) ::fcntl(file, F_SETFD, FD_CLOEXEC);
  if (arguments->role != Role::kStandBy) {
    // The process that the program has started ends at once, so that the manager is nobody's child.
    const pid_t pid = ::fork();
    if (pid != 0) ::_exit(pid > 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    ::setsid();
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::umask(077);
  if (::chdir("/") != 0) return EXIT_FAILURE;
  if (arguments->role == Role::kBroker) return forklift::shm_manager::run_broker(*arguments);
  return forklift::shm_manager::run(*arguments);
}
