#include "segment/segments.h"

#include <pthread.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

#include "os/clock.h"
#include "os/limits.h"
#include "segment/files.h"
#include "segment/start_manager.h"

namespace forklift::inline abi_0_1::segment {

using arena::Lease;
using arena::Object;
using arena::ObjectKind;

namespace {

constexpr double kStartSeconds = 10;
// How many names that exist already are passed over.
constexpr int kAttempts = 16;
// Below this the page faults of first touches cost less than the call that avoids them.
constexpr std::uint64_t kPopulateFrom = 64 * 1024;

// Process-private locks of all domains. A fork takes both, so that the child finds them free and no pipe of a
// manager's start is inherited. No other lock is taken inside of either.
struct Locks {
  std::mutex starting;  // lock files, and the start of managers
  std::mutex opened;    // the table of mappings
};

// Never destroyed: leases of static objects may outlive main.
Locks& locks() {
  static Locks* const instance = [] {
    const auto release = [] {
      locks().opened.unlock();
      locks().starting.unlock();
    };
    ::pthread_atfork(
        [] {
          locks().starting.lock();
          locks().opened.lock();
        },
        release, release);
    return new Locks;
  }();
  return *instance;
}

SegmentTable& table_of(domain::Domain& domain) {
  return *reinterpret_cast<SegmentTable*>(domain.region(domain::Region::kSegments).data());
}

Status no_segment(std::string_view name) {
  return {Code::kNotFound, "there is no named segment " + std::string(name)};
}

}  // namespace

// A segment that this process has mapped. Whoever drops the last lease on it unmaps it.
struct Segments::Opened : std::enable_shared_from_this<Segments::Opened> {
  struct One {
    os::Mapping mapping;
    std::uint64_t number = 0;
    std::shared_ptr<Opened> table;
    ~One() {
      if (!table) return;
      const std::lock_guard<std::mutex> lock(locks().opened);
      const auto mine = table->all.find(number);
      if (mine != table->all.end() && mine->second.expired()) table->all.erase(mine);
    }
  };
  std::shared_ptr<One> find(std::uint64_t number) {
    const std::lock_guard<std::mutex> lock(locks().opened);
    const auto known = all.find(number);
    return known == all.end() ? nullptr : known->second.lock();
  }
  // Another thread may have been faster; then its mapping is used.
  std::shared_ptr<One> add(std::uint64_t number, os::Mapping mapping) {
    auto made = std::make_shared<One>();
    made->mapping = std::move(mapping);
    made->number = number;
    const std::lock_guard<std::mutex> lock(locks().opened);
    std::weak_ptr<One>& known = all[number];
    if (std::shared_ptr<One> first = known.lock()) return first;
    made->table = shared_from_this();
    known = made;
    return made;
  }
  std::map<std::uint64_t, std::weak_ptr<One>> all;
};

void Segments::lay_out(domain::Domain& domain) {
  const Result<std::string> folder = default_folder();
  // Without a usable folder the name stays empty, and the first segment fails with the reason.
  if (folder) std::memcpy(table_of(domain).folder, folder->c_str(), folder->size() + 1);
}

Segments::Segments(arena::Arena& arena)
    : arena_(arena),
      table_(table_of(arena.domain())),
      rows_(arena, ObjectKind::kSegment, domain::Region::kSegments),
      folder_(table_.folder, ::strnlen(table_.folder, kFolderBytes)),
      opened_(std::make_shared<Opened>()) {
  (void)locks();
  rows_.connect_travelling([this](std::uint32_t index) { return empty(index); },
                           [this](const arena::Handle& handle) {
                             return handle.offset == 0 && rows_.exists(handle.block, handle.generation) &&
                                    rows_[handle.block].bytes.load(std::memory_order_relaxed) ==
                                        handle.length;
                           },
                           [this](sync::Transaction& change, std::uint32_t index) {
                             const std::uint64_t bytes = file_bytes(rows_[index]);
                             change.set(table_.bytes, table_.bytes.load(std::memory_order_relaxed) - bytes);
                           });
  arena_.on_open_segment([this](Lease& lease) { return open(lease); });
}

Segments::~Segments() = default;

FileName Segments::file_name(std::uint32_t index, std::uint32_t generation) const {
  return {FileKind::kSegment, token(), number_of(index, generation), pid_in_name(rows_[index])};
}

std::string Segments::path_of(std::uint32_t index, std::uint32_t generation) const {
  return file_name(index, generation).in(folder_);
}

// --- what every use needs: the lock that says that somebody lives, and the manager

Status Segments::have_lock() {
  if (lock_.valid() && lock_.has_name()) return {};
  lock_.disown_foreign();
  if (folder_.empty()) {
    const Result<std::string> why = default_folder();
    return why ? Status(Code::kInvalid, "FORKLIFT_SHM_DIR was wrong when the domain was made") : why.status();
  }
  Result<OwnerLock> lock = OwnerLock::join(folder_, token());
  if (!lock) return lock.status();
  lock_ = *std::move(lock);
  locked_.store(true, std::memory_order_release);
  return {};
}

Status Segments::have_manager() {
  if (lock_.is_managed()) return {};
  Status started = start_manager(domain(), folder_, os::Deadline::after_seconds(kStartSeconds));
  if (started) return started;
  // Nobody would remove the lock file. Forked processes share the lock, so that it alone does not tell whether
  // somebody needs it.
  if (rows_.live() != 0) return started;
  if (const Result<bool> alone = lock_.own(); alone && *alone) {
    lock_.remove();
    lock_ = OwnerLock();
    locked_.store(false, std::memory_order_release);
  }
  return started;
}

Status Segments::prepare() {
  if (!domain().attached()) return domain().not_attached();
  const std::lock_guard<std::mutex> lock(locks().starting);
  if (Status status = have_lock(); !status) return status;
  return have_manager();
}

// fallocate does not fail when the machine's memory is short: the kernel kills a process.
Status Segments::check_budget(std::uint64_t bytes) {
  const auto refuse = [&](std::uint64_t in_use, std::uint64_t allowed) -> Status {
    return {Code::kOverBudget, std::to_string(bytes) + " bytes asked for a named segment; " +
                                   std::to_string(in_use) + " in use, " + std::to_string(allowed) +
                                   " allowed (forklift.set_budget raises it)"};
  };
  const arena::Ledger& ledger = arena_.ledger();
  if (const std::uint64_t set = domain().header().budget.load(std::memory_order_relaxed)) {
    const std::uint64_t in_use =
        ledger.state().committed.load(std::memory_order_relaxed) + ledger.chunk_bytes() + this->bytes();
    return bytes > set || in_use > set - bytes ? refuse(in_use, set) : Status();
  }
  const auto wanted = static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, INT64_MAX));
  if (room_.fetch_sub(wanted, std::memory_order_relaxed) >= wanted) return {};
  const auto room = static_cast<std::int64_t>(os::available_memory() / 10 * 9);
  room_.store(std::max<std::int64_t>(room - wanted, 0), std::memory_order_relaxed);
  return wanted > room ? refuse(this->bytes(), static_cast<std::uint64_t>(room)) : Status();
}

