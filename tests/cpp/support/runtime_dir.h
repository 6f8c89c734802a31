// A runtime directory of a test's own, in which nothing may be left.
//
//   RuntimeDir directory;            // XDG_RUNTIME_DIR is one of its own until the end of the scope
//   EXPECT_THAT(directory.entries(), testing::IsEmpty());
//
// Thread safety: none (it changes the environment).
#pragma once

#include <string>
#include <vector>

namespace forklift::test {

// For mkstemp and mkdtemp: a name of its own in the folder for temporary files.
std::string temporary(const std::string& name);

class RuntimeDir {
 public:
  RuntimeDir();
  // Removes it; a failure if there is anything in it.
  ~RuntimeDir();
  RuntimeDir(const RuntimeDir&) = delete;
  RuntimeDir& operator=(const RuntimeDir&) = delete;

  const std::string& path() const noexcept { return path_; }
  // Where names are: <path>/forklift/<name>.
  std::string file(const std::string& name) const { return path_ + "/forklift/" + name; }
  std::vector<std::string> entries() const;
  // What is there, the test left on purpose.
  void empty();

 private:
  std::string path_;
  std::string before_;
  bool was_set_ = false;
};

}  // namespace forklift::test
