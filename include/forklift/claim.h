// Queue<T, Delivery::kAtLeastOnce>: a queue whose messages come back unless they are acknowledged; and Claim<T>, a
// message that was taken from it.
//
//   using Jobs = forklift::Queue<Job, forklift::Delivery::kAtLeastOnce>;
//   forklift::Queue<Job> failed;
//   Jobs jobs({.tries = 3, .dead_letters = failed});
//   auto worker = forklift::Process::fork([&] {
//     for (forklift::Claim<Job>& job : jobs) work(*job);   // acknowledged at the end of each turn
//   });
//   worker.start();
//   for (const Job& job : all) jobs.put(job);
//   jobs.close();
//   jobs.join();                                            // until each was acknowledged, by whatever worker
//
//   forklift::Claim<Job> job = jobs.get();                  // or one by one
//   if (!ready_for(*job)) job.give_back();                  // it is the next one that a get takes
//   else if (job.tries() > 1) check_for_traces(*job);       // it was delivered before
//
// A claim ends in one of four ways: acknowledge(), or the end of its scope, and the message is gone for good;
// give_back(), an exception that unwinds its scope, or the end of its process, by whatever means, and the message comes
// back: before all that was not delivered yet, and in the order in which it was put. A message that came back `tries`
// times goes to the dead letters, or is dropped and counted where there are none. So each message is worked on at
// least once, and more than once only if something failed: make the work such that its repetition does no harm.
//
// T, and how the queue reaches other processes: as Queue<T> (queue.h). The memory of a message lives until it is
// acknowledged; a Tensor is the same memory with each delivery, so that what a process that died had written to it is
// there.
//
// Ownership: a Claim owns its message and a handle on the queue. It can be moved and not copied, and may outlive the
// handle that it came from. The queue goes with its last handle in the last process, and what is claimed, too.
// Close: after close() nothing can be put. What is claimed can still be acknowledged or given back, and what comes back
// is got; Closed is thrown when nothing is left *and nothing is claimed*, so that no consumer leaves before the work is
// done. A thread that gets while it holds the last claims itself waits for itself.
// Fork: a claim belongs to the process that got the message. A forked child's copy is none: using it throws Error
// (kBrokenByFork), and its end does nothing. It does not matter which thread ends a claim, and the end of a thread ends
// none.
// Thread safety: the queue as Queue<T>; one Claim is used by one thread at a time.
// Errors: as Queue<T>; a message that cannot be read (kCorrupt, TypeMismatch) is acknowledged thereby, and one for which
// there was no memory comes back. kNoSpace: this process holds as many claims as the queue allows in all (`claims`);
// where other processes do, a get waits for one of them to end. kInvalid: a claim that ended is ended once more.
//
// Invariants: a message whose acknowledge() returned is never delivered again. A message whose put() returned is never
// lost but with the queue. While a message is claimed, no other process gets it. A process killed inside get() may count
// as a try, or not; a dead letter may come twice if the process that moves it is killed meanwhile.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "forklift/detail/caught.h"
#include "forklift/queue.h"

namespace forklift::inline abi_0_1 {

namespace channel {
struct Receipt;
}  // namespace channel

// How a queue that delivers at least once is made.
template <class T>
struct AtLeastOnceOptions {
  // As QueueOptions'. What is claimed counts no more.
  std::uint32_t capacity = 0;
  std::uint64_t bytes = 0;
  // How often a message is delivered before it counts as failed; 0: for ever. At most 4095.
  std::uint32_t tries = 0;
  // Takes what failed; it needs a get to move it there. Without one, or once this one is closed, it is dropped. The
  // queue keeps it alive. Where it is full, a get that has something to move waits.
  std::optional<Queue<T>> dead_letters = std::nullopt;
  // How many messages may be claimed at a time, in all processes together; each takes 256 bytes.
  std::uint32_t claims = 1024;
  std::string_view label = {};  // as QueueOptions'