// --- making

Result<LeasePtr> Segments::create(std::uint64_t bytes, std::uint64_t head, std::uint32_t pid) {
  Result<Hollow> made = make(bytes, head, pid, make_file);
  if (!made) return made.status();
  if (bytes >= kPopulateFrom) os::populate_write(made->lease->data() - head, head + bytes);
  return std::move(made->lease);
}

Result<Segments::Hollow> Segments::create_hollow(std::uint64_t bytes, std::uint64_t head, std::uint32_t pid) {
  return make(bytes, head, pid, make_hollow_file);
}

Status Segments::write(const Lease& lease, const os::Fd& file, std::span<const std::byte> head,
                       std::span<const std::byte> data) const {
  if (head.size() != head_of(lease) || data.size() != lease.size())
    return {Code::kInvalid, "not the whole of a named segment"};
  return write_all(file, path_of(lease.handle().block, lease.handle().generation), head, data);
}

Result<Segments::Hollow> Segments::make(std::uint64_t bytes, std::uint64_t head, std::uint32_t pid,
                                        MakeFile make_file) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 46;
  constexpr std::uint64_t kMostHead = std::uint64_t{1} << 30;
  if (bytes == 0) return Status(Code::kInvalid, "a named segment of 0 bytes");
  if (bytes > kMost || head > kMostHead || head % 64 != 0)
    return Status(Code::kInvalid, "a named segment of " + std::to_string(bytes) + " bytes behind a head of " +
                                      std::to_string(head));
  if (Status status = prepare(); !status) return status;
  if (Status status = check_budget(bytes + head); !status) return status;
  for (int attempt = 1;; ++attempt) {
    Result<LeasePtr> lease = claim(bytes, head, pid);
    if (!lease) return lease.status();
    Result<os::Fd> made = back(**lease, head, make_file);
    if (made) return Hollow{*std::move(lease), *std::move(made)};
    if (made.code() != Code::kExists || attempt == kAttempts) return made.status();
  }
}

// A row and the first lease on it. From here on a death is cleaned up by whoever reaps this process.
Result<LeasePtr> Segments::claim(std::uint64_t bytes, std::uint64_t head, std::uint32_t pid) {
  std::uint32_t generation = 0;
  Result<LeasePtr> lease =
      arena_.hold_new({ObjectKind::kSegment, 0}, [&](sync::Transaction& change, Object& made) -> Status {
        Result<std::uint32_t> index =
            rows_.claim(change, "named segments", [](SegmentRow&) { return Status(); });
        if (!index) return index.status();
        generation = rows_.begin_generation(change, *index);
        SegmentRow& row = rows_[*index];
        change.set(row.bytes, bytes);
        change.set(row.head, std::uint64_t{pid} << 32 | head);
        change.set(row.handed, 0);
        change.set(row.file, static_cast<std::uint64_t>(File::kMaking));
        change.set(table_.bytes, table_.bytes.load(std::memory_order_relaxed) + bytes + head);
        made.index = *index;
        return {};
      });
  if (!lease) return lease.status();
  arena::Arena::describe(**lease,
                         {.segment = arena::kNamedSegment, .generation = generation, .length = bytes});
  return lease;
}

