#include "bindings/core/stats.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>

namespace forklift::py {

Status count_into(int file, std::uint64_t offset, bool from_zero) {
  void* const page =
      ::mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
  if (page == MAP_FAILED) return Status::system("mmap", errno, "the counters' file");
  auto* const row = new (page) Counters;
  row->pid = static_cast<std::uint64_t>(::getpid());
  if (!from_zero) {
    row->messages_put = counters.messages_put.load();
    row->messages_got = counters.messages_got.load();
    row->inline_bytes = counters.inline_bytes.load();
    row->block_bytes = counters.block_bytes.load();
    row->shared_bytes = counters.shared_bytes.load();
    row->pipe_bytes = counters.pipe_bytes.load();
  }
  // The file's page replaces the page of `counters` in place, so its address stays a constant.
  void* const moved =
      ::mremap(page, sizeof(Counters), sizeof(Counters), MREMAP_MAYMOVE | MREMAP_FIXED, &counters);
  if (moved == MAP_FAILED) {
    Status status = Status::system("mremap", errno, "the counters' page");
    ::munmap(page, sizeof(Counters));
    return status;
  }
  return {};
}

}  // namespace forklift::py