  // What bounds it, and its label.
  operator QueueOptions() const noexcept { return {.capacity = capacity, .bytes = bytes, .label = label}; }
};

namespace detail {

ChannelPtr make_redelivering_queue(std::uint64_t type, const QueueOptions& options, std::uint32_t tries,
                                   std::uint32_t claims, const ChannelRef& dead_letters);
std::size_t unacknowledged_messages(const channel::Channel* channel);
std::uint64_t dropped_messages(const channel::Channel* channel);
// As get_bytes(). A message that cannot be read is acknowledged thereby, and after any other failure it comes back. The
// first one leaves a hold that failed empty, for frames that an exception passes (caught.h).
bool claim_bytes(ClaimHold& hold, std::uint64_t type, std::span<std::byte> out, Limit limit);
bool claim_next_bytes(ClaimHold& hold, std::uint64_t type, std::span<std::byte> out, Limit limit);

// What a sequence consists of; of anything else, itself.
template <class T>
struct ItemOf {
  using type = T;
};
template <Sequence T>
struct ItemOf<T> {
  using type = typename T::value_type;
};

// A message that was taken and the right to say what becomes of it. Made before the get, which fills it in.
class ClaimHold {
 public:
  explicit ClaimHold(const ChannelPtr& channel) noexcept
      : channel_(channel), exceptions_(std::uncaught_exceptions()) {}
  ClaimHold(ClaimHold&& other) noexcept
      : channel_(std::move(other.channel_)),
        place_(std::exchange(other.place_, kNone)),
        state_(other.state_),
        self_(other.self_),
        holder_(other.holder_),
        exceptions_(other.exceptions_) {}
  ClaimHold& operator=(ClaimHold&& other) noexcept {
    if (this == &other) return *this;
    end();
    channel_ = std::move(other.channel_);
    place_ = std::exchange(other.place_, kNone);
    state_ = other.state_;
    self_ = other.self_;
    holder_ = other.holder_;
    exceptions_ = other.exceptions_;
    return *this;
  }
  ~ClaimHold() { end(); }

  bool open() const noexcept { return place_ != kNone; }
  std::uint32_t tries() const noexcept;
  // Error: kBrokenByFork, kInvalid.
  void check() const {
    if (!channel_ || !is_mine()) [[unlikely]]
      refuse();
  }
  void acknowledge();
  void give_back();
  // What the end of the scope does.
  void end() noexcept {
    if (open()) leave(std::uncaught_exceptions() > exceptions_);
  }
  // From here on it is for what comes next, from this queue. What it held of the same queue is acknowledged by the next
  // claim_next_bytes(), in one step with its get, and anything else at once.
  void restart(const ChannelPtr& channel) noexcept {
    const int exceptions = std::uncaught_exceptions();
    const bool unwinding = exceptions > exceptions_;
    if (open() && (unwinding || channel_ != channel || !is_mine())) leave(unwinding);
    exceptions_ = exceptions;
    if (channel_ != channel) channel_ = channel;
  }

  // Ends what was got and is not handed out: what can never be read is acknowledged, anything else given back.
  void drop(bool unreadable) noexcept {
    if (open()) leave(!unreadable);
  }
  // The same, and it holds nothing from here on.
  void fail(bool unreadable) noexcept {
    drop(unreadable);
    channel_.reset();
  }

  // For transfer.cpp and claim.cpp, which fill it in.
  channel::Channel* channel() const noexcept { return channel_.get(); }
  void fill(std::uint64_t place, std::uint64_t state) noexcept;
  channel::Receipt release() noexcept;

 private:
  static constexpr std::uint64_t kNone = 0xffffffffU;
  // False in a forked child, whatever it is a copy of.
  bool is_mine() const noexcept {
    return self_ != nullptr && self_->load(std::memory_order_relaxed) == holder_;
  }
  [[noreturn]] void refuse() const;
  channel::Receipt receipt() const noexcept;
  void leave(bool unwinding) noexcept;
  ChannelPtr channel_;
  std::uint64_t place_ = kNone;                       // of its receipt
  std::uint64_t state_ = 0;                           // which process got it, and how often it was delivered
  const std::atomic<std::uint64_t>* self_ = nullptr;  // which process this one is, kept by the domain
  std::uint64_t holder_ = 0;                          // what that was when the message was got
  int exceptions_;
};

// Messages that are bytes: waits for one, and takes those that are there, at most `most`. `sink(into, hold, bytes)` makes
// a claim of each. One that cannot be read is acknowledged, and the failure is thrown behind the others of its step.
using ClaimSink = void (*)(void* into, ClaimHold& hold, std::span<const std::byte> bytes);
std::size_t claim_pieces(const ChannelPtr& channel, std::uint64_t type, ClaimSink sink, void* into,
                         std::size_t most, Limit limit);
// Ends those that are open, whatever queues they are of.
void acknowledge_all(std::span<ClaimHold* const> holds);

}  // namespace detail

// A message of a Queue<T, Delivery::kAtLeastOnce> in this process's hands.
template <class T>
class [[nodiscard]] Claim {
 public:
  Claim(Claim&&) noexcept = default;
  // Ends the claim that was held, as the end of its scope.
  Claim& operator=(Claim&&) noexcept = default;
  // Acknowledges; gives back where an exception that was thrown since the get unwinds the scope.
  ~Claim() = default;

