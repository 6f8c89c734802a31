// The transport between processes of one machine: a rank reads another's tensors where they lie in the arena.
//
//   Result<arena::LeasePtr> block = SharedMemory::create(arena, 4);        // once; it travels as any block does
//   Result<std::unique_ptr<SharedMemory>> rank = SharedMemory::join(*block, 2);
//
// All waits spin first and then sleep on the header's event count. At the end of a slice a sleeper looks which of the
// ranks that it waits for have died: it stores this in Header::broken, so all ranks give the same reason from then on.
//
// A rank reads what another one has posted only between that rank's post and its own `done`, and only within the data
// segment, which every process has mapped. When the other rank dies in between, its block may be recycled: the bytes
// that were read are thrown away, since finish() then fails with kPeerDied.
//
// Thread safety: as Transport. Fork: a child is no rank (kBrokenByFork).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arena/arena.h"
#include "collective/rank_transport.h"

namespace forklift::inline abi_0_1::collective {

class SharedMemory final : public Transport {
 public:
  // A scratch block up to this size is kept from one call to the next.
  static constexpr std::size_t kKeptScratch = std::size_t{64} << 20;

  // kInvalid: a size below 1 or above kMostRanks.
  static Result<arena::LeasePtr> create(arena::Arena& arena, int size);
  // Before its process is started: the others then learn of its death even if it dies before it joins.
  static Status expect(const arena::LeasePtr& block, int rank, domain::SlotRef slot);
  // kInvalid: the rank is out of range. kCorrupt: the block is no group's. kExists: a process has joined as this rank.
  static Result<std::unique_ptr<SharedMemory>> join(arena::LeasePtr block, int rank);
  // How many ranks the block is for. kCorrupt: it is no group's.
  static Result<int> size_of(const arena::LeasePtr& block);
  ~SharedMemory() override;

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  Status check() const override {
    if (usable()) [[likely]]
      return {};
    return why_unusable();
  }
  bool reachable(const std::byte* memory, std::size_t bytes) const noexcept override;
  Result<std::byte*> stage(std::size_t bytes) override;
  std::size_t small_bytes() const noexcept override { return kInlineBytes; }
  Status meet(const Call& call, const Posted& memory, bool small, const WaitLimits& limits) override;
  Result<const std::byte*> peek(int rank, std::size_t begin, std::size_t bytes) override;
  void publish(std::uint64_t steps) override;
  Status await(int rank, std::uint64_t steps, const WaitLimits& limits) override;
  Status finish(int readers, const WaitLimits& limits) override;
  void wake() noexcept override;
  void give_up() noexcept override;

 private:
  static constexpr int kBriefLooks = 32;
  // Ranks come together as a rule, so a rank spins for longer than a getter does that may wait for anything.
  static constexpr std::int64_t kSpinNs = domain::SpinPolicy::kLongestNs;
  enum class Reason : std::uint8_t {
    kDied = 1,
    kWithdrawn,
    kTimedOut,
    kGaveUp
  };
  SharedMemory(arena::LeasePtr block, int rank, int size);
  Header& header() const noexcept { return *reinterpret_cast<Header*>(block_->data()); }
  Cell& cell(int rank) const noexcept {
    return reinterpret_cast<Cell*>(block_->data() + sizeof(Header))[rank];
  }
  const Post& post(int rank) const noexcept { return cell(rank).posts[sequence_ & 1]; }
  domain::Domain& domain() const noexcept { return block_->arena().domain(); }
  Status why_unusable() const;
  void post_call(const Call& call, const Posted& memory);
  Status compare() const;
  template <class Ready>
  void look_briefly(const Ready& ready) const;
  // Waits until ready(rank) for the ranks from `first` to before `last`.
  template <class Ready>
  Status wait(int first, int last, const Ready& ready, const WaitLimits& limits);
  template <class Ready>
  Status look_for_deaths(int first, int last, const Ready& ready);
  void break_group(Reason reason, int rank) noexcept;
  // May this process use the group, and is it whole?
  bool usable() const noexcept { return domain().attached() && domain().self() == slot_ && !is_broken(); }
  bool is_broken() const noexcept { return header().broken.load(std::memory_order_acquire) != 0; }
  Status broken() const;

  arena::LeasePtr block_;
  arena::LeasePtr scratch_;
  int rank_;
  int size_;
  domain::SlotRef slot_;
  std::uint64_t sequence_ = 0;
  bool small_ = false;
  sync::Word spinner_{0};
  domain::SpinPolicy spin_policy_;
};

}  // namespace forklift::inline abi_0_1::collective
