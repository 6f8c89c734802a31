// A topic: messages that stay after they were read, for any number of readers.
//
//   Result<TopicPtr> topic = Topic::create(topics, {.capacity = 16, .when_slow = WhenSlow::kWait});
//   Result<ReaderPtr> reader = (*topic)->subscribe();            // sees what is put from here on
//   Status put = (*topic)->put({.bytes = bytes, .leases = leases}, Deadline::after_seconds(1));
//   Status got = (*reader)->get(incoming, Deadline::never());    // every reader gets every message
//   Status newest = (*topic)->newest()->get(incoming, ...);      // what is newer than what this one saw last
//
// Messages have one order, that of their puts' commits. A put is done or it is not, whichever process is
// killed; a reader that dies is forgotten, and nobody waits for it. A message's blocks are released when it
// is dropped: when all readers have seen it and it is not one of the `keep` newest, or when its slot is
// needed. Readers keep what they have received for as long as they like: each has a right of its own to every
// block.
//
// Thread and process safety: a Topic may be used by any number of threads of any number of processes. A
// Reader belongs to the process that made it; its calls may come from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "channel/channel.h"
#include "topic/tables.h"
#include "topic/topics.h"

namespace forklift::inline abi_0_1::topic {

using channel::Incoming;
using channel::Outgoing;
using domain::WaitHooks;

struct TopicOptions {
  std::uint32_t capacity = 64;      // slots
  std::uint32_t slot_bytes = 2048;  // a longer message lies in a block
  std::uint32_t keep = 0;           // the newest messages, for readers to come; at most capacity
  WhenSlow when_slow = WhenSlow::kDropOldest;
  std::uint64_t flags = 0;  // opaque; of the layer above
};

struct TopicId {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
};

class Topic;
using TopicPtr = std::shared_ptr<Topic>;

// A reader of a topic: a subscriber, which has a place of its own, or a looker, which sees the newest message
// only.
class Reader {
 public:
  ~Reader() { leave(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // A subscriber: the next message. A looker: the newest, if it is newer than the last that it got.
  // kTimeout, kInterrupted, kCorrupt (that message is gone for this reader, the topic goes on), kStalled.
  // kClosed: the reader has left, was disconnected, or has read everything of a topic that is finished.
  Status get(Incoming& into, os::Deadline deadline, WaitHooks* hooks = nullptr);
  // A looker: the newest message, seen or not. kTimeout: there is none yet.
  Status peek(Incoming& into, std::uint64_t* version = nullptr);
  // Until a get would find a message or an end.
  Status wait_ready(os::Deadline deadline, WaitHooks* hooks = nullptr);

  bool ready() const noexcept;  // would a get find a message, or an end, just now?
  // How many messages it has not read yet.
  std::uint64_t behind() const noexcept;
  // How many it has missed altogether.
  std::uint64_t missed() const noexcept { return missed_.load(std::memory_order_relaxed); }
  // The number of messages up to and including the last one that it got; of a looker, its version.
  std::uint64_t seen() const noexcept { return seen_.load(std::memory_order_relaxed); }
  bool disconnected() const noexcept { return disconnected_.load(std::memory_order_relaxed); }
  // It has read everything of a topic that is finished.
  bool at_end() const noexcept;
  bool left() const noexcept { return left_.load(std::memory_order_relaxed); }
  // Is this the process that made it?
  bool mine() const noexcept;
  // Gives its place up. From then on get() is kClosed.
  void leave() noexcept;
  const TopicPtr& topic() const noexcept { return topic_; }
  // Of this process; readable while it is ready() (watch/descriptor.h).
  Result<int> descriptor(watch::Watches& watches);

 private:
  friend class Topic;
  static constexpr std::uint32_t kNoPlace = 0xffffffffU;
  Reader(TopicPtr topic, std::uint32_t place, domain::SlotRef owner, std::uint64_t seen)
      : topic_(std::move(topic)), place_(place), owner_(owner), seen_(seen) {}
  Status end_of_topic() const;
  Status usable() const;
  Status try_get(Incoming& into, bool* done);
  Status try_next(Incoming& into, bool* done);
  Status try_newest(Incoming& into, std::uint64_t newer_than, bool* done);
  bool catch_up() noexcept;
  void advance(std::uint64_t position) noexcept;
  void give_place() noexcept;

  TopicPtr topic_;
  std::uint32_t place_;  // kNoPlace: a looker
  domain::SlotRef owner_;
  std::mutex mutex_;  // of this process: one get at a time
  domain::SpinPolicy spin_policy_;
  bool gave_place_ = false;
  std::uint64_t last_ = 0;           // version that try_newest found
  std::atomic<std::uint64_t> seen_;  // for a subscriber what its place's position says
  std::atomic<std::uint64_t> missed_{0};
  std::atomic<bool> disconnected_{false};
  std::atomic<bool> left_{false};
  watch::DescriptorCell descriptor_;
};
using ReaderPtr = std::shared_ptr<Reader>;

class Topic : public std::enable_shared_from_this<Topic> {
 public:
  static Result<TopicPtr> create(Topics& topics, const TopicOptions& options);
  // Takes up a right that a parent entered for this process (offer), or, where this process holds the topic
  // already, another one.
  static Result<TopicPtr> open(Topics& topics, TopicId id);
  // Enters a child as a holder, so that the topic lives until the child has opened it.
  Status offer(domain::SlotRef child);

  // kTimeout: a reader that must be waited for is too slow. kClosed: the topic is finished. `number`: of
  // messages up to and including this one.
  Status put(const Outgoing& message, os::Deadline deadline, WaitHooks* hooks = nullptr,
             std::uint64_t* number = nullptr);
  // Nothing more will be put: readers get what is there, then kClosed. Idempotent.
  Status finish();
  bool finished() const noexcept { return row_.finished.load(std::memory_order_acquire) != 0; }

  // A place of its own; begins with the next message, or with the oldest that is there. kNoSpace.
  Result<ReaderPtr> subscribe(bool from_oldest = false);
  // A looker. It has no place, and no writer waits for it.
  ReaderPtr newest(std::uint64_t seen = 0);
  std::uint32_t readers() const noexcept;
  // Waits until there are at least `count`.
  Status wait_readers(std::uint32_t count, os::Deadline deadline, WaitHooks* hooks = nullptr);

  // Messages ever put; Latest's version.
  std::uint64_t number() const noexcept { return row_.tail.load(std::memory_order_acquire); }
  std::uint32_t capacity() const noexcept {
    return static_cast<std::uint32_t>(row_.capacity.load(std::memory_order_relaxed));
  }
  std::uint64_t flags() const noexcept { return row_.flags.load(std::memory_order_relaxed); }
  WhenSlow when_slow() const noexcept {
    return static_cast<WhenSlow>(row_.when_slow.load(std::memory_order_relaxed));
  }
  TopicId id() const noexcept { return id_; }
  sync::Label& label() const noexcept { return row_.label; }
  arena::Arena& arena() const noexcept { return table_.arena(); }
  domain::Domain& domain() const noexcept { return table_.domain(); }
  // Notified with every message and at the end: for waiting on several objects.
  sync::EventCount& items() noexcept { return row_.items; }
  // Makes everybody who waits look again.
  void wake_all() noexcept;

 private:
  friend class Reader;
  struct Plan;
  Topic(Topics& topics, TopicId id, TopicRow& row, arena::LeasePtr hold)
      : table_(topics), id_(id), row_(row), hold_(std::move(hold)) {}
  static Status unrepaired();
  Status plan_put(const Outgoing& message, Plan& plan);
  Status try_put(const Plan& plan, bool* done, std::uint64_t* number);
  void write(const Plan& plan, std::uint64_t sequence);
  bool make_room(std::uint64_t tail);
  bool has_room() const noexcept;
  void release_passed();
  void look_after_readers();
  bool any_reader() const noexcept { return row_.readers_used.load(std::memory_order_relaxed) != 0; }

  // Copies a message and takes rights to its blocks.
  struct Copied {
    bool there = false;  // it was not dropped meanwhile
    bool laden = false;  // it has blocks
  };
  Status copy(Incoming& into, std::uint64_t sequence, Copied& copied);
  Status copy_locked(Incoming& into, std::uint64_t sequence, Copied& copied);
  Status copy_slot(Incoming& into, std::uint64_t sequence, SlotHeader& header);

  Topics& table_;
  TopicId id_;
  TopicRow& row_;
  arena::LeasePtr hold_;
  domain::SpinPolicy spin_policy_;  // of this process, for room
};

}  // namespace forklift::inline abi_0_1::topic
