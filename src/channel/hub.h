// What a process needs to pass messages: its domain, the arena, the tables of locks and channels, the chunk
// pool, made or joined together. One a process in programs; tests make several.
#pragma once

#include <memory>
#include <optional>

#include "arena/arena.h"
#include "channel/boards.h"
#include "channel/chunk_pool.h"
#include "channel/names.h"
#include "channel/tables.h"
#include "domain/domain.h"
#include "locks/table.h"

namespace forklift::channel {

// What a child needs to join: descriptors that it inherits and the slot that was claimed for it.
struct Invitation {
  os::Fd control;
  os::Fd data;
  domain::ChildSlot child;
};

class Hub {
 public:
  // The process's own hub; makes the domain on the first call. Never destroyed.
  static Result<Hub*> current();
  // The process's own hub if there is one.
  static Hub* existing() noexcept;
  // Joins a parent's domain as this process's own. kInvalid if the process has one already that is another
  // domain; with `beside_inherited`, only if it has made or joined that one itself. One that it inherited by
  // fork (a fork server's, whose modules made locks) then stays beside the new one: what lives in there goes
  // on, and nothing new comes into it.
  static Result<Hub*> join(os::Fd control, os::Fd data, std::optional<domain::ChildSlot> slot,
                           bool beside_inherited = false);

  // Could not join the domain that it was invited to: from now on current() fails with that, instead of
  // making another one.
  static void stay_out(const Status& why);

  // Tells the others, of each domain that this process is in, that it leaves in good order.
  static void mark_all_clean() noexcept;

  static Result<std::unique_ptr<Hub>> create(const domain::Options& options = {});
  static Result<std::unique_ptr<Hub>> attach(os::Fd control, os::Fd data,
                                             std::optional<domain::ChildSlot> slot);
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  domain::Domain& domain() const noexcept { return *domain_; }
  arena::Arena& arena() const noexcept { return *arena_; }
  ChunkPool& chunks() const noexcept { return *chunks_; }
  locks::Table& locks() const noexcept { return *locks_; }
  Boards& boards() const noexcept { return *boards_; }
  Names& names() const noexcept { return *names_; }

  // Claims a slot for a child and duplicates what it must inherit (close-on-exec: the caller passes them on).
  Result<Invitation> invite();

  // Every violated invariant of arena, locks, pool and channels, in words. Takes locks one after another;
  // exact only while nobody else is active.
  std::vector<std::string> audit();
  // Channels in use.
  std::uint64_t live_channels() const noexcept;

  // --- for Channel
  // ------------------------------------------------------------------------------------------------
  ChannelRow* row(std::uint32_t index) const noexcept;  // nullptr: no such row
  ChannelRow& unchecked_row(std::uint32_t index) const noexcept { return rows_[index]; }
  Result<std::uint32_t> claim_row(sync::Transaction& change);
  // Repairs an end whose last owner died inside; its lock is held. False: a lock that this needs is stuck.
  // The end then stays marked as broken, and whoever locks it next must repair it before anything else.
  bool repair_tail(std::uint32_t index);
  bool repair_head(std::uint32_t index);

 private:
  Hub() = default;
  Status open(std::unique_ptr<domain::Domain> domain);
  bool empty_channel(std::uint32_t index);
  bool reap_channels(domain::SlotRef slot);
  void audit_channel(std::uint32_t index, std::vector<std::uint8_t>& seen, std::vector<std::string>& wrong);

  std::unique_ptr<domain::Domain> domain_;
  std::unique_ptr<arena::Arena> arena_;
  std::unique_ptr<locks::Table> locks_;
  std::unique_ptr<ChunkPool> chunks_;
  std::unique_ptr<Boards> boards_;
  std::unique_ptr<Names> names_;
  ChannelTable* table_ = nullptr;
  ChannelRow* rows_ = nullptr;
  std::uint64_t capacity_ = 0;
};

}  // namespace forklift::channel
