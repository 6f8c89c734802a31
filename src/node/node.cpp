// Making and joining a domain, and the one node that is the process's own.
#include "node/node.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "os/library_copies.h"
#include "segment/files.h"

namespace forklift::inline abi_0_1::node {

namespace {
std::atomic<Node*> process_node{nullptr};
std::mutex process_node_mutex;
domain::Options chosen_options;  // under the mutex

// Inherited by fork and set aside for an invitation; at most one, since only a process without a node of its
// own making sets one aside.
std::atomic<Node*> inherited_node{nullptr};
// The process that made or joined process_node. A forked child inherits both and sees that it is another
// process.
std::atomic<pid_t> process_node_owner{0};
std::atomic<const Status*> stays_out{nullptr};

// The domains beside the home; an entry is stored before it is counted, under process_node_mutex.
std::array<Node*, kMostNodes - 1> further_nodes{};
std::atomic<std::size_t> further_count{0};

// Where this thread makes things; null: at home. Looked at only in a process that has a further domain.
thread_local Node* chosen_node = nullptr;

// Makes the process's own node, if no other copy of this library in the process has one.
template <class Make>
Result<std::unique_ptr<Node>> make_own(Make&& make) {
  if (Status status = os::claim_process(); !status) return status;
  Result<std::unique_ptr<Node>> made = make();
  if (!made) os::unclaim_process();
  return made;
}

// What programs left behind of which every process was killed at once, the manager of their segments included.
void sweep_segments() {
  if (const Result<std::string> folder = segment::default_folder()) (void)segment::sweep(*folder);
}

Node* publish(std::unique_ptr<Node> node) {
  Node* made = node.release();  // never destroyed: leases of static objects may outlive main
  process_node_owner.store(::getpid(), std::memory_order_relaxed);
  process_node.store(made, std::memory_order_release);
  static std::once_flag once;
  std::call_once(once, [] { std::atexit([] { Node::mark_all_clean(); }); });
  return made;
}
}  // namespace

Node* MakeIn::choose(Node* node) noexcept { return std::exchange(chosen_node, node); }
MakeIn::MakeIn(Node& node) noexcept : before_(choose(&node)) {}
MakeIn::~MakeIn() { choose(before_); }
void MakeIn::forget() noexcept { choose(nullptr); }

// Home, the inherited one, the further ones.
Node* Node::at(std::size_t index) noexcept {
  Node* const home = process_node.load(std::memory_order_acquire);
  if (home == nullptr) return nullptr;
  if (index == 0) return home;
  --index;
  if (Node* const inherited = inherited_node.load(std::memory_order_acquire); inherited != nullptr) {
    if (index == 0) return inherited;
    --index;
  }
  return index < further_count.load(std::memory_order_acquire) ? further_nodes[index] : nullptr;
}

void Node::mark_all_clean() noexcept {
  for_each([](Node& node) { node.domain().mark_clean(); });
}

void Node::reap_all() {
  for_each([](Node& node) { node.domain().reap(); });
}

void Node::stay_out(const Status& why) {
  static auto* const said = new Status(why);
  stays_out.store(said, std::memory_order_release);
}

Node* Node::existing() noexcept { return process_node.load(std::memory_order_acquire); }

Node* Node::of(const arena::Arena& arena) noexcept {
  Node* found = nullptr;
  for_each([&](Node& node) {
    if (&node.arena() == &arena) found = &node;
  });
  return found;
}

Node* Node::of_domain(std::uint64_t domain_id) noexcept {
  Node* found = nullptr;
  for_each([&](Node& node) {
    if (node.domain().header().domain_id == domain_id) found = &node;
  });
  return found;
}

Result<Node*> Node::chosen() noexcept {
  if (!chosen_node->domain().attached()) {
    if (Status status = chosen_node->domain().try_attach(); !status) return status;
  }
  return chosen_node;
}

Status Node::configure(const domain::Options& options) {
  const std::lock_guard<std::mutex> lock(process_node_mutex);
  if (existing() != nullptr)
    return {
        Code::kInvalid,
        "this process has its shared memory already: configure() comes before the first queue, tensor, lock "
        "or child"};
  chosen_options = options;
  return {};
}

Result<Node*> Node::current() {
  if (further_count.load(std::memory_order_relaxed) != 0 && chosen_node != nullptr) [[unlikely]]
    return chosen();
  return home();
}

Result<Node*> Node::home() {
  if (Node* node = existing()) {
    if (node->domain().attached()) [[likely]]
      return node;
    if (Status status = node->domain().try_attach(); !status) return status;
    return node;
  }
  const std::lock_guard<std::mutex> lock(process_node_mutex);
  if (Node* node = existing()) return node;
  if (const Status* const why = stays_out.load(std::memory_order_acquire)) return *why;
  Result<std::unique_ptr<Node>> made = make_own([] { return create(chosen_options); });
  if (!made) return made.status();
  sweep_segments();
  return publish(*std::move(made));
}

Result<Node*> Node::join(os::Fd control, os::Fd data, std::optional<domain::ChildSlot> slot,
                         bool beside_inherited) {
  const std::lock_guard<std::mutex> lock(process_node_mutex);
  if (Node* node = existing()) {
    // A second invitation to the same domain (two queues in one child's arguments) is no new membership.
    if (control.inode() == node->domain().control_file().inode()) return node;
    const bool inherited = process_node_owner.load(std::memory_order_relaxed) != ::getpid();
    if (beside_inherited && inherited && inherited_node.load(std::memory_order_relaxed) == nullptr) {
      Result<std::unique_ptr<Node>> own = attach(std::move(control), std::move(data), std::move(slot));
      if (!own) return own.status();
      node->domain().set_aside();
      inherited_node.store(node, std::memory_order_release);
      return publish(*std::move(own));
    }
    return Status(Code::kInvalid,
                  "this process belongs to another domain already; a queue can only be used in the "
                  "domain that it was made in");
  }
  Result<std::unique_ptr<Node>> made =
      make_own([&] { return attach(std::move(control), std::move(data), std::move(slot)); });
  if (!made) return made.status();
  return publish(*std::move(made));
}

Status Node::room_for_another() {
  if (further_count.load(std::memory_order_relaxed) < further_nodes.size()) return {};
  return {Code::kNoSpace, "this process is in " + std::to_string(kMostNodes) +
                              " domains already, and can be in no more: it stays in each until it ends"};
}

namespace {

// With process_node_mutex held.
Node* publish_further(std::unique_ptr<Node> node) {
  Node* const made = node.release();
  made->domain().set_aside();
  const std::size_t count = further_count.load(std::memory_order_relaxed);
  further_nodes[count] = made;
  further_count.store(count + 1, std::memory_order_release);
  return made;
}

}  // namespace

Result<Node*> Node::attach_to(os::Fd control, os::Fd data, std::optional<domain::ChildSlot> slot) {
  const std::lock_guard<std::mutex> lock(process_node_mutex);
  // Another thread of this process may have attached to the same domain meanwhile: the second slot is given up.
  Node* same = nullptr;
  for_each([&](Node& node) {
    if (control.inode() == node.domain().control_file().inode()) same = &node;
  });
  if (same != nullptr) return same;
  if (existing() == nullptr) {
    Result<std::unique_ptr<Node>> made =
        make_own([&] { return attach(std::move(control), std::move(data), std::move(slot)); });
    if (!made) return made.status();
    return publish(*std::move(made));
  }
  if (Status room = room_for_another(); !room) return room;
  Result<std::unique_ptr<Node>> made = attach(std::move(control), std::move(data), std::move(slot));
  if (!made) return made.status();
  return publish_further(*std::move(made));
}

Result<Node*> Node::make_another() {
  if (existing() == nullptr) return home();
  const std::lock_guard<std::mutex> lock(process_node_mutex);
  if (Status room = room_for_another(); !room) return room;
  Result<std::unique_ptr<Node>> made = create();
  if (!made) return made.status();
  return publish_further(*std::move(made));
}

Result<std::unique_ptr<Node>> Node::create(const domain::Options& options) {
  Result<std::unique_ptr<domain::Domain>> domain = domain::Domain::create(options);
  if (!domain) return domain.status();
  if (Status status = arena::Arena::lay_out(**domain); !status) return status;
  if (Status status = channel::ChunkPool::lay_out(**domain); !status) return status;
  segment::Segments::lay_out(**domain);
  (*domain)->header().ready.store(1, std::memory_order_release);
  std::unique_ptr<Node> node(new Node);
  if (Status status = node->open(*std::move(domain)); !status) return status;
  return node;
}

Result<std::unique_ptr<Node>> Node::attach(os::Fd control, os::Fd data,
                                           std::optional<domain::ChildSlot> slot) {
  Result<std::unique_ptr<domain::Domain>> domain =
      domain::Domain::attach(std::move(control), std::move(data), std::move(slot));
  if (!domain) return domain.status();
  std::unique_ptr<Node> node(new Node);
  if (Status status = node->open(*std::move(domain)); !status) return status;
  return node;
}

Node::~Node() {
  if (domain_) domain_->mark_clean();
}

Status Node::open(std::unique_ptr<domain::Domain> domain) {
  domain_ = std::move(domain);
  Result<std::unique_ptr<arena::Arena>> arena = arena::Arena::open(*domain_);
  if (!arena) return arena.status();
  arena_ = *std::move(arena);
  watches_ = std::make_unique<watch::Watches>(*arena_);
  locks_ = std::make_unique<locks::Table>(*arena_);
  chunks_ = std::make_unique<channel::ChunkPool>(*arena_);
  names_ = std::make_unique<Names>(*arena_);
  channels_ = std::make_unique<channel::Channels>(*arena_, *chunks_);
  topics_ = std::make_unique<topic::Topics>(*arena_);
  segments_ = std::make_unique<segment::Segments>(*arena_);
  memory_pools_ = std::make_unique<memory_pool::Pools>(*arena_);
  calls_ = std::make_unique<service::Calls>(*channels_);
  return {};
}

std::vector<std::string> Node::audit() {
  std::vector<std::string> wrong = arena_->audit();
  const auto add = [&](std::vector<std::string> found) {
    for (std::string& line : found) wrong.push_back(std::move(line));
  };
  add(watches_->audit());
  add(locks_->audit());
  add(topics_->audit());
  add(segments_->audit());
  add(memory_pools_->audit());
  add(calls_->audit());
  add(names_->audit());
  add(channels_->audit());
  return wrong;
}

Result<Invitation> Node::invite() {
  // First, since it checks that the descriptors are still ours.
  Result<domain::ChildSlot> child = domain_->reserve_child();
  if (!child) return child.status();
  Result<os::Fd> control = domain_->control_file().duplicate();
  if (!control) return control.status();
  Result<os::Fd> data = domain_->data_file().duplicate();
  if (!data) return data.status();
  return Invitation{*std::move(control), *std::move(data), *std::move(child)};
}

}  // namespace forklift::inline abi_0_1::node
