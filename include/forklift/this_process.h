// The processes around this one: who it is, who started it, whom it has started.
//
//   forklift::this_process().name                            // "MainProcess"; in a child "Process-3"
//   while (step()) {
//     if (auto parent = forklift::parent_process(); parent && !parent->is_alive()) break;   // orphaned
//   }
//   for (const forklift::ProcessInfo& child : forklift::active_children())
//     std::cout << child.name << " runs as " << child.pid << '\n';
//
// As Python's current_process(), parent_process(), active_children().
//
// Thread safety: yes. Process safety: each process sees its own surroundings; a child of a bare fork(2) keeps
// the name of its parent and has no parent_process().
//
// Invariant: a ParentProcess is about the process that started this one, never about another that got its
// pid.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

// What a process knows of itself or of its child.
struct ProcessInfo {
  std::string name;     // "MainProcess", "Process-1", ... unless set
  pid_t pid = 0;        // as the system has it
  int rank = -1;        // in its group; -1: none
  bool daemon = false;  // it ends with its parent
  int world_size = 0;   // how many ranks its group has; 0: it is in none
};

// This one.
ProcessInfo this_process();

// The children that Process objects of this process have started and that have not ended yet.
std::vector<ProcessInfo> active_children();

// The process that started this one.
class ParentProcess {
 public:
  // As the child was told; and whether it lives still.
  const std::string& name() const noexcept;
  pid_t pid() const noexcept;
  bool is_alive() const;
  // Readable when the parent has ended; owned by this object and its copies.
  int sentinel() const noexcept;
  // Waits for the parent's end. False: it still ran when the wait was over.
  void join() const { (void)join_within(detail::kForever); }
  [[nodiscard]] bool try_join(const Wait& wait = Wait::now()) const { return join_within(wait); }

 private:
  friend std::optional<ParentProcess> parent_process();
  struct State;
  explicit ParentProcess(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}
  bool join_within(detail::Limit limit) const;
  std::shared_ptr<const State> state_;
};

// Nothing in a process that no Process object started.
std::optional<ParentProcess> parent_process();

}  // namespace forklift::inline abi_0_1
