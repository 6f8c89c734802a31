#include "support/shm_files.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "os/proc.h"
#include "segment/file_name.h"
#include "support/child.h"

namespace forklift::test {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> files_of(std::uint64_t token, const std::string& folder, bool segments_only) {
  std::vector<std::string> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string text = entry.path().filename().string();
    const auto name = segment::FileName::parse(text);
    if (!name || (token != 0 && name->token != token)) continue;
    if (segments_only && name->kind != segment::FileKind::kSegment) continue;
    found.push_back(text);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> words_of(const fs::path& process) {
  std::ifstream file(process / "cmdline", std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  std::vector<std::string> words;
  for (std::string word; std::getline(all, word, '\0');) words.push_back(word);
  return words;
}

std::vector<pid_t> processes(std::uint64_t token, const std::string& role) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    const std::string pid = entry.path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::vector<std::string> words = words_of(entry.path());
    if (words.size() == 7 && words[0] == "forklift-shm-manager" && words[1] == role &&
        words[3] == std::to_string(token) && os::task_state(std::stoi(pid)) != 'Z')
      found.push_back(std::stoi(pid));
  }
  return found;
}

}  // namespace

std::vector<std::string> shm_files(std::uint64_t token, const std::string& folder) {
  return files_of(token, folder, false);
}
std::vector<std::string> shm_segments(std::uint64_t token, const std::string& folder) {
  return files_of(token, folder, true);
}
std::vector<pid_t> managers(std::uint64_t token) { return processes(token, "manage"); }
std::vector<pid_t> stand_bys(std::uint64_t token) { return processes(token, "stand-by"); }

std::vector<pid_t> brokers(std::uint64_t token) { return processes(token, "broker"); }

namespace {

pid_t parent_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 2)));
  char state = 0;
  pid_t parent = 0;
  fields >> state >> parent;
  return parent;
}

std::optional<ManagerPair> pair_of(const std::vector<pid_t>& all) {
  if (all.size() != 2) return std::nullopt;
  if (parent_of(all[1]) == all[0]) return ManagerPair{all[0], all[1]};
  if (parent_of(all[0]) == all[1]) return ManagerPair{all[1], all[0]};
  return std::nullopt;
}

template <class Look>
ManagerPair wait_for(const char* what, const ManagerPair& before, Look&& look) {
  std::optional<ManagerPair> pair;
  EXPECT_TRUE(eventually([&] {
    pair = look();
    return pair && pair->serves != before.serves && pair->stands_by != before.stands_by;
  })) << what;
  return pair.value_or(ManagerPair());
}

}  // namespace

std::optional<ManagerPair> manager_pair(std::uint64_t token) {
  std::vector<pid_t> all = managers(token);
  for (const pid_t pid : stand_bys(token)) all.push_back(pid);
  return pair_of(all);
}

ManagerPair wait_for_pair(std::uint64_t token, const ManagerPair& before) {
  return wait_for("the manager's two processes", before, [&] { return manager_pair(token); });
}
ManagerPair wait_for_brokers(std::uint64_t token, const ManagerPair& before) {
  return wait_for("the broker's two processes", before, [&] { return pair_of(brokers(token)); });
}

void expect_nothing_left(std::uint64_t token, int timeout_ms, const std::string& folder) {
  const bool gone = eventually(
      [&] { return shm_files(token, folder).empty() && managers(token).empty() && stand_bys(token).empty(); },
      timeout_ms);
  if (gone) return;
  for (const std::string& file : shm_files(token, folder)) ADD_FAILURE() << "left behind: " << file;
  for (const pid_t pid : managers(token)) ADD_FAILURE() << "left behind: manager " << pid;
  for (const pid_t pid : stand_bys(token)) ADD_FAILURE() << "left behind: one who stands by, " << pid;
}

}  // namespace forklift::test
