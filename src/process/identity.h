// A process's name, rank and parent: the parent tells them to the child, and this_process.h reads them.
//
// Thread safety: call become() before there are other threads, the other functions at any time.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace forklift::inline abi_0_1::process {

struct Identity {
  std::string name;
  int rank = -1;
  bool daemon = false;
  int world_size = 0;   // of the group that has the rank; 0: none
  std::string group{};  // where the group's memory is, for the room that made the text; empty: not in a text
};

struct Parent {
  pid_t pid = 0;  // 0: Forklift did not start this process
  std::string name;
};

// Of this process. A child of a bare fork has its parent's identity and no Parent.
const Identity& own_identity();
Parent own_parent();

// Called first of all in a child.
void become(Identity identity, Parent parent);
// This process, as its children see their parent.
Parent as_parent();

// The same in the form of environment variables, for a child that is a fresh process.
std::vector<std::pair<std::string, std::string>> identity_variables(const Identity& identity);
// Reads the variables, removes them from the environment, and calls become().
void become_what_environment_says();

}  // namespace forklift::inline abi_0_1::process
