#include "process/program.h"

#include <atomic>
#include <utility>

namespace forklift::inline abi_0_1::process {

namespace {

std::atomic<bool> was_initialised{false};

std::string& own_name() {
  static std::string* const name = new std::string;
  return *name;
}

}  // namespace

bool initialised() noexcept { return was_initialised.load(); }

bool mark_initialised(std::string program_name) {
  if (was_initialised.exchange(true)) return true;
  own_name() = std::move(program_name);
  return false;
}

void unmark_initialised() noexcept { was_initialised = false; }

const std::string& program_name() noexcept { return own_name(); }

}  // namespace forklift::inline abi_0_1::process