  // The message, which this process may change and move from. After the end of the claim, too.
  T& operator*() & { return checked(); }
  const T& operator*() const& { return checked(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &checked(); }

  // How often it was delivered, this time among them: 1 for the first time. Counting ends at 4095.
  std::uint32_t tries() const noexcept { return hold_.tries(); }
  // Each ends the claim: the message is done, for good; or it is the next one that a get takes.
  void acknowledge() { hold_.acknowledge(); }
  void give_back() { hold_.give_back(); }
  // Is it still to be ended? False also for one that was moved from.
  explicit operator bool() const noexcept { return hold_.open(); }

 private:
  friend class Queue<T, Delivery::kAtLeastOnce>;
  Claim(detail::ClaimHold&& hold, T&& item) noexcept(std::is_nothrow_move_constructible_v<T>)
      : item_(std::move(item)), hold_(std::move(hold)) {}
  // To be filled in.
  explicit Claim(const detail::ChannelPtr& channel) noexcept
    requires(detail::kTakenInPlace<T>)
      : hold_(channel) {}
  bool fill(std::uint64_t type, const detail::Limit& limit)
    requires(detail::kTakenInPlace<T>)
  {
    return detail::claim_bytes(hold_, type, bytes(), limit);
  }
  bool fill_again(const detail::ChannelPtr& channel, std::uint64_t type, const detail::Limit& limit)
    requires(detail::kTakenInPlace<T>)
  {
    hold_.restart(channel);
    return detail::claim_next_bytes(hold_, type, bytes(), limit);
  }
  std::span<std::byte> bytes() noexcept { return std::as_writable_bytes(std::span<T, 1>(&item_, 1)); }
  T& checked() {
    hold_.check();
    return item_;
  }
  const T& checked() const {
    hold_.check();
    return item_;
  }
  T item_;
  detail::ClaimHold hold_;
};

// A queue whose messages come back unless they are acknowledged.
template <class T>
class Queue<T, Delivery::kAtLeastOnce> : public detail::QueueEnd<T, Delivery::kAtLeastOnce> {
  using End = detail::QueueEnd<T, Delivery::kAtLeastOnce>;
  using Transfer = detail::Transfer<T>;
  static constexpr std::uint64_t kType = detail::kQueueType<T, Delivery::kAtLeastOnce>;
  static constexpr std::uint64_t kMessage = Transfer::kType;
  static constexpr bool kInPlace = detail::kTakenInPlace<T>;

 public:
  // A new queue. Error: as Queue's; kInvalid: more tries or claims than are possible.
  explicit Queue(const AtLeastOnceOptions<T>& options = {})
      : End(detail::make_redelivering_queue(
            kType, options, options.tries, options.claims,
            options.dead_letters ? ChannelRef(*options.dead_letters) : ChannelRef())) {}
  // As Queue's.
  template <std::same_as<std::nullptr_t> None>
  explicit Queue(None) noexcept {}
  static Queue inherited(std::string_view name) {
    return Queue(ChannelRef(detail::inherited_queue(name, kType)));
  }
  explicit Queue(const ChannelRef& channel) : End(detail::queue_of_type(channel, kType)) {}

  // The oldest message; waits for one. Nothing: none came before the wait was over.
  Claim<T> get()
    requires kInPlace
  {
    Claim<T> claim(this->channel_);
    claim.fill(kMessage, detail::kForever);
    return claim;
  }
  Claim<T> get()
    requires(!kInPlace)
  {
    detail::ClaimHold hold(this->channel_);
    return claimed(hold, [&] { return Transfer::get(detail::Endpoint(hold)); });
  }
  [[nodiscard]] std::optional<Claim<T>> try_get(const Wait& wait = Wait::now())
    requires kInPlace
  {
    Claim<T> claim(this->channel_);
    if (!claim.fill(kMessage, wait)) return std::nullopt;
    return claim;
  }
  [[nodiscard]] std::optional<Claim<T>> try_get(const Wait& wait = Wait::now())
    requires(!kInPlace)
  {
    detail::ClaimHold hold(this->channel_);
    std::optional<T> item = reading(hold, [&] { return Transfer::get(detail::Endpoint(hold), wait); });
    if (!item) return std::nullopt;
    return Claim<T>(std::move(hold), *std::move(item));
  }
  // The same, in place of a claim that is there already: that one ends first, as with its scope. False: nothing came.
  [[nodiscard]] bool try_get_into(Claim<T>& claim, const Wait& wait = Wait::now())
    requires kInPlace
  {
    return claim.fill_again(this->channel_, kMessage, wait);
  }
  [[nodiscard]] bool try_get_into(Claim<T>& claim, const Wait& wait = Wait::now())
    requires(!kInPlace)
  {
    claim.hold_.end();
    std::optional<Claim<T>> next = try_get(wait);
    if (!next) return false;
    claim = *std::move(next);
    return true;
  }

