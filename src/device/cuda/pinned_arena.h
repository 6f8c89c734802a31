// The part of the arena that this process copies to and from GPUs, registered with the driver: pinned in memory, so that
// the copies go by DMA.
//
//   Result<PinnedArena::Use> use = PinnedArena::of_process().begin(place, host, bytes);
//   if (!use) return use.status();
//   for (const auto& [offset, length] : use->pieces()) ...cuMemcpyHtoDAsync(to + offset, host + offset, length, ...);
//   ...wait for the stream; then the use may end
//
// What is registered is what a copy touches, or the whole memory of the tensor (cover), in whole pages: pages that an
// allocation has made already, since registering makes and pins each page of its range. Only blocks of the share kind. A private
// payload is seen through a view (arena/views.h), whose pages a fork replaces while the driver would go on with the old ones; it is
// copied pageable. So are copies of less than kSmallest, unless their memory is registered already.
//
// A registration stays when its block is freed, since the pages stay too and the next tensor in them profits. It ends when
//  - the pages are to be punched: by this process before that (PunchWatcher); by another process as soon as this one gets a block,
//    copies, or waits in Forklift for a second. Until then the pages that the segment has lost stay pinned.
//  - FORKLIFT_PINNED_BUDGET is reached (default: a quarter of the memory that was available at the first registration): the
//    one whose use is longest ago goes first;
//  - the process leaves its devices.
//
// Invariants: registrations do not overlap; one that is in use is not ended; between a process's getting a lease on a block and
// the lease's end, no registration of the block's pages is stale. A registration may be larger than the block that lies in its
// memory by now, since blocks are split; then a neighbour may be punched while a copy is under way, and whoever ends the
// registration waits for the copy. What keep() registers ends with its block, so nobody waits for that.
//
// Errors: none for a registration that fails (RLIMIT_MEMLOCK, the driver, another library's registration): the copy goes
// without, and Stats counts it. kDevice, kStalled: stale memory that the driver or a
// copy does not let go.
// Thread safety: all functions. Fork: a child has no use of it, and never calls it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "arena/arena.h"
#include "device/cuda/device_range.h"

namespace forklift::inline abi_0_1::device::cuda {

class PinnedArena final : public arena::PunchWatcher {
  struct Registration {
    std::size_t bytes = 0;
    std::size_t uses = 0;
    std::size_t keeps = 0;  // of the uses, those by keep()
    std::uint64_t last_use = 0;
    bool stale = false;  // pages of it were punched, and it could not be ended yet
  };

 public:
  // Smaller copies do not pay for a registration.
  static constexpr std::size_t kSmallest = std::size_t{64} << 10;

  static PinnedArena& of_process();
  // Is FORKLIFT_PINNED_BUDGET a number of bytes? kInvalid.
  static Status check_environment();

  // Keeps the registrations of a range while something is under way there.
  class Use {
   public:
    struct Piece {
      std::size_t offset = 0;
      std::size_t bytes = 0;
    };
    Use() = default;
    Use(Use&& other) noexcept = default;  // which leaves the other one's vectors empty
    Use& operator=(Use&& other) noexcept {
      std::swap(pieces_, other.pieces_);
      std::swap(registrations_, other.registrations_);
      std::swap(keeps_, other.keeps_);
      return *this;
    }
    ~Use();
    // The range in parts, each of which lies in one registration or in none: the driver refuses copies across an edge.
    const std::vector<Piece>& pieces() const noexcept { return pieces_; }
    // Is all of it in one registration?
    bool is_pinned() const noexcept { return pieces_.size() == 1 && registrations_.size() == 1; }

   private:
    friend class PinnedArena;
    std::vector<Piece> pieces_;
    std::vector<Registration*> registrations_;
    bool keeps_ = false;
  };

  // For a copy of any host memory. Precondition: the place's context is current.
  Result<Use> begin(const MemoryPlace& place, const void* host, std::size_t bytes);
  // Registers all of a tensor's memory at once, for copies of parts of it to come. The same precondition.
  void cover(const MemoryPlace& place, const void* memory, std::size_t bytes);
  // For what other libraries do with the memory: registers the block's memory as one range that ends where the block does. Lives
  // as long as the caller likes, if the caller has a lease on the block meanwhile. Not pinned: that was not possible. The same
  // precondition.
  Use keep(const MemoryPlace& place, const void* memory, std::size_t bytes);
  // Ends all registrations that are not in use.
  void release();

  struct Stats {
    std::uint64_t ranges = 0;
    std::uint64_t bytes = 0;       // of these
    std::uint64_t registered = 0;  // the rest: how often that happened
    std::uint64_t evicted = 0;     // for the budget
    std::uint64_t punched = 0;     // since pages were punched, by whatever process
    std::uint64_t failed = 0;      // registrations
  };
  Stats stats();

  bool before_punch(std::uint64_t offset, std::uint64_t bytes) noexcept override;
  void catch_up() noexcept override;

 private:
  using Registrations = std::map<std::uint64_t, Registration>;  // by offset in the data segment

  PinnedArena() = default;
  bool attach(const MemoryPlace& place);
  bool locate(const void* host, std::size_t bytes, std::uint64_t* offset) const;
  Status catch_up_locked(std::unique_lock<std::mutex>& lock);
  Registrations::iterator first_in(std::uint64_t begin);
  void pin(std::uint64_t begin, std::uint64_t end);
  void pin_again(std::uint64_t begin, std::uint64_t end);
  bool make_room(std::uint64_t bytes);
  bool add(std::uint64_t begin, std::uint64_t bytes);
  Status unregister(std::uint64_t begin) const;
  Status drop(Registrations::iterator at);
  using Lock = std::unique_lock<std::mutex>;
  void mark_stale(std::uint64_t begin, std::uint64_t end);
  Status drop_stale(Lock& lock);
  Status drop_within(std::uint64_t begin, std::uint64_t end, Lock& lock);

  std::mutex mutex_;
  std::condition_variable idle_;  // a registration has no use any more
  arena::Arena* arena_ = nullptr;
  MemoryPlace place_;  // of the first copy: a registration is portable, but to end it takes a current context
  Registrations registrations_;
  std::atomic<std::uint64_t> seen_{0};  // of the arena's log of punches
  bool any_stale_ = false;
  std::uint64_t clock_ = 0;
  std::uint64_t default_budget_ = 0;
  // After a failure so many attempts are left out, twice as many each time: an attempt may pin much before it fails.
  unsigned pause_ = 0;
  unsigned left_out_ = 0;
  Stats stats_;
};

}  // namespace forklift::inline abi_0_1::device::cuda
