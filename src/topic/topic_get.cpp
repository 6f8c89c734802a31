// Reading a topic without its lock. A message is copied; then `oldest` tells whether it was dropped
// meanwhile. If not, this process gets a right of its own to each of its blocks, by a row of the ledger.
#include <climits>
#include <cstring>
#include <string>

#include "channel/waiting.h"
#include "topic/topic.h"
#include "topic/topics.h"

namespace forklift::inline abi_0_1::topic {

namespace {

// A reader that was overtaken this often while it copied takes the lock.
constexpr int kMostOvertaken = 16;

Status bad_slot(const char* why, std::uint64_t sequence) {
  return {Code::kCorrupt,
          std::string("a message is wrong: ") + why + " (number " + std::to_string(sequence) + ")"};
}

}  // namespace

Status Topic::copy_slot(channel::Incoming& into, std::uint64_t sequence, SlotHeader& header) {
  const std::byte* in = table_.slot(row_, sequence);
  read_racing(&header, in, sizeof header);
  if (header.sequence != sequence) return bad_slot("another sequence", sequence);
  const std::size_t handle_bytes = header.handles * sizeof(arena::Handle);
  if (sizeof header + handle_bytes + header.bytes > row_.slot_bytes.load(std::memory_order_relaxed))
    return bad_slot("its parts exceed its slot", sequence);
  if (header.spilled > 1 || (header.spilled == 1 && header.handles != 1))
    return bad_slot("its spill", sequence);
  into.make_buffer();
  in += sizeof header;
  into.handles_.resize(header.handles);
  read_racing(into.handles_.data(), in, handle_bytes);
  read_racing(into.buffer_.get(), in + handle_bytes, header.bytes);
  into.bytes_ = {into.buffer_.get(), header.bytes};
  return {};
}

Status Topic::copy(channel::Incoming& into, std::uint64_t sequence, Copied& copied) {
  copied = {};
  const auto dropped = [&] { return row_.oldest.load(std::memory_order_acquire) > sequence; };
  SlotHeader header{};
  Status got = copy_slot(into, sequence, header);
  if (dropped()) return {};
  copied.laden = got.ok() && header.handles != 0;
  if (copied.laden) {
    got = into.share(table_.arena(), arena::Holder::topic(id_.index, sequence), header.spilled != 0);
    if (!got && dropped()) {
      into.clear();
      return {};
    }
  }
  copied.there = true;
  into.codec_ = header.codec;
  into.tag_ = header.tag;
  if (!got) into.clear();
  return got;
}

Status Topic::copy_locked(channel::Incoming& into, std::uint64_t sequence, Copied& copied) {
  const sync::LockGuard guard = table_.lock(id_.index);
  if (!guard.ok()) return guard.status();
  return copy(into, sequence, copied);
}

// Drops messages that all readers have seen by now, so that their blocks are released at once and not when a
// slot is needed.
void Topic::release_passed() {
  Topics& topics = table_;
  if (topics.lowest(row_) <= row_.oldest.load(std::memory_order_acquire)) return;
  const sync::LockGuard guard = topics.lock(id_.index);
  if (guard.ok() && topics.whole(id_.index)) (void)topics.trim(id_.index);
}

Status Reader::end_of_topic() const {
  return {Code::kClosed,
          sync::labelled("the topic", topic_->label()) + " is closed, and everything was read"};
}

Status Reader::usable() const {
  const domain::Domain& domain = topic_->domain();
  if (!domain.attached()) return domain.not_attached();
  if (domain.self() != owner_)
    return {Code::kRefused,
            "this subscription belongs to the process that made it; subscribe anew in this one"};
  if (!left_.load(std::memory_order_relaxed)) return {};
  return {Code::kClosed,
          disconnected() ? "this reader was too slow and was disconnected" : "this reader has unsubscribed"};
}

void Reader::advance(std::uint64_t position) noexcept {
  seen_.store(position, std::memory_order_relaxed);
  if (place_ != kNoPlace) topic_->row_.readers[place_].position.store(position, std::memory_order_release);
}

// Skips messages that were dropped before this reader read them. False: it is disconnected for that.
bool Reader::catch_up() noexcept {
  const std::uint64_t oldest = topic_->row_.oldest.load(std::memory_order_acquire);
  const std::uint64_t position = seen();
  if (position >= oldest) return true;
  missed_.fetch_add(oldest - position, std::memory_order_relaxed);
  if (topic_->when_slow() == WhenSlow::kDisconnect) return false;
  advance(oldest);
  return true;
}

Status Reader::try_next(channel::Incoming& into, bool* done) {
  TopicRow& row = topic_->row_;
  for (int attempt = 0;; ++attempt) {
    if (!catch_up()) {
      disconnected_ = true;
      left_ = true;
      return {};
    }
    const std::uint64_t position = seen();
    const bool finished = topic_->finished();
    if (position == row.tail.load(std::memory_order_acquire)) return finished ? end_of_topic() : Status();
    Topic::Copied copied;
    Status got = attempt < kMostOvertaken ? topic_->copy(into, position, copied)
                                          : topic_->copy_locked(into, position, copied);
    if (got.ok() && !copied.there) continue;
    if (!got && got.code() != Code::kCorrupt) return got;  // it can be read later
    *done = true;
    advance(position + 1);
    if (copied.laden) topic_->release_passed();
    if (topic_->when_slow() == WhenSlow::kWait) row.space.notify(INT_MAX);
    return got;
  }
}

Status Reader::try_newest(channel::Incoming& into, std::uint64_t newer_than, bool* done) {
  for (int attempt = 0;; ++attempt) {
    const std::uint64_t tail = topic_->number();
    if (tail <= newer_than) return {};
    Topic::Copied copied;
    Status got = attempt < kMostOvertaken ? topic_->copy(into, tail - 1, copied)
                                          : topic_->copy_locked(into, tail - 1, copied);
    if (got.ok() && !copied.there) {
      // The last holder had begun to leave, and dropped all messages, when this process took the topic up.
      if (topic_->row_.oldest.load(std::memory_order_acquire) >= topic_->number()) return {};
      continue;
    }
    *done = got.ok() || got.code() == Code::kCorrupt;
    if (*done) last_ = tail;
    return got;
  }
}

Status Reader::try_get(channel::Incoming& into, bool* done) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (Status status = usable(); !status) return status;
    if (place_ == kNoPlace) {
      const bool finished = topic_->finished();  // before the look: what was put before it is seen
      Status got = try_newest(into, seen(), done);
      if (*done) advance(last_);
      if (got.ok() && !*done && finished) return end_of_topic();
      return got;
    }
    if (Status got = try_next(into, done); !got || *done || !left()) return got;
  }
  give_place();  // it was disconnected
  return usable();
}

