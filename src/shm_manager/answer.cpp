#include "shm_manager/answer.h"

#include <unistd.h>

#include <cerrno>

namespace forklift::inline abi_0_1::shm_manager {

void say(int file, const std::string& words) {
  if (file < 0) return;
  const char* at = words.data();
  for (std::size_t left = words.size(); left > 0;) {
    const ssize_t done = ::write(file, at, left);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) break;
    at += done;
    left -= static_cast<std::size_t>(done);
  }
  ::close(file);
}

}  // namespace forklift::inline abi_0_1::shm_manager
