#include "ipc_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>
#include <utility>

#include "contexts.h"
#include "devices.h"
#include "engine.h"
#include "event_page.h"
#include "events.h"
#include "fake_cuda.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

namespace {

template <std::size_t Room>
void write_words(char (&to)[Room], std::string_view words) {
  std::memcpy(to, words.data(), std::min(words.size(), Room - 1));
}

// Does a link of /proc lead to a memfd whose name ends with the token?
bool leads_to(const std::string& link, const std::string& token) {
  char text[PATH_MAX];
  const ssize_t length = ::readlink(link.c_str(), text, sizeof text);
  if (length <= 0) return false;
  const std::string name = memfd_name(std::string(text, static_cast<std::size_t>(length)));
  return !token.empty() && name.size() > token.size() && name.ends_with(token) &&
         name[name.size() - token.size() - 1] == '.';
}

std::string link_of(const std::string& process, int fd) {
  std::string link("/proc/");
  link += process;
  link += "/fd/";
  link += std::to_string(fd);
  return link;
}

bool has_ended(int pidfd) {
  pollfd item{pidfd, POLLIN, 0};
  int ready = 0;
  while ((ready = ::poll(&item, 1, 0)) < 0 && errno == EINTR) {
  }
  return ready > 0;
}

int open_process(pid_t process) { return static_cast<int>(::syscall(SYS_pidfd_open, process, 0)); }

// Why memory of a process cannot be opened: as driver 580.159.04 says.
CudaError why_gone(pid_t process) {
  const int pidfd = open_process(process);
  const bool lives = pidfd >= 0 && !has_ended(pidfd);
  if (pidfd >= 0) ::close(pidfd);
  return lives ? CudaError::kInvalidValue : CudaError::kInvalidHandle;
}

}  // namespace

IpcName ipc_name(const char* magic, int fd, const std::string& token) {
  IpcName name{};
  write_words(name.magic, magic);
  name.process = ::getpid();
  name.fd = fd;
  write_words(name.token, token);
  return name;
}

int open_ipc_name(const IpcName& name, const char* magic) {
  if (std::memcmp(name.magic, magic, sizeof name.magic) != 0) return -1;
  if (name.token[sizeof name.token - 1] != '\0') return -1;
  const std::string path = link_of(std::to_string(name.process), name.fd);
  // Before opening, since it may be anything by now; and afterwards, since it may have changed in between.
  if (!leads_to(path, name.token)) return -1;
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd >= 0 && leads_to(link_of("self", fd), name.token)) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

struct Origin::Fate {
  std::atomic<std::uint32_t> opened;  // by another process, ever
  std::atomic<std::uint32_t> freed;   // by the origin; or it has ended and another process has seen it
};

Origin::Fate* Origin::map_fate(const Physical& memory) {
  void* const got = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd(),
                           static_cast<off_t>(memory.mapped_bytes()));
  return got == MAP_FAILED ? nullptr : static_cast<Fate*>(got);
}

std::shared_ptr<Origin> Origin::watch(pid_t process, const Physical& memory) {
  const int pidfd = open_process(process);
  if (pidfd < 0) return nullptr;
  Fate* const fate = map_fate(memory);
  if (fate == nullptr) {
    ::close(pidfd);
    return nullptr;
  }
  std::shared_ptr<Origin> origin(new Origin(pidfd, fate));
  fate->opened = 1;  // before the look at `freed`: the origin sets that one first, then looks at this one
  if (fate->freed != 0 || has_ended(pidfd)) return nullptr;
  return origin;
}

Origin::~Origin() {
  ::munmap(fate_, kPage);
  ::close(pidfd_);
}

void Origin::look(const Range& range) {
  if (fate_->freed != 0 || !has_ended(pidfd_)) return;
  if (fate_->freed.exchange(1) == 0) std::memset(range.alias, FAKE_CUDA_FREED_BYTE, range.bytes);
}

void poison_if_opened(const Physical& memory, char* alias) {
  Origin::Fate* const fate = Origin::map_fate(memory);
  if (fate == nullptr) return;
  fate->freed = 1;
  if (fate->opened != 0) std::memset(alias, FAKE_CUDA_FREED_BYTE, memory.bytes());
  ::munmap(fate, kPage);
}

void close_ipc(Range& range) {
  range.origin.reset();
  space().unmap(range, 0);
  space().release(range);
}

