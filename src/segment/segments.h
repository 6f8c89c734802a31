// Named segments: shared memory in files with names, so that processes outside of the domain can open it.
//
//   Result<LeasePtr> made = segments.create(1 << 20);       // a lease, as on a block; its data() is the memory
//   segments.name_of(**made);                               // "/forklift-2f...-1000000", for shm_open(3)
//   Outgoing message{.leases = {&*made, 1}};                // travels as a block does
//   ...
//   Status opened = arena.open_memory(*incoming.leases()[0]);   // in the receiver
//   Result<LeasePtr> other = segments.find(name, 1 << 20);  // by name
//
// A segment is an object of the ledger: each process and each message that uses it has a lease, the reaper
// gives back those of dead processes and lost messages, and whoever gives back the last one removes the name.
// A program of its own, the manager, is the reaper who is always there (shm_manager/segment_manager.h). The first segment
// that a domain makes starts it. In one process all leases on a segment show one mapping.
//
// Thread safety: all functions may be called from any thread. Fork: a child has its parent's leases and
// mappings; a fork waits while the manager is being started.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arena/object_table.h"
#include "segment/file_name.h"
#include "segment/owner_lock.h"
#include "segment/tables.h"

namespace forklift::inline abi_0_1::segment {

using arena::LeasePtr;

class Segments {
 public:
  // Writes into a new domain where its segments will be (FORKLIFT_SHM_DIR).
  static void lay_out(domain::Domain& domain);
  explicit Segments(arena::Arena& arena);
  ~Segments();
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  // A new segment of `bytes` (> 0), all zero. Its file has `head` bytes (a multiple of 64) before them, which
  // Forklift does not touch. With a pid its name begins as torch's do (file_name.h).
  // kNoSpace, kOverBudget, kNotFound (no manager), kSystem.
  Result<LeasePtr> create(std::uint64_t bytes, std::uint64_t head = 0, std::uint32_t pid = 0);
  // As create(), for a caller that writes the whole segment with write(), before anybody touches it: a third
  // of the time less. The file is for write() alone.
  struct Hollow {
    LeasePtr lease;
    os::Fd file;
  };
  Result<Hollow> create_hollow(std::uint64_t bytes, std::uint64_t head = 0, std::uint32_t pid = 0);
  // kNoSpace, kSystem. May be repeated.
  Status write(const arena::Lease& lease, const os::Fd& file, std::span<const std::byte> head,
               std::span<const std::byte> data) const;
  // A segment of this domain by its name, with or without the '/'. kNotFound; kCorrupt: another size;
  // kInvalid: not the name of a segment of this domain.
  Result<LeasePtr> find(std::string_view name, std::uint64_t bytes);
  // As find, without opening it, and whatever its size: for the manager.
  Result<LeasePtr> hold(std::uint64_t number);

  // Of a lease on a segment.
  std::string name_of(const arena::Lease& lease) const;
  std::uint64_t head_of(const arena::Lease& lease) const noexcept;
  // Lets [range, range + bytes) of this process's own memory show the segment's bytes from `begin` on, see
  // arena::Arena::overlay. head_of() + begin must be page-aligned.
  Result<os::Overlay> overlay(const arena::Lease& lease, std::uint64_t begin, void* range,
                              std::size_t bytes) const;
  // The segment's name leaves the domain. If this process ends before the receiver has found the segment, the
  // manager keeps it for a moment.
  Status hand_over(const arena::Lease& lease);

  const std::string& folder() const noexcept { return folder_; }
  std::uint64_t token() const noexcept { return domain().header().domain_id; }
  // The manager's socket, where other programs register as users (shm_manager/clients.h).
  std::string socket() const { return FileName{FileKind::kSocket, token(), 0}.in(folder_); }

  // For the manager: drops what was handed over to nobody and has had no other holder for `moment_ns`.
  void drop_abandoned(std::int64_t moment_ns);
  bool has_handed_over() const noexcept;

  std::uint64_t live() const noexcept { return rows_.live(); }
  // Of all files.
  std::uint64_t bytes() const noexcept { return table_.bytes.load(std::memory_order_relaxed); }
  std::vector<std::string> audit();

 private:
  struct Opened;  // the mappings of this process
  using Rows = arena::ObjectTable<SegmentTable, SegmentRow>;

  domain::Domain& domain() const noexcept { return arena_.domain(); }
  FileName file_name(std::uint32_t index, std::uint32_t generation) const;
  std::string path_of(std::uint32_t index, std::uint32_t generation) const;
  Status prepare();
  Status have_lock();
  Status have_manager();
  Status check_budget(std::uint64_t bytes);
  Result<LeasePtr> claim(std::uint64_t bytes, std::uint64_t head, std::uint32_t pid);
  using MakeFile = Result<os::Fd> (*)(const std::string& path, std::uint64_t bytes);
  Result<Hollow> make(std::uint64_t bytes, std::uint64_t head, std::uint32_t pid, MakeFile make_file);
  Result<os::Fd> back(arena::Lease& lease, std::uint64_t head, MakeFile make_file);
  Status open(arena::Lease& lease);
  Status map(arena::Lease& lease, const os::Fd& file, std::uint64_t head);
  bool empty(std::uint32_t index);

  arena::Arena& arena_;
  SegmentTable& table_;
  Rows rows_;
  std::string folder_;
  OwnerLock lock_;                     // guarded by a process-private lock of all domains
  std::atomic<bool> locked_{false};    // lock_ was had
  std::atomic<std::int64_t> room_{0};  // bytes that may be made before the machine is asked again
  std::shared_ptr<Opened> opened_;
  std::vector<std::pair<std::uint64_t, std::int64_t>> alone_;  // manager: (number, since when it is alone)
};

}  // namespace forklift::inline abi_0_1::segment
