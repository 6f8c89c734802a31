// A domain of other processes than the test's own: a creator and users that it forks, each to be killed.
//
//   Tree tree(2);                                   // the creator's segment, and two users who have it
//   tree.kill_creator();
//   EXPECT_TRUE(tree.stays());
//   tree.kill_users();
//   EXPECT_TRUE(tree.goes());
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "node/node.h"
#include "support/child.h"
#include "support/shm_files.h"
#include "support/status_check.h"

namespace forklift::test {

// What its processes tell the test.
struct TreeWords {
  std::atomic<std::uint64_t> token;
  char name[64];  // of the creator's segment
  std::atomic<pid_t> users[8];
  std::atomic<std::int64_t> done;  // for a test's own use
};

class Tree {
 public:
  static constexpr std::uint64_t kBytes = 100'000;
  // In a user, or in the creator when there are none: runs before the tree is ready.
  using Act = std::function<void(node::Node& node, const arena::LeasePtr& lease, int user)>;

  explicit Tree(int users, const Act& act = nullptr) : users_(users) {
    void* const page =
        ::mmap(nullptr, sizeof(TreeWords), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    words_ = new (page) TreeWords();
    creator_ = Child([&] { create(act); });
    for (int i = 0; i <= users; ++i) EXPECT_TRUE(ready_.wait());
  }
  ~Tree() {
    kill_users();
    kill_creator();
    expect_nothing_left(token());
    ::munmap(words_, sizeof(TreeWords));
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  TreeWords& words() { return *words_; }
  std::uint64_t token() const { return words_->token.load(); }
  std::string name() const { return words_->name; }
  bool is_there() const { return !shm_segments(token()).empty(); }
  // Within the two seconds that are promised.
  bool goes() const {
    return eventually([this] { return !is_there(); }, 2000);
  }
  // For longer than a slice of the manager, and the moment that it keeps what was handed over.
  bool stays() const {
    return !eventually([this] { return !is_there(); }, 1500);
  }

  void kill_creator() { creator_.kill_now(); }
  void kill_user(int user) {
    if (const pid_t pid = words_->users[user].exchange(0)) ::kill(pid, SIGKILL);
  }
  void kill_users() {
    for (int user = 0; user < users_; ++user) kill_user(user);
  }
  pid_t creator() const { return creator_.pid(); }
  // Lets the creator (a user, when it has been told to wait) go on.
  Gate& go() { return go_; }

 private:
  void create(const Act& act) {
    Result<std::unique_ptr<node::Node>> node = node::Node::create();
    ASSERT_OK(node);
    segment::Segments& segments = (*node)->segments();
    arena::LeasePtr lease;
    {
      Result<arena::LeasePtr> made = segments.create(kBytes);
      ASSERT_OK(made);
      lease = *std::move(made);
    }
    std::memset(lease->data(), 0x5a, kBytes);
    std::strncpy(words_->name, segments.name_of(*lease).c_str(), sizeof words_->name - 1);
    words_->token.store(segments.token());
    if (users_ == 0 && act) act(**node, lease, -1);
    // Detached from this process, so that its death is not waited for by anybody.
    for (int user = 0; user < users_; ++user) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        if (act) act(**node, lease, user);
        ready_.open();
        for (;;) ::pause();
      }
      words_->users[user].store(pid);
    }
    ready_.open();
    for (;;) ::pause();
  }

  int users_;
  TreeWords* words_ = nullptr;
  Gate ready_;
  Gate go_;
  Child creator_;
};

}  // namespace forklift::test
