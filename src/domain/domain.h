// A domain: one tree of processes that share one arena. This class records which processes belong to it and
// finds out which of them are alive.
//
// A process occupies a slot for as long as it lives. The proof of life is an OFD lock on the slot's byte of
// the control file, held through an open file description of the process's own: the kernel releases it on
// death and on exec. A process that finds a slot unlocked and its process gone is the reaper: it gives back
// what the slot held (reap hooks) in steps that are each idempotent, and frees the slot for the next
// generation.
//
// Thread safety: all functions may be called from any thread. Fork: see domain/fork.h.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "domain/layout.h"
#include "os/fd.h"
#include "os/mapping.h"
#include "trace/tracer.h"

namespace forklift::inline abi_0_1::domain {

struct SlotRef {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  bool operator==(const SlotRef&) const = default;
};

// A slot claimed for a process that does not exist yet. Until that process adopts the slot, the slot stays
// claimed as long as `lock` is open in any process; closing `lock` gives the slot up.
struct ChildSlot {
  SlotRef slot;
  os::Fd lock;
};

struct Options {
  std::uint64_t budget_bytes = 0;  // 0: derived from the memory that the machine and its control groups leave
  std::uint64_t segment_bytes =
      0;  // the data segment is not larger, nor than FORKLIFT_SEGMENT_SIZE; 0: only that
  // Transparent huge pages (Header::huge_pages). Nothing: what FORKLIFT_HUGE_PAGES says, or where the kernel is set to
  // give them on advice.
  std::optional<bool> huge_pages = std::nullopt;
  std::uint64_t address_space_bytes = 0;  // everything is sized as if RLIMIT_AS were this; 0: RLIMIT_AS
};

class Domain {
 public:
  // A new domain with this process as its first member. The layers above lay out their regions and then set
  // Header::ready.
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
  // The same as one word, {1, slot:31, generation:32}, at a place that does not move while the domain is there. 0 where
  // this process has no slot, and from the first instruction on in every child, as attached() is false there. The first
  // bit tells slot 0 in generation 0 from none.
  static constexpr std::uint64_t kSelfBit = std::uint64_t{1} << 63;
  const sync::Word& self_word() const noexcept { return alive_here_[1]; }
  // False in a child that got no slot, and in a child made by raw clone(2), which runs no fork handlers: its
  // operations fail with not_attached() instead of acting in its parent's name.
  bool attached() const noexcept { return alive_here_->load(std::memory_order_relaxed) == kAttached; }
  Status not_attached() const;
  // Takes a slot for a process that has none, if one has become free. The leases in the memory that the
  // process inherited are its parent's: the attach hooks drop them first.
  Status try_attach();
  void on_attach(std::function<void()> hook) { attach_hooks_.push_back(std::move(hook)); }

  // Is the process of this slot and generation gone? Its slot may or may not have been reaped yet.
  bool is_dead(SlotRef slot) const;
  std::uint64_t pid_of(SlotRef slot) const noexcept;
  // The slot with its present generation, whichever process occupies it.
  SlotRef occupant(std::uint32_t index) const noexcept;
  std::uint32_t live_slots() const noexcept;
  // This process serves the others (a manager, a broker) and ends when no user is left: it counts as no user.
  void mark_service() noexcept;
  bool has_users() const noexcept;

  // Called with the reap lock held, for a slot whose process is gone (`clean`: it had called mark_clean()).
  // Must be idempotent: the reaper may die, and another one begins again.
  // False: not everything could be given back now (the holder of an internal lock is stopped); the slot stays
  // REAPING for a later reaper.
  using ReapHook = std::function<bool(SlotRef slot, bool clean)>;
  void on_reap(ReapHook hook) { reap_hooks_.push_back(std::move(hook)); }
  // Gives back what all dead slots hold. Returns how many slots were freed.
  unsigned reap();
  // As reap(), but returns at once if another thread or process is reaping, however long that takes: for
  // callers that have other work to do.
  unsigned try_reap();
  // As try_reap(), but at most once a second, and then the hooks: for waiters at the end of a slice.
  void check_deaths();
  // A hook waits for nobody longer than a waiter can bear, and takes no lock that a waiter may have.
  void on_check(std::function<void()> hook) { check_hooks_.push_back(std::move(hook)); }
  // What this process is called, for people who look at the domain: at most 32 bytes of it.
  void name_self(std::string_view name) noexcept;
  // Records that this process leaves in good order; called at exit.
  void mark_clean() noexcept;

