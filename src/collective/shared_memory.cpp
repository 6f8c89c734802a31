#include "collective/shared_memory.h"

#include <unistd.h>

#include <climits>
#include <cstring>
#include <new>
#include <utility>

namespace forklift::inline abi_0_1::collective {
namespace {

std::uint64_t member_word(domain::SlotRef slot) noexcept {
  return static_cast<std::uint64_t>(slot.generation) << 32 | (slot.index + std::uint64_t{1});
}

Header& header_of(const arena::LeasePtr& block) noexcept { return *reinterpret_cast<Header*>(block->data()); }
Cell& cell_of(const arena::LeasePtr& block, int rank) noexcept {
  return reinterpret_cast<Cell*>(block->data() + sizeof(Header))[rank];
}

// Header::broken: reason, rank + 1, pid.
std::uint64_t broken_word(std::uint64_t reason, int rank, std::uint64_t pid) noexcept {
  return reason | static_cast<std::uint64_t>(rank + 1) << 8 | pid << 32;
}

// Stores only what changes. The other ranks poll these lines, and each store may have to fetch its line back from them.
void set(Word& word, std::uint64_t value) noexcept {
  if (word.load(std::memory_order_relaxed) != value) word.store(value, std::memory_order_relaxed);
}

}  // namespace

Result<arena::LeasePtr> SharedMemory::create(arena::Arena& arena, int size) {
  if (size < 1 || size > kMostRanks)
    return Status(Code::kInvalid,
                  "a group of " + std::to_string(size) + " ranks: it has 1 to " + std::to_string(kMostRanks));
  Result<arena::LeasePtr> block = arena.allocate(arena::Kind::kShare, block_bytes(size), true);
  if (!block) return block;
  Header& header = header_of(*block);
  header.size.store(static_cast<std::uint64_t>(size), std::memory_order_relaxed);
  header.magic.store(kMagic, std::memory_order_release);
  return block;
}

Result<int> SharedMemory::size_of(const arena::LeasePtr& block) {
  if (!block || block->data() == nullptr || block->kind() != arena::Kind::kShare ||
      block->size() < block_bytes(1) || header_of(block).magic.load(std::memory_order_acquire) != kMagic)
    return Status(Code::kCorrupt, "this block is no group's");
  const std::uint64_t size = header_of(block).size.load(std::memory_order_relaxed);
  if (size < 1 || size > kMostRanks || block->size() < block_bytes(static_cast<int>(size)))
    return Status(Code::kCorrupt, "a group's block says that it has " + std::to_string(size) +
                                      " ranks, and has " + std::to_string(block->size()) + " bytes");
  return static_cast<int>(size);
}

Status SharedMemory::expect(const arena::LeasePtr& block, int rank, domain::SlotRef slot) {
  const Result<int> size = size_of(block);
  if (!size) return size.status();
  if (rank < 0 || rank >= *size)
    return {Code::kInvalid, "rank " + std::to_string(rank) + " of " + std::to_string(*size)};
  std::uint64_t none = 0;
  if (!cell_of(block, rank).member.compare_exchange_strong(none, member_word(slot)))
    return {Code::kExists, "rank " + std::to_string(rank) + " has a process already"};
  return {};
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::join(arena::LeasePtr block, int rank) {
  const Result<int> size = size_of(block);
  if (!size) return size.status();
  if (rank < 0 || rank >= *size)
    return Status(Code::kInvalid, "rank " + std::to_string(rank) + " of a group of " + std::to_string(*size) +
                                      ": ranks go from 0 to " + std::to_string(*size - 1));
  domain::Domain& domain = block->arena().domain();
  if (!domain.attached()) return domain.not_attached();
  Cell& cell = cell_of(block, rank);
  const std::uint64_t self = member_word(domain.self());
  std::uint64_t there = 0;
  if (!cell.member.compare_exchange_strong(there, self) && there != self)
    return Status(Code::kExists, "rank " + std::to_string(rank) + " is another process's: pid " +
                                     std::to_string(cell.pid.load(std::memory_order_relaxed)));
  std::uint64_t pid = 0;
  if (!cell.pid.compare_exchange_strong(pid, static_cast<std::uint64_t>(::getpid())))
    return Status(Code::kExists, "this process has joined as rank " + std::to_string(rank) + " already");
  return std::unique_ptr<SharedMemory>(new SharedMemory(std::move(block), rank, *size));
}

SharedMemory::SharedMemory(arena::LeasePtr block, int rank, int size)
    : block_(std::move(block)), rank_(rank), size_(size), slot_(domain().self()) {}

SharedMemory::~SharedMemory() {
  if (!domain().attached() || !(domain().self() == slot_)) return;
  cell(rank_).left.store(1, std::memory_order_release);
  wake();
}

void SharedMemory::wake() noexcept { header().event.notify(INT_MAX); }

Status SharedMemory::why_unusable() const {
  if (!domain().attached()) return domain().not_attached();
  if (!(domain().self() == slot_)) [[unlikely]]
    return {Code::kBrokenByFork, "rank " + std::to_string(rank_) +
                                     " is this process's parent: a forked child is no rank of its group"};
  return broken();
}

bool SharedMemory::reachable(const std::byte* memory, std::size_t bytes) const noexcept {
  const std::span<std::byte> half = block_->arena().share_half();
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const auto base = reinterpret_cast<std::uintptr_t>(half.data());
  return begin >= base && begin - base <= half.size() && bytes <= half.size() - (begin - base);
}

Result<std::byte*> SharedMemory::stage(std::size_t bytes) {
  if (!scratch_ || !scratch_->held() || scratch_->size() < bytes) {
    scratch_.reset();
    Result<arena::LeasePtr> made = block_->arena().allocate(arena::Kind::kShare, bytes);
    if (!made) return made.status();
    scratch_ = *std::move(made);
  }
  return scratch_->data();
}

void SharedMemory::post_call(const Call& call, const Posted& memory) {
  Post& mine = cell(rank_).posts[++sequence_ & 1];
  set(mine.call, call.word());
  set(mine.count, call.count());
  set(mine.layout, call.layout());
  set(mine.bytes, memory.bytes);
  set(mine.ring, memory.ring);
  for (std::size_t i = 0; i < std::min(call.shape.size(), kShownDims); ++i)
    set(mine.dims[i], static_cast<std::uint64_t>(call.shape[i]));
  if (small_ || memory.bytes == 0) {
    set(mine.offset, kInPost);
    if (memory.bytes != 0) std::memcpy(mine.payload, memory.memory, memory.bytes);
  } else {
    set(mine.offset, static_cast<std::uint64_t>(memory.memory - block_->arena().share_half().data()));
  }
  set(cell(rank_).progress, 0);
  mine.sequence.store(sequence_, std::memory_order_release);
}

Status SharedMemory::meet(const Call& call, const Posted& memory, bool small, const WaitLimits& limits) {
  small_ = small;
  post_call(call, memory);
  const auto posted = [this](int rank) {
    return post(rank).sequence.load(std::memory_order_acquire) == sequence_;
  };
  look_briefly(posted);
  wake();
  if (Status status = wait(0, size_, posted, limits); !status) {
    if (status.code() == Code::kTimeout)
      return {Code::kTimeout, call.to_string() + ": " + std::string(status.what())};
    return status;
  }
  return compare();
}

// wake() begins with a fence, which waits until the cache line of the post has come from the rank that read it last.
// Ranks that come together see each other's posts in that time; a rank that sleeps is woken a microsecond later.
template <class Ready>
void SharedMemory::look_briefly(const Ready& ready) const {
  int at = 0;
  for (int looks = 0; looks < kBriefLooks; ++looks) {
    while (at < size_ && ready(at)) ++at;
    if (at == size_) return;
    sync::cpu_relax();
  }
}

Status SharedMemory::compare() const {
  const Post& mine = post(rank_);
  const auto same = [](const Word& a, const Word& b) {
    return a.load(std::memory_order_relaxed) == b.load(std::memory_order_relaxed);
  };
  bool equal = !is_refused(mine.call.load(std::memory_order_relaxed));
  for (int rank = 0; rank < size_ && equal; ++rank) {
    if (rank == rank_) continue;
    const Post& other = post(rank);
    equal = same(mine.call, other.call) && same(mine.count, other.count) && same(mine.layout, other.layout);
  }
  if (equal) [[likely]]
    return {};
  std::vector<std::string> texts;
  texts.reserve(static_cast<std::size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) texts.push_back(posted_text(post(rank)));
  return {Code::kMismatch, "the ranks have called different collectives, and none was done: " +
                               by_ranks(texts) + ". All ranks make the same calls in the same order"};
}

Result<const std::byte*> SharedMemory::peek(int rank, std::size_t begin, std::size_t bytes) {
  const Post& theirs = post(rank);
  const std::uint64_t offset = theirs.offset.load(std::memory_order_relaxed);
  const std::uint64_t has = theirs.bytes.load(std::memory_order_relaxed);
  const std::uint64_t ring = theirs.ring.load(std::memory_order_relaxed);
  const std::span<std::byte> half = block_->arena().share_half();
  const bool in_post = offset == kInPost;
  const std::uint64_t most = in_post ? kInlineBytes : half.size();
  const std::uint64_t lies = ring != 0 ? ring : has;  // bytes that it has in memory
  const std::uint64_t at = ring != 0 ? begin % ring : begin;
  if (begin > has || bytes > has - begin || lies > most || at > lies || bytes > lies - at ||
      (!in_post && offset > half.size() - lies)) [[unlikely]]
    return Status(Code::kCorrupt, "rank " + std::to_string(rank) + " has posted " + std::to_string(has) +
                                      " bytes at " + std::to_string(offset) + ": bytes from " +
                                      std::to_string(begin) + " to " + std::to_string(begin + bytes) +
                                      " are not there");
  return (in_post ? static_cast<const std::byte*>(theirs.payload) : half.data() + offset) + at;
}

void SharedMemory::publish(std::uint64_t steps) {
  cell(rank_).progress.store(steps, std::memory_order_release);
  wake();
}

Status SharedMemory::await(int rank, std::uint64_t steps, const WaitLimits& limits) {
  const auto ready = [this, steps](int other) {
    return cell(other).progress.load(std::memory_order_acquire) >= steps;
  };
  return wait(rank, rank + 1, ready, limits);
}

Status SharedMemory::finish(int readers, const WaitLimits& limits) {
  if (small_) return {};  // a post stays until all ranks have come to the next call
  cell(rank_).done.store(sequence_, std::memory_order_release);
  wake();
  Status status;
  const auto done = [this](int rank) { return cell(rank).done.load(std::memory_order_acquire) >= sequence_; };
  if (readers == kEveryRank) status = wait(0, size_, done, limits);
  if (readers >= 0) status = wait(readers, readers + 1, done, limits);
  if (scratch_ && scratch_->size() > kKeptScratch) scratch_.reset();
  return status;
}

template <class Ready>
Status SharedMemory::wait(int first, int last, const Ready& ready, const WaitLimits& limits) {
  int at = first;
  const auto all = [&] {
    while (at < last && ready(at)) ++at;
    return at == last;
  };
  const auto settled = [&] { return all() || header().broken.load(std::memory_order_relaxed) != 0; };
  for (;;) {
    if (all()) return {};
    if (is_broken()) return broken();
    Status status = domain::wait_for(
        {header().event, spinner_, domain::kUnknownCpu, kSpinNs, &spin_policy_, domain::WaitKind::kRanks},
        settled, domain(), limits.deadline, limits.hooks);
    if (all()) return {};
    if (status) status = look_for_deaths(at, last, ready);
    if (status) continue;
    if (status.code() == Code::kTimeout) {
      break_group(Reason::kTimedOut, rank_);
      return {Code::kTimeout, "the time was over before rank " + std::to_string(at) +
                                  " had come; the group cannot be used any more"};
    }
    if (status.code() != Code::kPeerDied && status.code() != Code::kBroken)
      break_group(Reason::kGaveUp, rank_);
    return status;
  }
}

// A rank whose process has ended may have done its part before: only what it has left undone counts.
template <class Ready>
Status SharedMemory::look_for_deaths(int first, int last, const Ready& ready) {
  for (int rank = first; rank < last; ++rank) {
    const std::uint64_t member = cell(rank).member.load(std::memory_order_acquire);
    if (member == 0 || rank == rank_) continue;
    const domain::SlotRef slot{static_cast<std::uint32_t>(member) - 1,
                               static_cast<std::uint32_t>(member >> 32)};
    const bool left = cell(rank).left.load(std::memory_order_acquire) != 0;
    if (!left && !domain().is_dead(slot)) continue;
    if (ready(rank)) continue;
    break_group(left ? Reason::kWithdrawn : Reason::kDied, rank);
    return broken();
  }
  return {};
}

void SharedMemory::break_group(Reason reason, int rank) noexcept {
  std::uint64_t intact = 0;
  const std::uint64_t pid = cell(rank).pid.load(std::memory_order_relaxed);
  header().broken.compare_exchange_strong(intact, broken_word(static_cast<std::uint64_t>(reason), rank, pid));
  wake();
}

void SharedMemory::give_up() noexcept {
  if (domain().attached() && domain().self() == slot_) break_group(Reason::kGaveUp, rank_);
}

Status SharedMemory::broken() const {
  const std::uint64_t word = header().broken.load(std::memory_order_acquire);
  if (word == 0) [[likely]]
    return {};
  const std::uint64_t pid = word >> 32;
  const std::string rank = "rank " + std::to_string((word >> 8 & 0xffffff) - 1) +
                           (pid != 0 ? " (pid " + std::to_string(pid) + ")" : " (before it had joined)");
  switch (static_cast<Reason>(word & 0xff)) {
    case Reason::kDied:
      return {Code::kPeerDied, rank + " of the group has ended: the group cannot be used any more"};
    case Reason::kWithdrawn: return {Code::kBroken, rank + " has left the group"};
    case Reason::kTimedOut: return {Code::kBroken, rank + " has waited longer than it wanted to"};
    case Reason::kGaveUp: break;
  }
  return {Code::kBroken, rank + " has given a collective up"};
}

}  // namespace forklift::inline abi_0_1::collective
