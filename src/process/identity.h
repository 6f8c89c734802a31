// Who a process is: told to a child by its parent, asked for by this_process.h.
//
// Thread safety: become() before there are other threads; the others any time.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace forklift::process {

struct Identity {
  std::string name;
  int rank = -1;
  bool daemon = false;
};

struct Parent {
  pid_t pid = 0;  // 0: this process was started by none of ours
  std::string name;
};

// Of this process; a child of a bare fork has its parent's identity and no parent.
const Identity& own_identity();
Parent own_parent();

// In a child, first of all.
void become(Identity identity, Parent parent);
// The parent in its children's eyes: this process.
Parent as_parent();

// The same through the environment, for a child that is a fresh process.
std::vector<std::pair<std::string, std::string>> identity_variables(const Identity& identity);
// Takes them out of it.
void become_what_environment_says();

}  // namespace forklift::process