  // Claims a slot for a child that is about to be started.
  Result<ChildSlot> reserve_child();
  // From here on this process uses another domain for its children: nothing of this one can be offered to
  // them.
  void set_aside() noexcept { set_aside_ = true; }
  // For errors: what this process calls the domain. The first name stays.
  void call_it(std::string_view name);
  bool has_a_name() const noexcept { return called_.load(std::memory_order_acquire) != nullptr; }
  // `the domain "camera"`, `this process's own domain`, `a domain without a name`.
  std::string described() const;
  bool is_set_aside() const noexcept { return set_aside_; }
  // In the child: makes this process the occupant of that slot and drops its copy of the parent's.
  void adopt(ChildSlot child) noexcept;
  // In a child without a slot: drops its copy of the parent's.
  void detach() noexcept;

  // Bytes that may be committed now. Unless a budget was set, it is derived from the machine's memory, and
  // derived anew when `committed` has reached it.
  std::uint64_t budget(std::uint64_t committed) noexcept;
  // What the threads of this process do, for those who look from outside.
  trace::Tracer& tracer() noexcept { return tracer_; }
  HugePageUse huge_pages() const noexcept {
    return static_cast<HugePageUse>(header().huge_pages.load(std::memory_order_relaxed));
  }
  // Bytes of free memory that stay warm because somebody asked for it, beside what stays anyway.
  std::uint64_t prefault() const noexcept { return header().prefault.load(std::memory_order_relaxed); }
  void set_prefault(std::uint64_t bytes) noexcept {
    header().prefault.store(bytes, std::memory_order_relaxed);
  }
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
  // Forgets descriptors that other code of this process closed: their numbers may belong to other files by
  // now, so they must not be closed.
  void disown_foreign_descriptors() noexcept;
  // Who was reaped, to be logged when no lock is held any more.
  struct Reaped {
    std::uint64_t pid;
    std::string name;
    bool clean;
  };
  bool reap_slot(std::uint32_t index, std::vector<Reaped>* log);
  unsigned reap_all(std::vector<Reaped>* log);
  void log_reaped(const std::vector<Reaped>& log) const;

  os::Fd control_file_;
  os::Fd data_file_;
  std::uint64_t control_inode_ = 0;
  std::uint64_t data_inode_ = 0;
  os::Mapping control_;
  os::Fd slot_lock_;  // the description whose lock proves that this process lives
  SlotRef self_;
  bool set_aside_ =
      false;  // stored once, before other threads know the domain, or while a child joins its parent's
  std::atomic<const std::string*> called_{nullptr};
  // alive_here_ points at two words in a page that the kernel zeroes in every child, however the child was made
  // (MADV_WIPEONFORK): one of these states, and self_word().
  static constexpr std::uint64_t kAttached = 1;
  static constexpr std::uint64_t kAttaching = 2;  // one of several threads attaches the process for all
  sync::Word* alive_here_ = nullptr;
  trace::Tracer tracer_;
  std::vector<ReapHook> reap_hooks_;
  std::vector<std::function<void()>> attach_hooks_;
  std::vector<std::function<void()>> check_hooks_;
  std::atomic<std::int64_t> last_check_ns_{0};
  std::atomic<std::uint64_t> derived_budget_{0};
};

// The name in a slot; what may not be shown is a '?'.
std::string name_in(const Slot& slot);

}  // namespace forklift::inline abi_0_1::domain
