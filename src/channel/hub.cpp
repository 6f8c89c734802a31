// Making, joining and repairing: what happens to channels outside of put and get.
#include "channel/hub.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>

#include "channel/channel.h"
#include "os/library_copies.h"

namespace forklift::channel {

namespace {
std::atomic<Hub*> process_hub{nullptr};
std::mutex process_hub_mutex;

// Inherited by fork and set aside for an invitation; at most one, since only a process without a hub of its
// own making sets one aside.
std::atomic<Hub*> inherited_hub{nullptr};
// The process that made or joined process_hub. Its children inherit both, and differ.
std::atomic<pid_t> process_hub_owner{0};
std::atomic<const Status*> stays_out{nullptr};

// The process's own hub, as `make` makes it, if no other copy of this library has one.
template <class Make>
Result<std::unique_ptr<Hub>> make_own(Make&& make) {
  if (Status status = os::claim_process(); !status) return status;
  Result<std::unique_ptr<Hub>> made = make();
  if (!made) os::unclaim_process();
  return made;
}

Hub* publish(std::unique_ptr<Hub> hub) {
  Hub* made = hub.release();  // never destroyed: leases of static objects may outlive main
  process_hub_owner.store(::getpid(), std::memory_order_relaxed);
  process_hub.store(made, std::memory_order_release);
  static std::once_flag once;
  std::call_once(once, [] { std::atexit([] { Hub::mark_all_clean(); }); });
  return made;
}
}  // namespace

void Hub::mark_all_clean() noexcept {
  for (const std::atomic<Hub*>* const hub : {&process_hub, &inherited_hub}) {
    if (Hub* const each = hub->load(std::memory_order_acquire)) each->domain().mark_clean();
  }
}

void Hub::stay_out(const Status& why) {
  static auto* const said = new Status(why);
  stays_out.store(said, std::memory_order_release);
}

Hub* Hub::existing() noexcept { return process_hub.load(std::memory_order_acquire); }

Result<Hub*> Hub::current() {
  if (Hub* hub = existing()) {
    if (hub->domain().attached()) [[likely]]
      return hub;
    if (Status status = hub->domain().try_attach(); !status) return status;
    return hub;
  }
  const std::lock_guard<std::mutex> lock(process_hub_mutex);
  if (Hub* hub = existing()) return hub;
  if (const Status* const why = stays_out.load(std::memory_order_acquire)) return *why;
  Result<std::unique_ptr<Hub>> made = make_own([] { return create(); });
  if (!made) return made.status();
  return publish(*std::move(made));
}

Result<Hub*> Hub::join(os::Fd control, os::Fd data, std::optional<domain::ChildSlot> slot,
                       bool beside_inherited) {
  const std::lock_guard<std::mutex> lock(process_hub_mutex);
  if (Hub* hub = existing()) {
    // A second invitation to the same domain (two queues in one child's arguments) is no new membership.
    if (control.inode() == hub->domain().control_file().inode()) return hub;
    const bool inherited = process_hub_owner.load(std::memory_order_relaxed) != ::getpid();
    if (beside_inherited && inherited && inherited_hub.load(std::memory_order_relaxed) == nullptr) {
      Result<std::unique_ptr<Hub>> own = attach(std::move(control), std::move(data), std::move(slot));
      if (!own) return own.status();
      hub->domain().set_aside();
      inherited_hub.store(hub, std::memory_order_release);
      return publish(*std::move(own));
    }
    return Status(Code::kInvalid,
                  "this process belongs to another domain already; a queue can only be used in the "
                  "domain that it was made in");
  }
  Result<std::unique_ptr<Hub>> made =
      make_own([&] { return attach(std::move(control), std::move(data), std::move(slot)); });
  if (!made) return made.status();
  return publish(*std::move(made));
}

Result<std::unique_ptr<Hub>> Hub::create(const domain::Options& options) {
  Result<std::unique_ptr<domain::Domain>> domain = domain::Domain::create(options);
  if (!domain) return domain.status();
  if (Status status = arena::Arena::lay_out(**domain); !status) return status;
  if (Status status = ChunkPool::lay_out(**domain); !status) return status;
  (*domain)->header().ready.store(1, std::memory_order_release);
  std::unique_ptr<Hub> hub(new Hub);
  if (Status status = hub->open(*std::move(domain)); !status) return status;
  return hub;
}

Result<std::unique_ptr<Hub>> Hub::attach(os::Fd control, os::Fd data, std::optional<domain::ChildSlot> slot) {
  Result<std::unique_ptr<domain::Domain>> domain =
      domain::Domain::attach(std::move(control), std::move(data), std::move(slot));
  if (!domain) return domain.status();
  std::unique_ptr<Hub> hub(new Hub);
  if (Status status = hub->open(*std::move(domain)); !status) return status;
  return hub;
}

Hub::~Hub() {
  if (domain_) domain_->mark_clean();
}

Status Hub::open(std::unique_ptr<domain::Domain> domain) {
  domain_ = std::move(domain);
  Result<std::unique_ptr<arena::Arena>> arena = arena::Arena::open(*domain_);
  if (!arena) return arena.status();
  arena_ = *std::move(arena);
  locks_ = std::make_unique<locks::Table>(*arena_);
  chunks_ = std::make_unique<ChunkPool>(*arena_);
  names_ = std::make_unique<Names>(*arena_);
  const std::span<std::byte> region = domain_->region(domain::Region::kChannels);
  table_ = reinterpret_cast<ChannelTable*>(region.data());
  rows_ = reinterpret_cast<ChannelRow*>(region.data() + sizeof(ChannelTable));
  capacity_ = (region.size() - sizeof(ChannelTable)) / sizeof(ChannelRow);
  arena_->set_object_hooks(
      arena::ObjectKind::kChannel,
      {[this](std::uint32_t index) -> Word& { return rows_[index].count; },
       [this](std::uint32_t index) { return empty_channel(index); },
       [this](sync::Transaction& change, std::uint32_t index) {
         change.set(rows_[index].meta, rows_[index].meta.load(std::memory_order_relaxed) & ~std::uint64_t{1});
         change.set(rows_[index].next, table_->rows_free.load(std::memory_order_relaxed));
         change.set(table_->rows_free, std::uint64_t{index} + 1);
       },
       [this](std::uint64_t bytes) { return chunks_->trim(bytes); }});
  domain_->on_reap([this](domain::SlotRef slot, bool) { return reap_channels(slot); });
  boards_ = std::make_unique<Boards>(*arena_);
  return {};
}

ChannelRow* Hub::row(std::uint32_t index) const noexcept {
  return index < capacity_ && index < table_->rows_used.load(std::memory_order_acquire) ? &rows_[index]
                                                                                        : nullptr;
}

// Part of the arena transaction that creates a channel: the row is free until it commits.
Result<std::uint32_t> Hub::claim_row(sync::Transaction& change) {
  if (const std::uint64_t free = table_->rows_free.load(std::memory_order_relaxed)) {
    change.set(table_->rows_free, rows_[free - 1].next.load(std::memory_order_relaxed));
    return static_cast<std::uint32_t>(free - 1);
  }
  const std::uint64_t used = table_->rows_used.load(std::memory_order_relaxed);
  if (used >= capacity_)
    return Status(Code::kNoSpace, "all " + std::to_string(capacity_) + " channels are in use");
  // Only here, when the row has never been used: its locks then stay what they are for ever.
  if (Status status = rows_[used].tail_mutex.init(); !status) return status;
  if (Status status = rows_[used].head_mutex.init(); !status) return status;
  change.set(table_->rows_used, used + 1);
  return static_cast<std::uint32_t>(used);
}

Result<Invitation> Hub::invite() {
  // First: it looks whether the descriptors are still ours.
  Result<domain::ChildSlot> child = domain_->reserve_child();
  if (!child) return child.status();
  Result<os::Fd> control = domain_->control_file().duplicate();
  if (!control) return control.status();
  Result<os::Fd> data = domain_->data_file().duplicate();
  if (!data) return data.status();
  return Invitation{*std::move(control), *std::move(data), *std::move(child)};
}

// The last putter died inside. A put has committed iff its chunk became tail.chunk(); what it had given to
// the message that never was goes back (C2).
bool Hub::repair_tail(std::uint32_t index) {
  ChannelRow& channel = rows_[index];
  channel.tail_broken.store(1, std::memory_order_relaxed);
  if (!chunks_->settle()) return false;
  const Position tail = Position::unpack(channel.tail.load(std::memory_order_acquire));
  if (channel.spare.load(std::memory_order_relaxed) == tail.chunk())
    channel.spare.store(0, std::memory_order_relaxed);
  if (!arena_->release_held_by(arena::Holder::message(index, tail.sequence()))) return false;
  channel.tail_broken.store(0, std::memory_order_relaxed);
  return true;
}

// The last getter died inside. If it had committed, the message was its own and dies with it.
bool Hub::repair_head(std::uint32_t index) {
  ChannelRow& channel = rows_[index];
  channel.head_broken.store(1, std::memory_order_relaxed);
  if (!chunks_->settle()) return false;
  const Position head = Position::unpack(channel.head.load(std::memory_order_acquire));
  if (channel.dying.load(std::memory_order_relaxed) == head.chunk()) {
    channel.dying.store(0, std::memory_order_relaxed);
  } else {
    chunks_->give_from(channel.dying);
  }
  if (!arena_->release_held_by(arena::Holder::message(index, head.sequence() - 1))) return false;
  channel.head_broken.store(0, std::memory_order_relaxed);
  return true;
}

// Gives back what a channel holds, when its last holder leaves. Idempotent: a death anywhere leaves a state
// from which the next call goes on.
bool Hub::empty_channel(std::uint32_t index) {
  ChannelRow& channel = rows_[index];
  if (!Channel::drain(*this, index)) return false;
  sync::LockGuard tail_guard(channel.tail_mutex, [&] { repair_tail(index); });
  if (!tail_guard.ok() || (channel.tail_broken.load() != 0 && !repair_tail(index))) return false;
  sync::LockGuard head_guard(channel.head_mutex, [&] { repair_head(index); });
  if (!head_guard.ok() || (channel.head_broken.load() != 0 && !repair_head(index))) return false;
  const Position head = Position::unpack(channel.head.load(std::memory_order_relaxed));
  const Position none{0, 0, head.sequence()};
  chunks_->give_from(channel.dying);
  if (channel.dying.load(std::memory_order_relaxed) != 0) return false;
  // A first put that died before its commit has made its spare chunk the head: it is in its cell already.
  const bool never_used = channel.spare.load(std::memory_order_relaxed) == head.chunk();
  channel.dying.store(never_used ? 0 : head.chunk(), std::memory_order_relaxed);
  // Getters of a channel without a byte bound do not count; its row may have one in its next life.
  channel.head_bytes[head.sequence() & 1].store(
      channel.tail_bytes[head.sequence() & 1].load(std::memory_order_relaxed), std::memory_order_relaxed);
  sync::crash_fence();
  channel.tail.store(none.pack(), std::memory_order_relaxed);
  sync::crash_fence();
  channel.head.store(none.pack(), std::memory_order_release);
  sync::crash_fence();
  chunks_->give_from(channel.dying);
  chunks_->give_from(channel.spare);
  return channel.dying.load(std::memory_order_relaxed) == 0 &&
         channel.spare.load(std::memory_order_relaxed) == 0;
}

// A process is gone: ends that it died in are repaired now, since nobody may come to lock them again, and its
// rights to channels are given up (the last one empties the channel).
bool Hub::reap_channels(domain::SlotRef slot) {
  const std::uint64_t used = table_->rows_used.load(std::memory_order_acquire);
  bool repaired = true;
  for (std::uint32_t index = 0; index < used && index < capacity_; ++index) {
    ChannelRow& channel = rows_[index];
    if (channel.count.load(std::memory_order_relaxed) == 0) continue;
    for (const bool tail : {true, false}) {
      sync::RobustMutex& mutex = tail ? channel.tail_mutex : channel.head_mutex;
      const auto got = mutex.try_lock();
      if (got == sync::RobustMutex::Acquired::kFailed) continue;
      if (got == sync::RobustMutex::Acquired::kOwnerDied) {
        repaired &= tail ? repair_tail(index) : repair_head(index);
        mutex.consistent();
      }
      mutex.unlock();
    }
    // Whoever it was that was woken for the last message may have died before taking it.
    channel.items.notify(1);
    channel.space.notify(1);
  }
  const arena::Holder dead = arena::Holder::process(slot);
  for (const auto& [row, object] : arena_->rows_of(dead, arena::ObjectKind::kChannel))
    repaired &= arena_->release_row(row, dead);
  return repaired;
}

std::uint64_t Hub::live_channels() const noexcept {
  std::uint64_t live = 0;
  const std::uint64_t used = table_->rows_used.load(std::memory_order_acquire);
  for (std::uint64_t index = 0; index < used; ++index)
    live += rows_[index].count.load(std::memory_order_relaxed) != 0 ? 1 : 0;
  return live;
}

}  // namespace forklift::channel
