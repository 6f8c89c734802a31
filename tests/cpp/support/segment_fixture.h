// Tests of named segments over a domain of their own. After each of them the manager has ended, and no file
// is left.
#pragma once

#include <sys/mount.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "segment/segments.h"
#include "support/node_fixture.h"
#include "support/runtime_dir.h"
#include "support/shm_files.h"

namespace forklift::test {

class SegmentFixture : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (node_) {
      token_ = segments().token();
      folder_ = segments().folder();
    }
  }
  void TearDown() override {
    if (node_) {
      EXPECT_EQ(segments().live(), 0U);
    }
    NodeFixture::TearDown();
    if (token_ != 0) expect_nothing_left(token_, 5000, folder_);
  }

  segment::Segments& segments() { return node_->segments(); }
  arena::LeasePtr create(std::uint64_t bytes, std::uint64_t head = 0) {
    Result<arena::LeasePtr> made = segments().create(bytes, head);
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  // Where the segment's file is.
  std::string path_of(const arena::Lease& lease) { return folder_ + segments().name_of(lease); }
  std::vector<std::string> files() { return shm_segments(token_, folder_); }

  std::uint64_t token_ = 0;
  std::string folder_;
};

// Sets an environment variable for a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before, was_set_ = true;
    value != nullptr ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Variable() { was_set_ ? ::setenv(name_, before_.c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool was_set_ = false;
};

// A small file system of a test's own; needs the right to mount one.
class SmallFolder {
 public:
  explicit SmallFolder(const std::string& options) : path_(temporary("shm")) {
    if (::mkdtemp(path_.data()) == nullptr) return;
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
  }
  ~SmallFolder() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
    // A manager may be making its files anew, in what was under the file system.
    std::error_code ignored;
    while (std::filesystem::exists(path_)) std::filesystem::remove_all(path_, ignored);
  }
  SmallFolder(const SmallFolder&) = delete;
  SmallFolder& operator=(const SmallFolder&) = delete;

  bool mounted() const { return mounted_; }
  const std::string& path() const { return path_; }
  bool make_read_only(bool read_only) {
    return ::mount(nullptr, path_.c_str(), nullptr, read_only ? MS_REMOUNT | MS_RDONLY : MS_REMOUNT,
                   nullptr) == 0;
  }

 private:
  std::string path_;
  bool mounted_ = false;
};

}  // namespace forklift::test