// The file of a new row, mapped.
Result<os::Fd> Segments::back(Lease& lease, std::uint64_t head, MakeFile make_file) {
  const arena::Handle& handle = lease.handle();
  SegmentRow& row = rows_[handle.block];
  Result<os::Fd> file = make_file(path_of(handle.block, handle.generation), head + handle.length);
  if (!file) {
    // Somebody else's file: whoever gives the lease back must not remove it.
    if (file.code() == Code::kExists)
      row.file.store(static_cast<std::uint64_t>(File::kNone), std::memory_order_relaxed);
    return file.status();
  }
  if (Status mapped = map(lease, *file, head); !mapped) return mapped;
  return file;
}

Status Segments::map(Lease& lease, const os::Fd& file, std::uint64_t head) {
  Result<os::Mapping> mapping = os::Mapping::shared(file, 0, head + lease.size());
  if (!mapping) return mapping.status();
  const arena::Handle& handle = lease.handle();
  const std::uint64_t number = number_of(handle.block, handle.generation);
  const std::shared_ptr<Opened::One> one = opened_->add(number, *std::move(mapping));
  arena::Arena::set_memory(lease, one->mapping.data() + head, one);
  return {};
}

// --- opening

Status Segments::open(Lease& lease) {
  if (!locked_.load(std::memory_order_acquire)) {
    const std::lock_guard<std::mutex> lock(locks().starting);
    if (Status status = have_lock(); !status) return status;
    // Both of the manager may have been killed since. Without one the segment can still be used.
    (void)have_manager();
  }
  const arena::Handle& handle = lease.handle();
  const std::uint64_t head = head_of(lease);
  if (const auto known = opened_->find(number_of(handle.block, handle.generation))) {
    arena::Arena::set_memory(lease, known->mapping.data() + head, known);
    return {};
  }
  const Result<os::Fd> file = open_file(path_of(handle.block, handle.generation), head + handle.length);
  if (!file) return file.status();
  return map(lease, *file, head);
}

Result<LeasePtr> Segments::hold(std::uint64_t number) {
  const std::uint32_t index = index_of(number);
  const std::uint32_t generation = generation_of(number);
  const auto gone = [&] { return no_segment(FileName{FileKind::kSegment, token(), number}.text()); };
  if (!rows_.exists(index, generation)) return gone();
  Result<LeasePtr> lease = arena_.hold({ObjectKind::kSegment, index});
  if (!lease) return lease.code() == Code::kInvalid ? gone() : lease.status();
  // In between, the last holder may have left and another segment may have come into this row.
  if (!rows_.exists(index, generation)) return gone();
  arena::Arena::describe(**lease, {.segment = arena::kNamedSegment,
                                   .generation = generation,
                                   .length = rows_[index].bytes.load(std::memory_order_relaxed)});
  return lease;
}

Result<LeasePtr> Segments::find(std::string_view name, std::uint64_t bytes) {
  std::string_view text = name;
  if (text.starts_with('/')) text.remove_prefix(1);
  const std::optional<FileName> parsed = FileName::parse(text);
  if (!parsed || parsed->kind != FileKind::kSegment || parsed->token != token())
    return Status(Code::kInvalid, std::string(name) + " is no named segment of this domain");
  Result<LeasePtr> lease = hold(parsed->number);
  if (!lease) return lease.status();
  if (file_name(index_of(parsed->number), generation_of(parsed->number)).pid != parsed->pid)
    return no_segment(name);
  if ((*lease)->size() != bytes) {
    return Status(Code::kCorrupt, std::string(name) + " has " + std::to_string((*lease)->size()) +
                                      " bytes and not " + std::to_string(bytes));
  }
  if (Status status = open(**lease); !status) return status;
  return lease;
}

std::string Segments::name_of(const Lease& lease) const {
  return file_name(lease.handle().block, lease.handle().generation).in("");
}

std::uint64_t Segments::head_of(const Lease& lease) const noexcept {
  return head_bytes(rows_[lease.handle().block]);
}

Result<os::Overlay> Segments::overlay(const Lease& lease, std::uint64_t begin, void* range,
                                      std::size_t bytes) const {
  const arena::Handle& handle = lease.handle();
  const std::uint64_t head = head_of(lease);
  const Result<os::Fd> file = open_file(path_of(handle.block, handle.generation), head + handle.length);
  if (!file) return file.status();
  return os::Overlay::over(range, bytes, *file, head + begin);
}

// --- the end

// The last lease goes. The name may be gone already: by a death behind this line, or by hand.
bool Segments::empty(std::uint32_t index) {
  const SegmentRow& row = rows_[index];
  if (row.file.load(std::memory_order_relaxed) == static_cast<std::uint64_t>(File::kNone)) return true;
  const auto generation = static_cast<std::uint32_t>(row.meta.load(std::memory_order_relaxed) >> 32);
  // What cannot be removed (the folder became read-only) stays for a sweep. The row cannot wait for that.
  (void)remove_file(path_of(index, generation));
  return true;
}

}  // namespace forklift::inline abi_0_1::segment