  // Waits for a message and then takes those that are there, in order and at most `most`, each as a claim of its own
  // behind what `into` has. How many: 1 or more. A message that cannot be read throws, with others that came with it in
  // `into`. Numbers, structs, strings and vectors share a hold of the queue's lock; any others come one by one.
  std::size_t get_many(std::vector<Claim<T>>& into, std::size_t most) {
    return claim_each(into, most, Wait::forever());
  }
  // 0: none came before the wait was over.
  [[nodiscard]] std::size_t try_get_many(std::vector<Claim<T>>& into, std::size_t most,
                                         const Wait& wait = Wait::now()) {
    return claim_each(into, most, wait);
  }
  // Each ends all claims that were not ended yet. What is given back keeps its order.
  void acknowledge(std::span<Claim<T>> claims) const {
    std::array<detail::ClaimHold*, 64> holds;
    while (!claims.empty()) {
      const std::span<Claim<T>> some = claims.first(std::min(claims.size(), holds.size()));
      for (std::size_t i = 0; i < some.size(); ++i) holds[i] = &some[i].hold_;
      detail::acknowledge_all(std::span(holds.data(), some.size()));
      claims = claims.subspan(some.size());
    }
  }
  void give_back(std::span<Claim<T>> claims) const {
    for (Claim<T>& claim : claims)
      if (claim) claim.give_back();
  }

  // Every message until the queue is closed and all is acknowledged; with each(), also until a wait for one is over. A
  // claim ends before the next one is got, and with the loop, as at the end of a scope.
  detail::ItemIterator<Queue> begin() { return {*this, Wait::forever()}; }
  std::default_sentinel_t end() const noexcept { return {}; }
  detail::Items<Queue> each(const Wait& wait) { return {*this, wait}; }

  // Messages that are claimed, or came back and were not got again. And how many failed and were dropped.
  std::size_t unacknowledged() const { return detail::unacknowledged_messages(this->channel_.get()); }
  std::uint64_t dropped() const { return detail::dropped_messages(this->channel_.get()); }
  // Until everything that was put is acknowledged. False: the wait is over before.
  void join() const { (void)detail::join_tasks(this->channel_.get(), detail::kForever); }
  [[nodiscard]] bool try_join(const Wait& wait = Wait::now()) const {
    return detail::join_tasks(this->channel_.get(), wait);
  }

 private:
  static constexpr bool kShareALock = (kInPlace && sizeof(T) <= detail::kMostOnStack) || detail::Sequence<T>;

  // Owns nothing while a length may be refused (caught.h).
  static void add_claim(void* into, detail::ClaimHold& hold, std::span<const std::byte> bytes) {
    using Item = typename detail::ItemOf<T>::type;
    if (detail::Sequence<T> ? bytes.size() % sizeof(Item) != 0 : bytes.size() != sizeof(T))
      detail::throw_wrong_length(bytes.size(), sizeof(Item));
    T item;
    if constexpr (detail::Sequence<T>) {
      detail::assign_sequence<T>(&item, bytes);
    } else {
      std::memcpy(&item, bytes.data(), sizeof(T));
    }
    static_cast<std::vector<Claim<T>>*>(into)->push_back(Claim<T>(std::move(hold), std::move(item)));
  }

  std::size_t claim_each(std::vector<Claim<T>>& into, std::size_t most, const Wait& wait) {
    if constexpr (kShareALock) {
      return detail::claim_pieces(this->channel_, kMessage, &add_claim, &into, most, wait);
    } else {
      return claim_singly(into, most, wait);
    }
  }
  std::size_t claim_singly(std::vector<Claim<T>>& into, std::size_t most, const Wait& wait) {
    std::size_t count = 0;
    while (count < most && (count == 0 || !this->empty())) {
      std::optional<Claim<T>> next;
      std::exception_ptr failure = detail::caught([&] { next = try_get(count == 0 ? wait : Wait::now()); });
      // The claims that came are the answer, and the next get meets the failure. But what cannot be read is gone.
      if (failure && (count == 0 || detail::unreadable(failure))) detail::rethrow(failure);
      if (!next) break;
      into.push_back(*std::move(next));
      ++count;
    }
    return count;
  }
  // A message that cannot be read will never be: it is done. Any other failure gives it back.
  template <class Read>
  static auto reading(detail::ClaimHold& hold, Read&& read) {
    std::optional<std::invoke_result_t<Read&>> item;
    if (std::exception_ptr failure = detail::caught([&] { item.emplace(read()); })) {
      hold.fail(detail::unreadable(failure));
      detail::rethrow(failure);
    }
    return *std::move(item);
  }
  template <class Read>
  static Claim<T> claimed(detail::ClaimHold& hold, Read&& read) {
    T item = reading(hold, std::forward<Read>(read));
    return Claim<T>(std::move(hold), std::move(item));
  }
};

}  // namespace forklift::inline abi_0_1
