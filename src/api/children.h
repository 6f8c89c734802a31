// Which children of this process run: what active_children() answers.
//
// Thread safety: yes. Fork: a child begins without any.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "forklift/this_process.h"

namespace forklift::inline abi_0_1::process {

class Children {
 public:
  // `key`: whoever started it. `sentinel` stays open until remove().
  void add(const void* key, ProcessInfo info, int sentinel);
  void remove(const void* key);  // also what was never added
  std::vector<ProcessInfo> running();

 private:
  friend Children& children();
  struct Entry {
    ProcessInfo info;
    int sentinel;
  };
  std::mutex mutex_;
  std::map<const void*, Entry> entries_;
};

Children& children();

}  // namespace forklift::inline abi_0_1::process
