#include "device/cuda/gpu.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "device/cuda/pinned_leases.h"
#include "node/node.h"
#include "watch/lookout.h"

namespace forklift::inline abi_0_1::device::cuda {
namespace {

constexpr std::string_view kName = "GPU";
constexpr double kExitSeconds = 10;

memory_pool::DeviceUuid to_uuid(const Uuid& uuid) noexcept {
  memory_pool::DeviceUuid same;
  static_assert(sizeof same == sizeof uuid.bytes);
  std::memcpy(same.data(), uuid.bytes, sizeof uuid.bytes);
  return same;
}

Pointer pointer_of(const void* memory) noexcept { return reinterpret_cast<Pointer>(memory); }

Result<int> count_devices(const Driver& driver) {
  int count = 0;
  Status counted = driver.call("cuDeviceGetCount", driver.functions().device_get_count, &count);
  if (!counted) return counted;
  return count;
}

}  // namespace

// --- names

std::string name_of(int ordinal) {
  return ordinal == 0 ? std::string(kName) : std::string(kName) + ":" + std::to_string(ordinal);
}

int ordinal_of(std::string_view name) noexcept {
  if (!name.starts_with(kName)) return -1;
  name.remove_prefix(kName.size());
  if (name.empty()) return 0;
  if (name.front() != ':') return -1;
  int number = -1;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() && number >= 0 ? number : -1;
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  if (!Driver::is_there()) return names;
  const Driver* const driver = Driver::existing();
  const Result<int> count = driver == nullptr ? Result<int>(1) : count_devices(*driver);
  for (int i = 0; i < (count ? *count : 1); ++i) names.push_back(name_of(i));
  return names;
}

std::string to_string(const memory_pool::DeviceUuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(uuid[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits;
  }
  return text;
}

Result<int> find_by_uuid(const memory_pool::DeviceUuid& uuid) {
  const Result<Driver*> driver = Driver::get();
  if (!driver) return driver.status();
  const Functions& functions = (*driver)->functions();
  const Result<int> count = count_devices(**driver);
  if (!count) return count.status();
  for (int i = 0; i < *count; ++i) {
    DeviceNumber device = 0;
    Uuid mine{};
    Status asked = (*driver)->call("cuDeviceGet", functions.device_get, &device, i);
    if (asked) asked = (*driver)->call("cuDeviceGetUuid", functions.device_get_uuid, &mine, device);
    if (!asked) return asked;
    if (to_uuid(mine) == uuid) return i;
  }
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return Status(Code::kNotFound,
                "the memory lies on " + to_string(uuid) +
                    ", which this process cannot see: CUDA_VISIBLE_DEVICES " +
                    (visible != nullptr ? "is \"" + std::string(visible) + "\"" : "is not set") +
                    ", and it sees " + std::to_string(*count) + " devices");
}

// --- the device

Result<std::shared_ptr<Gpu>> Gpu::open(int ordinal) {
  const Result<Driver*> found = Driver::get();
  if (!found) return found.status();
  const Driver& driver = **found;
  const Functions& functions = driver.functions();
  const Result<int> count = count_devices(driver);
  if (!count) return count.status();
  if (ordinal >= *count)
    return Status(Code::kNotFound,
                  "no device '" + name_of(ordinal) + "' here; CUDA sees " + std::to_string(*count));
  if (Status readable = PinnedArena::check_environment(); !readable) return readable;
  MemoryPlace place{.driver = &driver};
  Uuid uuid{};
  Status opened = driver.call("cuDeviceGet", functions.device_get, &place.device, ordinal);
  if (opened) opened = driver.call("cuDeviceGetUuid", functions.device_get_uuid, &uuid, place.device);
  if (opened)
    opened = driver.call("cuDevicePrimaryCtxRetain", functions.device_primary_ctx_retain, &place.context,
                         place.device);
  if (!opened) return opened;
  auto gpu = std::make_shared<Gpu>(name_of(ordinal), place, uuid);
  const Current current(driver, place.context);
  if (!current.status()) return current.status();
  Status made =
      driver.call("cuStreamCreate", functions.stream_create, &gpu->queue_.stream, kStreamNonBlocking);
  if (!made) return made;
  return gpu;
}

Gpu::Gpu(std::string name, const MemoryPlace& place, const Uuid& uuid)
    : Device(std::move(name)),
      place_(place),
      uuid_(to_uuid(uuid)),
      queue_{place.driver, place.context, nullptr},
      memory_(place, uuid_, this->name()),
      foreign_(place_, uuid_, memory_, queue_.stream) {}

// Only of one that could not be opened: the registry keeps the others for ever.
Gpu::~Gpu() {
  (void)driver().call("cuDevicePrimaryCtxRelease", driver().functions().device_primary_ctx_release,
                      place_.device);
}

Result<int> Gpu::attribute(DeviceAttribute attribute) const {
  int value = 0;
  Status got = driver().call("cuDeviceGetAttribute", driver().functions().device_get_attribute, &value,
                             attribute, place_.device);
  if (!got) return got;
  return value;
}

Status Gpu::usable() const {
  if (driver().is_forked()) {
    return {Code::kBrokenByFork,
            name() +
                " was opened in this process's parent before the fork, and CUDA cannot be used here; copy "
                "tensors with to(\"CPU\") before the fork, or start processes by spawn or forkserver"};
  }
  if (const CudaError error = driver().poison(); error != CudaError::kSuccess)
    return driver().failure("an earlier operation", error);
  return {};
}

Status Gpu::complete() {
  const Current current(driver(), context());
  if (!current.status()) return current.status();
  return wait_for_stream();
}

Status Gpu::wait_for(Stream other) const {
  const Current current(driver(), context());
  if (!current.status()) return current.status();
  return driver().call("cuStreamSynchronize", driver().functions().stream_synchronize, other);
}

// Within a scope in which the context is current: what was queued there must not be left behind because that fails.
Status Gpu::wait_for_stream() const {
  Status done = driver().call("cuStreamSynchronize", driver().functions().stream_synchronize, stream());
  // The caller gives the memory up, which must not happen while the device still works on it.
  if (!done) (void)driver().call("cuCtxSynchronize", driver().functions().ctx_synchronize);
  return done;
}

Status Gpu::complete_all() {
  const Current current(driver(), context());
  if (!current.status()) return current.status();
  return driver().call("cuCtxSynchronize", driver().functions().ctx_synchronize);
}

Result<void*> Gpu::allocate(std::size_t bytes) {
  if (Status status = usable(); !status) return status;
  const Current current(driver(), context());
  if (!current.status()) return current.status();
  foreign_.collect();
  const Result<Pointer> memory = memory_.allocate(bytes);
  if (!memory) return memory.status();
  return reinterpret_cast<void*>(*memory);
}

void Gpu::free(void* memory, std::size_t) noexcept {
  if (!driver().is_forked()) memory_.free(pointer_of(memory));
}

Result<arena::LeasePtr> Gpu::share(const void* memory, std::size_t bytes) {
  if (Status status = usable(); !status) return status;
  return memory_.share(pointer_of(memory), bytes);
}

Result<arena::LeasePtr> Gpu::share_foreign(const void* memory, std::size_t bytes,
                                           const std::shared_ptr<const void>& owner) {
  if (Status status = usable(); !status) return status;
  const Current current(driver(), context());
  if (!current.status()) return current.status();
  return foreign_.share(pointer_of(memory), bytes, owner);
}

void Gpu::leave() {
  if (!usable()) return;
  (void)PinnedLeases::of_process().collect(true);
  if (PinnedArena::of_process().stats().ranges != 0 && complete_all()) PinnedArena::of_process().release();
  if (node::Node* const node = node::Node::existing())
    node->memory_pools().let_go(memory_pool::Pools::Idle::kAll);
  if (!foreign_.begin_to_leave()) return;
  const Current current(driver(), context());
  const char* const mode = std::getenv("FORKLIFT_DEVICE_EXIT");
  const char* const seconds = std::getenv("FORKLIFT_DEVICE_EXIT_SECONDS");
  const double patience = seconds != nullptr ? std::atof(seconds) : kExitSeconds;
  const std::string lost = foreign_.leave(os::Deadline::after_seconds(patience),
                                          mode != nullptr && std::string_view(mode) == "wait");
  if (lost.empty()) return;
  log(Severity::kWarning, "process " + std::to_string(::getpid()) + " leaves " + name() +
                              ", on which other libraries of it have tensors: " + lost);
}

// An event orders two streams without the CPU's waiting. `record` marks what comes first.
template <class Record>
Status Gpu::order(const Record& record, Stream then) {
  const Current current(driver(), context());
  if (!current.status()) return current.status();
  const Functions& functions = driver().functions();
  Event event = nullptr;
  Status done = driver().call("cuEventCreate", functions.event_create, &event, kEventDisableTiming);
  if (!done) return done;
  done = record(event);
  if (done) done = driver().call("cuStreamWaitEvent", functions.stream_wait_event, then, event, 0U);
  Status destroyed = driver().call("cuEventDestroy", functions.event_destroy, event);
  return done ? destroyed : done;
}

Status Gpu::order(Stream first, Stream then) {
  return order(
      [&](Event event) {
        return driver().call("cuEventRecord", driver().functions().event_record, event, first);
      },
      then);
}

Status Gpu::order_after_all() {
  const auto record_context = driver().functions().ctx_record_event;
  if (record_context == nullptr) return complete_all();
  return order(
      [&](Event event) { return driver().call("cuCtxRecordEvent", record_context, context(), event); },
      stream());
}

Status Gpu::order_before(Stream other) { return order(stream(), other); }

Status Gpu::order_after(Stream other) { return order(other, stream()); }

Result<memory_pool::Pools::Memory> Gpu::import(const memory_pool::PieceInfo& info, const os::Fd& file) const {
  Result<std::shared_ptr<DeviceRange>> range = info.by_handle()
                                                   ? DeviceRange::open(place_, info.handle, info.pool_bytes)
                                                   : DeviceRange::import(place_, file, info.pool_bytes);
  if (!range) return range.status();
  return memory_pool::Pools::Memory(std::make_shared<Imported>(Imported{(*range)->base(), *range}));
}

Result<void*> Gpu::open(arena::Lease& lease) {
  if (Status status = usable(); !status) return status;
  const node::Node* const node = node::Node::of(lease.arena());
  if (node == nullptr)
    return Status(Code::kNotAttached, "a lease of a domain that this process does not belong to");
  memory_pool::Pools* const pools = &node->memory_pools();
  const Result<memory_pool::PieceInfo> piece = pools->describe(lease);
  if (!piece) return piece.status();
  const Current current(driver(), context());
  if (!current.status()) return current.status();
  bool is_new = false;
  const Result<memory_pool::Pools::Memory> memory =
      pools->open(lease, [&](const memory_pool::PieceInfo& info, const os::Fd& file) {
        is_new = true;
        return import(info, file);
      });
  if (!memory) return memory.status();
  // So that memory which its owner gives up is let go of here although this process may not use Forklift for a while. Without
  // a thread that is done at its next use.
  if (is_new) (void)watch::Lookout::keep(node->watches());
  return reinterpret_cast<void*>(static_cast<const Imported*>(memory->get())->base + piece->offset);
}

// --- copies

Status Gpu::copy_in(void* to, const void* host, std::size_t bytes) {
  const Current current(driver(), context());
  if (!current.status()) return current.status();
  const Result<PinnedArena::Use> use = PinnedArena::of_process().begin(place_, host, bytes);
  if (!use) return use.status();
  Status queued;
  for (const auto& [offset, length] : use->pieces()) {
    if (!queued) break;
    queued =
        driver().call("cuMemcpyHtoDAsync", driver().functions().memcpy_htod_async, pointer_of(to) + offset,
                      static_cast<const std::byte*>(host) + offset, length, stream());
  }
  Status done = wait_for_stream();  // the host's memory is the caller's again
  return queued ? done : queued;
}

Status Gpu::copy_out(void* host, const void* from, std::size_t bytes) {
  const Current current(driver(), context());
  if (!current.status()) return current.status();
  const Result<PinnedArena::Use> use = PinnedArena::of_process().begin(place_, host, bytes);
  if (!use) return use.status();
  Status queued;
  for (const auto& [offset, length] : use->pieces()) {
    if (!queued) break;
    queued =
        driver().call("cuMemcpyDtoHAsync", driver().functions().memcpy_dtoh_async,
                      static_cast<std::byte*>(host) + offset, pointer_of(from) + offset, length, stream());
  }
  Status done = wait_for_stream();
  return queued ? done : queued;
}

void Gpu::expect_copies(const void* host, std::size_t bytes) {
  const Current current(driver(), context());
  if (current.status()) PinnedArena::of_process().cover(place_, host, bytes);
}

Status Gpu::copy_within(void* to, const void* from, std::size_t bytes) {
  const Current current(driver(), context());
  if (!current.status()) return current.status();
  return driver().call("cuMemcpyDtoDAsync", driver().functions().memcpy_dtod_async, pointer_of(to),
                       pointer_of(from), bytes, stream());
}

}  // namespace forklift::inline abi_0_1::device::cuda
