// What a process needs to pass messages: its domain, the arena, the tables of locks, channels and named
// segments, the chunk pool, made or joined together.
//
//   Result<Node*> home = Node::home();             // the process's own: made by the first call
//   Result<Node*> other = Node::join(...);         // of a process that has a home: beside it
//   {
//     const MakeIn here(*other);
//     Result<Node*> node = Node::current();        // the other one: what this thread makes meanwhile is made there
//   }
//
// A process has one home and up to 63 further attachments (docs/decisions/0234). Its children are invited to the home
// only. No node of the process is ever destroyed: objects and handles refer to it for as long as they live.
#pragma once

#include <cstddef>
#include <cstdint>
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

// How many domains a process can be in.
inline constexpr std::size_t kMostNodes = 64;

class Node {
 public:
  // Where this thread makes things: the home, or what a MakeIn says.
  static Result<Node*> current();
  // The process's own node; makes the domain on the first call, and removes the named segments that no living
  // program has any more. Never destroyed.
  static Result<Node*> home();
  // How the domain is made, if this process makes one. kInvalid: it has one already.
  static Status configure(const domain::Options& options);
  // The process's own node if there is one.
  static Node* existing() noexcept;
  // The one with this arena: the process's own, a further one, or the one that it inherited and set aside. Null: none.
  static Node* of(const arena::Arena& arena) noexcept;
  // The one whose domain has this number. Null: this process is in no such domain.
  static Node* of_domain(std::uint64_t domain_id) noexcept;
  // Calls visit(node) for each domain that this process is in, the home first.
  template <class Visit>
  static void for_each(Visit&& visit) {
    for (std::size_t i = 0;; ++i) {
      Node* const node = at(i);
      if (node == nullptr) return;
      visit(*node);
    }
  }
  // Joins a parent's domain as this process's own. kInvalid if the process has one already that is another
  // domain; with `beside_inherited`, only if it has made or joined that one itself. One that it inherited by
  // fork (a fork server's, whose modules made locks) then stays beside the new one: what was made there stays
  // usable, and nothing new is made there.
  static Result<Node*> join(os::Fd control, os::Fd data, std::optional<domain::ChildSlot> slot,
                            bool beside_inherited = false);
  // Joins a domain that was found by its name: as the process's own if it has none yet, else beside it. One that the
  // process is in already is no second membership. kNoSpace: the process is in as many domains as it can be.
  static Result<Node*> attach_to(os::Fd control, os::Fd data, std::optional<domain::ChildSlot> slot);
  // kNoSpace: there is none.
  static Status room_for_another();
  // Makes a domain: the process's own if it has none yet, else one beside it. kNoSpace as above.
  static Result<Node*> make_another();

  // This process could not join the domain that it was invited to: from now on current() fails with `why` and
  // makes no domain.
  static void stay_out(const Status& why);

  // Tells the others, of each domain that this process is in, that it leaves in good order.
  static void mark_all_clean() noexcept;
  // Gives back what dead processes held, in each domain that this process is in.
  static void reap_all();

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
  friend class MakeIn;
  Node() = default;
  Status open(std::unique_ptr<domain::Domain> domain);
  static Result<Node*> chosen() noexcept;
  static Node* at(std::size_t index) noexcept;

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

// While it lives, this thread makes things in that domain; then again where it made them before. For the thread that
// made it, and the last one first.
class MakeIn {
 public:
  explicit MakeIn(Node& node) noexcept;
  ~MakeIn();
  MakeIn(const MakeIn&) = delete;
  MakeIn& operator=(const MakeIn&) = delete;
  // In a child that begins anew: this thread makes things at home.
  static void forget() noexcept;
  // From here on this thread makes things there; null: at home. Returns what was said before.
  static Node* choose(Node* node) noexcept;

 private:
  Node* before_;
};

}  // namespace forklift::inline abi_0_1::node