namespace {

// The range over memory that is open here already; null: it is not.
Range* find_opened(const Physical& memory) {
  Range* found = nullptr;
  space().each([&](Range& range) {
    if (range.kind == Range::Kind::kIpc && range.pieces.at(0).memory.get() == &memory) found = &range;
  });
  return found;
}

// "Users can test their device for IPC functionality by calling cuDeviceGetAttribute with
// CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED"
bool supports_ipc() { return attribute_of(DeviceAttribute::kIpcEvents) != 0; }

CudaError open_memory(const IpcMemoryHandle& handle, Pointer* memory) {
  IpcName name;
  std::memcpy(&name, handle.bytes, sizeof name);
  // A process cannot open its own handle: "invalid device context" is what the driver says.
  if (name.process == ::getpid()) return CudaError::kInvalidContext;
  if (std::memcmp(name.magic, kMemoryMagic, sizeof name.magic) != 0) return CudaError::kInvalidValue;
  const int fd = open_ipc_name(name, kMemoryMagic);
  if (fd < 0) return why_gone(name.process);
  std::shared_ptr<Physical> physical;
  CudaError error = Physical::adopt(fd, &physical);
  ::close(fd);
  if (error != CudaError::kSuccess) return error;
  if (physical->kind() != Physical::Kind::kPlain) return CudaError::kInvalidValue;
  // "the reference count on the handle is incremented by 1 and the existing device pointer is returned"
  if (Range* const opened = find_opened(*physical)) {
    ++opened->opened;
    *memory = opened->base;
    return CudaError::kSuccess;
  }
  const DeviceNumber current = contexts().current_device();
  const DeviceNumber device = visible_device(physical->machine_device());
  if (device >= 0 && device != current && !can_access_peer(current, device)) {
    return CudaError::kPeerAccessUnsupported;
  }
  std::shared_ptr<Origin> origin = Origin::watch(name.process, *physical);
  if (origin == nullptr) return why_gone(name.process);
  Range* range = nullptr;
  error = space().reserve(physical->bytes(), kPage, 0, Range::Kind::kIpc, &range);
  if (error != CudaError::kSuccess) return error;
  range->device = device >= 0 ? device : current;
  range->opened = 1;
  error = space().map(*range, 0, physical->bytes(), physical, 0);
  if (error != CudaError::kSuccess) {
    space().release(*range);
    return error;
  }
  range->origin = std::move(origin);
  *memory = range->base;
  return CudaError::kSuccess;
}

}  // namespace
}  // namespace forklift::inline abi_0_1::device::cuda::fake

namespace fake = forklift::device::cuda::fake;
using fake::enter;
using fake::IpcName;
using fake::Lock;
using fake::Needs;
using fake::Range;
using fake::space;
using forklift::device::cuda::CudaError;
using forklift::device::cuda::Event;
using forklift::device::cuda::IpcEventHandle;
using forklift::device::cuda::IpcMemoryHandle;
using forklift::device::cuda::kEventDisableTiming;
using forklift::device::cuda::kEventInterprocess;
using forklift::device::cuda::kIpcLazyPeerAccess;
using forklift::device::cuda::Pointer;

// As with the real driver, an address inside an allocation gives the handle of the allocation, and opening it gives
// the allocation's begin.
FAKE_CUDA CudaError cuIpcGetMemHandle(IpcMemoryHandle* handle, Pointer base) {
  return enter("cuIpcGetMemHandle", Needs::kContext, [&](Lock&) {
    if (!fake::supports_ipc()) return CudaError::kNotSupported;
    const Range* const range = space().find(base);
    if (handle == nullptr || range == nullptr || range->kind != Range::Kind::kPlain)
      return CudaError::kInvalidValue;
    const fake::Physical& memory = *range->pieces.at(0).memory;
    const IpcName name = fake::ipc_name(fake::kMemoryMagic, memory.fd(), memory.token());
    std::memcpy(handle->bytes, &name, sizeof name);
    return CudaError::kSuccess;
  });
}

// "Flags: Must be specified as CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS"
FAKE_CUDA CudaError cuIpcOpenMemHandle_v2(Pointer* memory, IpcMemoryHandle handle, unsigned flags) {
  return enter("cuIpcOpenMemHandle", Needs::kContext, [&](Lock&) {
    if (!fake::supports_ipc()) return CudaError::kNotSupported;
    if (memory == nullptr || flags != kIpcLazyPeerAccess) return CudaError::kInvalidValue;
    return fake::open_memory(handle, memory);
  });
}

// Work that is queued is done first: an unmapping synchronises.
FAKE_CUDA CudaError cuIpcCloseMemHandle(Pointer memory) {
  return enter("cuIpcCloseMemHandle", Needs::kContext, [&](Lock& lock) {
    fake::engine().finish_context(fake::contexts().current_device(), lock);
    if (fake::poison() != CudaError::kSuccess) return fake::poison();
    Range* const range = space().find(memory);
    if (range == nullptr || range->base != memory || range->kind != Range::Kind::kIpc) {
      return CudaError::kInvalidValue;
    }
    if (--range->opened == 0) fake::close_ipc(*range);
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuIpcGetEventHandle(IpcEventHandle* handle, Event event) {
  return enter("cuIpcGetEventHandle", Needs::kContext, [&](Lock&) {
    if (!fake::supports_ipc()) return CudaError::kNotSupported;
    if (handle == nullptr) return CudaError::kInvalidValue;
    const auto state = fake::events().find(event);
    if (state == nullptr || state->page == nullptr) return CudaError::kInvalidHandle;
    const IpcName name = fake::ipc_name(fake::kEventMagic, state->page->fd(), state->page->token());
    std::memcpy(handle->bytes, &name, sizeof name);
    state->start_listener();
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuIpcOpenEventHandle(Event* event, IpcEventHandle handle) {
  return enter("cuIpcOpenEventHandle", Needs::kContext, [&](Lock&) {
    if (!fake::supports_ipc()) return CudaError::kNotSupported;
    if (event == nullptr) return CudaError::kInvalidValue;
    IpcName name;
    std::memcpy(&name, handle.bytes, sizeof name);
    if (name.process == ::getpid()) return CudaError::kInvalidContext;
    const int fd = fake::open_ipc_name(name, fake::kEventMagic);
    if (fd < 0) return CudaError::kMapFailed;  // as driver 580.159.04 says of a handle that is none
    auto state = std::make_shared<fake::EventState>();
    state->device = fake::contexts().current_device();
    state->flags = kEventDisableTiming | kEventInterprocess;
    state->page = fake::EventPage::adopt(fd, name.token);
    if (state->page == nullptr) return CudaError::kMapFailed;
    state->start_listener();
    *event = fake::events().add(std::move(state));
    return CudaError::kSuccess;
  });
}
