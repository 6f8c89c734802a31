// What a process needs to pass messages: its domain, the arena, the tables of locks, channels and named
// segments, the chunk pool, made or joined together. A program has one in each process; tests make several.
#pragma once

#include <memory>
#include <optional>

#include "arena/arena.h"
#include "channel/channels.h"
#include "domain/domain.h"
#include "locks/table.h"
#include "memory_pool/pools.h"
#include "node/names.h"
#include "segment/segments.h"
#include "service/calls.h"
#include "topic/topics.h"
#include "watch/watches.h"

namespace forklift::inline abi_0_1::node {

// What a child needs to join: descriptors that it inherits and the slot that was claimed for it.
struct Invitation {
  os::Fd control;
  os::Fd data;
  domain::ChildSlot child;
};

class Node {
 public:
  // The process's own node; makes the domain on the first call, and removes the named segments that no living
  // program has any more. Never destroyed.
  static Result<Node*> current();
  // How the domain is made, if this process makes one. kInvalid: it has one already.
  static Status configure(const domain::Options& options);
  // The process's own node if there is one.
  static Node* existing() noexcept;
  // The one with this arena: the process's own, or the one that it inherited and set aside. Null: neither.
  static Node* of(const arena::Arena& arena) noexcept;
  // Joins a parent's domain as this process's own. kInvalid if the process has one already that is another
  // domain; with `beside_inherited`, only if it has made or joined that one itself. One that it inherited by
  // fork (a fork server's, whose modules made locks) then stays beside the new one: what was made there stays
  // usable, and nothing new is made there.
  static Result<Node*> join(os::Fd control, os::Fd data, std::optional<domain::ChildSlot> slot,
                            bool beside_inherited = false);

  // This process could not join the domain that it was invited to: from now on current() fails with `why` and
  // makes no domain.
  static void stay_out(const Status& why);

  // Tells the others, of each domain that this process is in, that it leaves in good order.
  static void mark_all_clean() noexcept;

  static Result<std::unique_ptr<Node>> create(const domain::Options& options = {});
  static Result<std::unique_ptr<Node>> attach(os::Fd control, os::Fd data,
                                              std::optional<domain::ChildSlot> slot);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  domain::Domain& domain() const noexcept { return *domain_; }
  arena::Arena& arena() const noexcept { return *arena_; }
  channel::ChunkPool& chunks() const noexcept { return *chunks_; }
  channel::Channels& channels() const noexcept { return *channels_; }
  watch::Watches& watches() const noexcept { return *watches_; }
  locks::Table& locks() const noexcept { return *locks_; }
  topic::Topics& topics() const noexcept { return *topics_; }
  segment::Segments& segments() const noexcept { return *segments_; }
  memory_pool::Pools& memory_pools() const noexcept { return *memory_pools_; }
  service::Calls& calls() const noexcept { return *calls_; }
  Names& names() const noexcept { return *names_; }

  // Claims a slot for a child and duplicates what it must inherit (close-on-exec: the caller passes them on).
  Result<Invitation> invite();

  // Every violated invariant of arena, locks, pool and channels, in words. Takes locks one after another;
  // exact only while nobody else is active.
  std::vector<std::string> audit();

 private:
  Node() = default;
  Status open(std::unique_ptr<domain::Domain> domain);

  std::unique_ptr<domain::Domain> domain_;
  std::unique_ptr<arena::Arena> arena_;
  std::unique_ptr<watch::Watches> watches_;
  std::unique_ptr<locks::Table> locks_;
  std::unique_ptr<channel::ChunkPool> chunks_;
  std::unique_ptr<channel::Channels> channels_;
  std::unique_ptr<topic::Topics> topics_;
  std::unique_ptr<segment::Segments> segments_;
  std::unique_ptr<memory_pool::Pools> memory_pools_;
  std::unique_ptr<service::Calls> calls_;
  std::unique_ptr<Names> names_;
};

}  // namespace forklift::inline abi_0_1::node
