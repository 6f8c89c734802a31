// A plugin with a copy of the library of its own: what its queue says when it is used.
#include <string>

#include "forklift/queue.h"

extern "C" [[gnu::visibility("default")]] const char* forklift_test_plugin_use() {
  static std::string said;
  try {
    forklift::Queue<int> queue;
    queue.put(7);
    said = queue.get() == 7 ? "" : "another number came back";
  } catch (const forklift::Error& error) {
    said = error.what();
  }
  return said.c_str();
}
