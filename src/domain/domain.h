// A domain: one tree of processes that share one arena. Who belongs to it, who is alive, who is gone.
//
// A process holds a slot for as long as it lives. The proof of life is an OFD lock on the slot's byte of the
// control file, on an open file description of the process's own: the kernel frees it on death and on exec.
// Whoever finds a slot unlocked is its reaper: it gives back what the slot held (reap hooks), one step at a
// time, each idempotent, and frees the slot for the next generation.
//
// Thread safety: all functions may be called from any thread. Fork: see domain/fork.h.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "domain/layout.h"
#include "os/fd.h"
#include "os/mapping.h"

namespace forklift::domain {

struct SlotRef {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  bool operator==(const SlotRef&) const = default;
};

// A slot claimed for a process that does not exist yet. While nobody adopts it, it lives as long as `lock` is
// open somewhere; given up by closing it.
struct ChildSlot {
  SlotRef slot;
  os::Fd lock;
};

struct Options {
  std::uint64_t budget_bytes = 0;  // 0: derived from the memory that the machine and its control groups leave
  std::uint64_t address_space_bytes = 0;  // everything is sized as if RLIMIT_AS were this; 0: RLIMIT_AS
};

class Domain {
 public:
  // A new domain with this process as its first member. Layers above lay out their regions, then set_ready().
  static Result<std::unique_ptr<Domain>> create(const Options& options);
  // Joins the domain behind two inherited descriptors, with a slot that a parent reserved or a fresh one.
  // kVersion, kRefused (another user or pid namespace), kCorrupt, kNoSpace (no free slot).
  static Result<std::unique_ptr<Domain>> attach(os::Fd control, os::Fd data, std::optional<ChildSlot> slot);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  std::byte* base() const noexcept { return control_.data(); }
  Header& header() const noexcept { return *reinterpret_cast<Header*>(control_.data()); }
  std::span<std::byte> region(Region region) const noexcept;
  const os::Fd& control_file() const noexcept { return control_file_; }
  const os::Fd& data_file() const noexcept { return data_file_; }
  std::uint64_t data_bytes() const noexcept { return header().data_bytes; }
  // Do the descriptors still name our files? Programs that "close everything" (close_range) break that.
  bool descriptors_intact() const noexcept;

  // This process's slot. Meaningful only while attached().
  SlotRef self() const noexcept { return self_; }
  // False in a child that got no slot, and in one made behind fork's back (raw clone): its operations fail
  // with not_attached() instead of acting in its parent's name.
  bool attached() const noexcept { return alive_here_->load(std::memory_order_relaxed) == kAttached; }
  Status not_attached() const;
  // Takes a slot for a process that has none, if one has become free. What it inherited from its parent's
  // memory (leases) is not its own: the attach hooks let go of it first.
  Status try_attach();
  void on_attach(std::function<void()> hook) { attach_hooks_.push_back(std::move(hook)); }

  // Is the process of this slot and generation gone? Its slot may or may not have been reaped yet.
  bool is_dead(SlotRef slot) const;
  std::uint64_t pid_of(SlotRef slot) const noexcept;
  // The slot's present generation, whoever has it.
  SlotRef occupant(std::uint32_t index) const noexcept;
  std::uint32_t live_slots() const noexcept;

  // Called with the reap lock held, for a slot whose process is gone (`clean`: it said good-bye). Must be
  // idempotent: the reaper may die and another begins again.
  // False: not everything could be given back now (an internal lock's holder is stopped); the slot stays
  // REAPING, for a later reaper.
  using ReapHook = std::function<bool(SlotRef slot, bool clean)>;
  void on_reap(ReapHook hook) { reap_hooks_.push_back(std::move(hook)); }
  // Gives back what all dead slots hold. How many slots were freed.
  unsigned reap();
  // As reap(), but leaves it to somebody else who is at it, however long that takes: for those who have
  // something else to do.
  unsigned try_reap();
  // As try_reap(), at most once a second: for waiters' slices.
  void check_deaths();
  // Tells the others that this process leaves in good order; called at exit.
  void mark_clean() noexcept;

  // Claims a slot for a child to come.
  Result<ChildSlot> reserve_child();
  // This process has another domain for its children from here on: nothing of this one can be offered to
  // them.
  void set_aside() noexcept { set_aside_ = true; }
  bool is_set_aside() const noexcept { return set_aside_; }
  // In the child: become the process of that slot, drop the parent's.
  void adopt(ChildSlot child) noexcept;
  // In a child without a slot.
  void detach() noexcept;

  // Bytes that may be committed now; re-read from the machine when `committed` has reached it (unless set).
  std::uint64_t budget(std::uint64_t committed) noexcept;
  void set_budget(std::uint64_t bytes) noexcept { header().budget.store(bytes, std::memory_order_relaxed); }

 private:
  Domain() = default;
  Status make_files(const Plan& plan, std::uint64_t file_size_limit);
  Status map_files();
  Status check_header() const;
  Status claim_sentinel();
  bool is_reserved(SlotRef slot) const noexcept;
  Slot* slots() const noexcept;
  Result<ChildSlot> claim_slot();
  bool process_has_left(const Slot& slot) const;
  bool has_another_slot(const Slot& slot) const;
  // Descriptors that were closed under us may be somebody else's by now: not ours to close.
  void disown_foreign_descriptors() noexcept;
  bool reap_slot(std::uint32_t index);
  unsigned reap_all();

  os::Fd control_file_;
  os::Fd data_file_;
  std::uint64_t control_inode_ = 0;
  std::uint64_t data_inode_ = 0;
  os::Mapping control_;
  os::Fd slot_lock_;  // the description whose lock proves that this process lives
  SlotRef self_;
  bool set_aside_ = false;  // stored once, while a child joins its parent's domain
  // One word in a page that the kernel zeroes in every child, however it was made (MADV_WIPEONFORK).
  static constexpr std::uint64_t kAttached = 1;
  static constexpr std::uint64_t kAttaching = 2;  // one of several threads does it for all
  sync::Word* alive_here_ = nullptr;
  std::vector<ReapHook> reap_hooks_;
  std::vector<std::function<void()>> attach_hooks_;
  std::atomic<std::int64_t> last_check_ns_{0};
  std::atomic<std::uint64_t> derived_budget_{0};
};

}  // namespace forklift::domain
