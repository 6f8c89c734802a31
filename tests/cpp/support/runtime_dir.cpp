#include "support/runtime_dir.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

namespace forklift::test {

namespace fs = std::filesystem;

std::string temporary(const std::string& name) {
  return (fs::temp_directory_path() / ("forklift-" + name + "-XXXXXX")).string();
}

RuntimeDir::RuntimeDir() {
  std::string pattern = temporary("test");
  if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "mkdtemp " << pattern;
  path_ = pattern;
  if (const char* before = ::getenv("XDG_RUNTIME_DIR")) {
    before_ = before;
    was_set_ = true;
  }
  ::setenv("XDG_RUNTIME_DIR", path_.c_str(), 1);
}

RuntimeDir::~RuntimeDir() {
  for (const std::string& entry : entries())
    ADD_FAILURE() << "left behind in the runtime directory: " << entry;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (was_set_) {
    ::setenv("XDG_RUNTIME_DIR", before_.c_str(), 1);
  } else {
    ::unsetenv("XDG_RUNTIME_DIR");
  }
}

std::vector<std::string> RuntimeDir::entries() const {
  std::vector<std::string> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_ + "/forklift", error))
    found.push_back(entry.path().filename().string());
  return found;
}

void RuntimeDir::empty() {
  for (const std::string& entry : entries()) fs::remove_all(file(entry));
}

}  // namespace forklift::test