Status Reader::get(channel::Incoming& into, os::Deadline deadline, WaitHooks* hooks) {
  into.clear();
  TopicRow& row = topic_->row_;
  trace::Tracer& tracer = topic_->domain().tracer();
  for (;;) {
    bool done = false;
    const std::int64_t traced = tracer.begin(trace::Category::kMessages);
    Status got = try_get(into, &done);
    descriptor_.settle();
    if (done && traced != 0) [[unlikely]]
      tracer.span(trace::EventKind::kRead, traced,
                  trace::row_and_sequence(topic_->id().index, static_cast<std::uint32_t>(seen() - 1)),
                  into.bytes().size());
    if (!got || done) return got;
    const auto is_ready = [this] { return ready(); };
    Status status =
        channel::wait_until({row.items, row.item_spinner, row.put_cpu, sync::kSpinNs, &spin_policy_},
                            is_ready, topic_->domain(), deadline, hooks);
    if (!status) return status;
  }
}

Result<int> Reader::descriptor(watch::Watches& watches) {
  if (Status status = usable(); !status) return status;
  return descriptor_.get(watches, topic_->row_.items, [this] { return ready(); });
}

Status Reader::wait_ready(os::Deadline deadline, WaitHooks* hooks) {
  if (Status status = usable(); !status) return status;
  TopicRow& row = topic_->row_;
  const auto is_ready = [this] { return ready(); };
  if (is_ready()) return {};
  return channel::wait_until({row.items, row.item_spinner, row.put_cpu, sync::kSpinNs, &spin_policy_},
                             is_ready, topic_->domain(), deadline, hooks);
}

Status Reader::peek(channel::Incoming& into, std::uint64_t* version) {
  into.clear();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (Status status = usable(); !status) return status;
  bool done = false;
  Status got = try_newest(into, 0, &done);
  if (got.ok() && !done) return {Code::kTimeout, "nothing was put yet"};
  if (version != nullptr) *version = last_;
  return got;
}

std::uint64_t Reader::behind() const noexcept {
  const std::uint64_t position = std::max(seen(), topic_->row_.oldest.load(std::memory_order_acquire));
  const std::uint64_t tail = topic_->number();
  return tail > position ? tail - position : 0;
}

bool Reader::at_end() const noexcept { return topic_->finished() && behind() == 0; }

bool Reader::ready() const noexcept { return behind() != 0 || topic_->finished() || left(); }

}  // namespace forklift::inline abi_0_1::topic
