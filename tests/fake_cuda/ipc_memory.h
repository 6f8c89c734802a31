// cuMemAlloc's memory of other processes, and what becomes of it when its origin frees it or ends.
//
// The driver's documentation calls what happens then undefined. In the fake each byte reads FAKE_CUDA_FREED_BYTE:
// the origin overwrites memory that is open elsewhere when it frees it, and a process that has it open does so when
// it finds that the origin has ended. The page behind the memory in its memfd (Fate) says which has happened.
//
// Guarded by process_mutex() within a process; the page's words are atomic.
#pragma once

#include <sys/types.h>

#include <memory>

#include "entry.h"
#include "physical.h"
#include "space.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

// What an IPC handle says: which descriptor of which process.
struct IpcName {
  char magic[8];
  int process;
  int fd;
  char token[48];
};
static_assert(sizeof(IpcName) == sizeof(IpcMemoryHandle) && sizeof(IpcName) == sizeof(IpcEventHandle));

inline constexpr char kMemoryMagic[] = "FAKEMEM";
inline constexpr char kEventMagic[] = "FAKEEVT";

IpcName ipc_name(const char* magic, int fd, const std::string& token);
// A descriptor of what the name says; -1: the process or its descriptor is gone, or it is another one by now.
int open_ipc_name(const IpcName& name, const char* magic);

// A process whose memory is open here.
class Origin {
 public:
  // Null: the process has ended, or the memory is freed.
  static std::shared_ptr<Origin> watch(pid_t process, const Physical& memory);
  ~Origin();
  Origin(const Origin&) = delete;
  Origin& operator=(const Origin&) = delete;
  // Before an access: overwrites the memory if its origin has ended.
  void look(const Range& range);

 private:
  struct Fate;
  Origin(int pidfd, Fate* fate) : pidfd_(pidfd), fate_(fate) {}
  static Fate* map_fate(const Physical& memory);
  friend void poison_if_opened(const Physical& memory, char* alias);

  int pidfd_;
  Fate* fate_;
};

// Of the origin, when it frees memory.
void poison_if_opened(const Physical& memory, char* alias);
// Unmaps what cuIpcOpenMemHandle mapped.
void close_ipc(Range& range);

}  // namespace forklift::inline abi_0_1::device::cuda::fake
