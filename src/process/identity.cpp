#include "process/identity.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace forklift::inline abi_0_1::process {
namespace {

constexpr const char* kNameVariable = "FORKLIFT_NAME";
constexpr const char* kParentVariable = "FORKLIFT_PARENT";  // the parent's name
constexpr const char* kSelfVariable = "FORKLIFT_SELF";      // "<rank>,<daemon>,<parent's pid>,<world size>"
constexpr const char* kGroupVariable = "FORKLIFT_GROUP";

struct Self {
  Identity identity{"MainProcess", -1, false};
  Parent parent;
  pid_t pid = 0;  // the process to which this applies: not its forked children
};

Self& self() {
  static Self* const instance = new Self;  // outlives main
  return *instance;
}

// The variable's value; removes the variable from the environment.
std::string take_variable(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value != nullptr ? value : "";
  ::unsetenv(name);
  return text;
}

}  // namespace

const Identity& own_identity() { return self().identity; }

Parent own_parent() { return self().pid == ::getpid() ? self().parent : Parent(); }

void become(Identity identity, Parent parent) {
  self() = {std::move(identity), std::move(parent), ::getpid()};
}

Parent as_parent() { return {::getpid(), self().identity.name}; }

std::vector<std::pair<std::string, std::string>> identity_variables(const Identity& identity) {
  const Parent parent = as_parent();
  return {{kNameVariable, identity.name},
          {kParentVariable, parent.name},
          {kGroupVariable, identity.group},
          {kSelfVariable, std::to_string(identity.rank) + "," + (identity.daemon ? "1" : "0") + "," +
                              std::to_string(parent.pid) + "," + std::to_string(identity.world_size)}};
}

void become_what_environment_says() {
  const std::string numbers = take_variable(kSelfVariable);
  Identity identity{take_variable(kNameVariable), -1, false};
  identity.group = take_variable(kGroupVariable);
  Parent parent{0, take_variable(kParentVariable)};
  int daemon = 0;
  if (std::sscanf(numbers.c_str(), "%d,%d,%d,%d", &identity.rank, &daemon, &parent.pid,
                  &identity.world_size) != 4)
    return;
  identity.daemon = daemon != 0;
  become(std::move(identity), std::move(parent));
}

}  // namespace forklift::inline abi_0_1::process
