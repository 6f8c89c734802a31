// Domain: how programs that did not start each other meet, and what they publish for each other.
//
//   // a service
//   auto domain = forklift::Domain::serve("camera");
//   forklift::Queue<Value> frames({.capacity = 8});
//   domain.publish("frames", frames);
//
//   // a client: another program, started by anybody
//   auto domain = forklift::Domain::attach("camera");
//   auto frames = domain.open<Queue<Value>>("frames");
//   show(frames.get());
//
//   // either of them, whoever comes first, and again after it was killed:
//   auto domain = forklift::Domain::meet("camera");
//   auto frames = domain.open_or_create<Queue<Value>>("frames", forklift::QueueOptions{.capacity = 8});
//
// serve() gives the shared memory of this process and its children a name that programs of the same user can
// attach to; they are full members from then on. The server may end, or be killed, while others are attached:
// the domain lives as long as a member, and one of those who are attached answers for the name from then on.
// A name whose programs are all gone is free again. In Python: forklift.serve, attach, meet.
//
// publish() names a queue, a lock (RWLock, Latch, ... too), a Broadcast or a Latest within the domain, or memory: a
// Tensor, a SharedArray, SharedValue, SharedCounter, SharedVector or SharedMap, a manager's dictionary or list. It stays
// until unpublish(), whatever becomes of the process that published it. Types are checked by open(): TypeMismatch.
//
//   domain.publish("weights", weights);                                  // a Tensor of the arena: the same memory
//   auto prices = domain.open_or_create<SharedMap<int, Price>>("prices", 1000);
//
// A Tensor that is not in this domain's arena (Tensor::empty's is) is copied, and what has the name is the copy.
//
// A process has a home: the first domain that it made, served, attached to or was started in. Everything is made there,
// and its children are members of it. It can attach to further domains at any time, 64 in all:
//
//   auto camera = Domain::attach("camera");        // the home, if this process has none yet
//   auto lidar = Domain::attach("lidar");          // beside it
//   auto scans = lidar.open<Queue<Tensor>>("scans");
//   auto frames = camera.open<Queue<Tensor>>("frames");
//   frames.put(scans.get());                       // from one domain into the other: copied once
//   auto lock = lidar.make<Lock>();                // made in that domain
//   auto image = lidar.in([] { return Tensor::zeros({480, 640}, DType::kUInt8); });   // as all that is made in a call
//
// Each object stays in the domain that it was made in, and is used as any other; waits may be for objects of several.
// What is put into a queue (a topic, ...) of another domain is copied there, once: the receiver shares the copy.
// Where a copy would be another object (a SharedArray, a SharedMap, a group, a loan, memory of a GPU, a dead-letter
// queue), it is an Error (kInvalid) that names both domains; and so is publishing an object in another domain than its
// own, and passing one of a further domain to a child by spawn or forkserver, which is in the home only and may attach by
// itself. A forked child is in all domains that its parent is in. Processes, pools and managers are of the home.
//
// serve() names the domain in which the thread makes things: the home, which can have several names, or that of an
// in(). serve_apart() makes a domain for the name, and so does meet() where the home has another name already.
//
// A program that stands still says why, also from outside and while all of it is stuck (`forklift why PID` in a shell):
//
//   if (Domain::Diagnosis found = Domain::own().why(); found.stuck) log(found.text);   // the cause in the first line
//   Domain::why_of(4711)                        // of the domains that another process of this user is in
//
// Names: 1 to 64 letters, digits, '.', '_', '-'. Domains' names are a user's own: they are sockets in
// $XDG_RUNTIME_DIR/forklift, or forklift-<uid> in the directory for temporary files.
//
// A Domain is a handle; with the last one, or close(), the process no longer answers for the name. It stays in the domain
// until it ends, and what it opened stays open; to attach again is the same membership. A domain all of whose other
// members are gone remains usable here.
//
// Thread safety: all functions any time, but assigning to a handle beside its use. Process safety: the point.
// A process has one more thread for each name that it serves or is attached to (unless stand_by is false), which sleeps
// until a process comes or goes. It stops for the time of a fork; a forked child is in the domain and does not answer.
//
// Errors: Error. kNotFound: nobody serves the name, nothing is published under it. kExists: it is served, or
// published, already. kVersion: the two programs have different versions of Forklift; both are named.
// kRefused: another user, another pid namespace, no Forklift server, an unsafe directory. kStalled: the process that
// should answer is stopped. kInvalid: no possible name, an object of another domain. kNoSpace: the domain has no slot
// left, or the process is in 64 domains. kNotAttached: the process is not in the domain that an object which came in a
// message lives in. No call waits longer than its Wait says.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "forklift/detail/caught.h"
#include "forklift/detail/lock_ref.h"
#include "forklift/detail/topic_ref.h"
#include "forklift/queue.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

namespace node {
class Node;
}  // namespace node
namespace rendezvous {
class NamedDomain;
}  // namespace rendezvous

template <class T>
class Broadcast;
template <class T>
class SharedArray;
template <class T>
class SharedValue;
template <class T>
class SharedVector;
template <class K, class V>
class SharedMap;
class SharedCounter;
class ManagedDict;
class ManagedList;

// Whether to answer for the name when the server is gone.
struct AttachOptions {
  bool stand_by = true;  // costs a thread
};

// How long a server may take to answer, and a name to change hands, where the caller says nothing.
inline constexpr std::chrono::seconds kServerAnswers{5};

namespace detail {

// While it lives, this thread makes things in that domain.
class MakingIn {
 public:
  explicit MakingIn(node::Node* node) noexcept;
  ~MakingIn();
  MakingIn(const MakingIn&) = delete;
  MakingIn& operator=(const MakingIn&) = delete;

 private:
  node::Node* before_;
};

// Waits a little. False: the wait is over.
bool pause_to_look_again(const Wait& wait);

// False: the name is in use.
bool publish_queue(std::string_view name, const ChannelRef& queue, std::uint64_t object_type);
bool publish_lock(std::string_view name, const LockRef& lock);
bool publish_topic(std::string_view name, const TopicRef& topic, std::uint64_t object_type);
bool publish_value(std::string_view name, const Value& value, std::uint64_t object_type);
// Nothing: there is no such name.
// `object_type` 1: any queue; else only one that was published as that.
std::optional<ChannelRef> find_published_queue(std::string_view name, std::uint64_t type,
                                               std::uint64_t object_type);
std::optional<LockName> find_published_lock(std::string_view name);
std::optional<TopicRef> find_published_topic(std::string_view name);
std::optional<Value> find_published_value(std::string_view name, std::uint64_t object_type);
[[noreturn]] void throw_not_published(std::string_view name);
[[noreturn]] void throw_published(std::string_view name);
[[noreturn]] void throw_published_otherwise(std::string_view name);
// What is there must be as it would have been made: Error (kInvalid) otherwise.
void check_published(std::string_view name, const ChannelRef& queue, const QueueOptions& options);
void check_published(std::string_view name, std::uint32_t parties, std::uint32_t wanted);
void check_published_size(std::string_view name, std::uint64_t size, std::uint64_t wanted);
void check_published(std::string_view name, const Tensor& tensor, const Tensor& wanted);

// What can be published, and how it is found again.
template <class T>
struct Publishing;

template <class T, Delivery D>
std::true_type is_queue(const Queue<T, D>*);
std::false_type is_queue(const void*);
template <class T>
concept PublishedQueue = decltype(is_queue(std::declval<T*>()))::value;

// A JoinableQueue, a SimpleQueue or a Queue: what Python makes of it. Acknowledging is a JoinableQueue's task_done().
template <class T>
constexpr std::uint64_t queue_object_type() {
  if constexpr (T::kDelivery == Delivery::kAtLeastOnce) return 2;
  if constexpr (requires(T& queue) { queue.task_done(); }) return 2;
  if constexpr (requires { T::kBytes; }) return 3;
  return 1;
}

template <PublishedQueue T>
struct Publishing<T> {
  static bool publish(std::string_view name, const T& queue) {
    return publish_queue(name, queue, queue_object_type<T>());
  }
  static std::optional<T> find(std::string_view name) {
    const std::optional<ChannelRef> found =
        find_published_queue(name, kQueueType<typename T::value_type, T::kDelivery>, queue_object_type<T>());
    if (!found) return std::nullopt;
    return T(*found);
  }
  static void check(std::string_view name, const T& found, const QueueOptions& options) {
    check_published(name, found, options);
  }
};

template <LockHandle T>
struct Publishing<T> {
  static bool publish(std::string_view name, const T& lock) { return publish_lock(name, lock.ref()); }
  static std::optional<T> find(std::string_view name) {
    const std::optional<LockName> found = find_published_lock(name);
    if (!found) return std::nullopt;
    std::optional<T> lock;
    if (!failure_in([&] { lock.emplace(T::open(*found)); }).ok()) throw_published_otherwise(name);
    return lock;
  }
  template <class... More>
  static void check(std::string_view name, const T& found, std::uint32_t parties, const More&...)
    requires requires { found.parties(); }
  {
    check_published(name, found.parties(), parties);
  }
};

template <class T>
struct IsBroadcast : std::false_type {};
template <class T>
struct IsBroadcast<Broadcast<T>> : std::true_type {};

// Broadcast and Latest, whose constructors check what they are given.
template <TopicHandle T>
struct Publishing<T> {
  static constexpr std::uint64_t kObjectType = IsBroadcast<T>::value ? 8 : 9;
  static bool publish(std::string_view name, const T& topic) {
    return publish_topic(name, topic.ref(), kObjectType);
  }
  static std::optional<T> find(std::string_view name) {
    const std::optional<TopicRef> found = find_published_topic(name);
    if (!found) return std::nullopt;
    return T(*found);
  }
};

// Memory that is published as a value: which sort (node/published.h).
template <class T>
inline constexpr std::uint64_t kNamedMemory = 0;
template <>
inline constexpr std::uint64_t kNamedMemory<Tensor> = 10;
template <class T>
inline constexpr std::uint64_t kNamedMemory<SharedArray<T>> = 11;
template <class T>
inline constexpr std::uint64_t kNamedMemory<SharedValue<T>> = 12;
template <>
inline constexpr std::uint64_t kNamedMemory<SharedCounter> = 12;
template <class T>
inline constexpr std::uint64_t kNamedMemory<SharedVector<T>> = 13;
template <class K, class V>
inline constexpr std::uint64_t kNamedMemory<SharedMap<K, V>> = 13;
template <>
inline constexpr std::uint64_t kNamedMemory<ManagedDict> = 14;
template <>
inline constexpr std::uint64_t kNamedMemory<ManagedList> = 15;

template <class T>
  requires(kNamedMemory<T> != 0)
struct Publishing<T> {
  static bool publish(std::string_view name, const T& object) {
    return publish_value(name, Value(object), kNamedMemory<T>);
  }
  static std::optional<T> find(std::string_view name) {
    const std::optional<Value> found = find_published_value(name, kNamedMemory<T>);
    if (!found) return std::nullopt;
    return found->template as<T>();
  }
  static void check(std::string_view name, const T& found, const Tensor& wanted)
    requires std::same_as<T, Tensor>
  {
    check_published(name, found, wanted);
  }
  static void check(std::string_view name, const T& found, std::size_t wanted)
    requires(kNamedMemory<T> == 11 || kNamedMemory<T> == 13)
  {
    if constexpr (kNamedMemory<T> == 11) {
      check_published_size(name, found.size(), wanted);
    } else {
      check_published_size(name, found.capacity(), wanted);
    }
  }
};

template <class T>
concept Publishable = requires { sizeof(Publishing<T>); };

}  // namespace detail

class Domain {
 public:
  // Gives this process's domain a name, under which others attach; waits while the name is changing hands.
  static Domain serve(std::string_view name, const Wait& wait = kServerAnswers);
  // The same for a domain that is made for the name, beside those that the process has (it is the home of a process that
  // has none).
  static Domain serve_apart(std::string_view name, const Wait& wait = kServerAnswers);
  // Joins the domain of that name. Error: kNotFound where nobody serves it; kTimeout, kInterrupted where the server
  // does not answer before the wait is over.
  static Domain attach(std::string_view name, const Wait& wait = kServerAnswers,
                       const AttachOptions& options = {});
  // Waits until somebody serves the name. Nothing: nobody did before the wait was over. (A server that is there has
  // kServerAnswers to answer, whatever the wait.)
  [[nodiscard]] static std::optional<Domain> try_attach(std::string_view name, const Wait& wait = Wait::now(),
                                                        const AttachOptions& options = {});
  // Attaches if the name is served, and serves it if not: with the home, or apart where the home has a name already.
  static Domain meet(std::string_view name, const Wait& wait = kServerAnswers,
                     const AttachOptions& options = {});
  // This process's home, without a name for others: what is published is found by its children.
  static Domain own();

  // Who waits for what, since when, and who could end it; for people, the likeliest cause first.
  struct Diagnosis {
    bool stuck = false;  // there are waits that nobody can end
    std::string text;    // lines
  };
  // Nobody is asked or stopped for it.
  Diagnosis why() const;
  // Error: kInvalid where there is no such process, or it is in no domain; kRefused: another user's; kVersion.
  static Diagnosis why_of(int pid);

  // Empty for own().
  const std::string& name() const noexcept;
  // The same in all handles and processes, and no other domain's.
  std::uint64_t id() const noexcept;
  // Does this process answer for the name just now?
  bool serving() const noexcept;
  // No longer answers, nor stands by to. Not needed before the process ends.
  void close() noexcept;

  // Makes an object in this domain: make<Queue<int>>(), make<Lock>(), make<Tensor>(Dims{480, 640}, DType::kUInt8), zeroed.
  template <class T, class... Args>
  [[nodiscard]] T make(Args&&... args) const {
    const detail::MakingIn here(node_);
    if constexpr (requires { T(std::forward<Args>(args)...); }) {
      return T(std::forward<Args>(args)...);
    } else {
      return T::zeros(std::forward<Args>(args)...);
    }
  }
  // Returns call(): whatever this thread makes meanwhile is made in this domain. What stats(), trim() and set_budget()
  // speak of is this domain, too.
  template <std::invocable Call>
  decltype(auto) in(Call&& call) const {
    const detail::MakingIn here(node_);
    return std::forward<Call>(call)();
  }

  // Gives an object a name in this domain; and opens what has it.
  template <detail::Publishable T>
  void publish(std::string_view name, const T& object) {
    const detail::MakingIn here(node_);
    if (!detail::Publishing<T>::publish(name, object)) detail::throw_published(name);
  }
  template <class T>
    requires(!detail::Publishable<T>)
  void publish(std::string_view, const T&) {
    static_assert(
        detail::Publishable<T>,
        "forklift: what is published is a queue, a lock, a Broadcast, a Latest, a Tensor or other shared "
        "memory; anything that can be sent goes to others through one of these");
  }
  template <detail::Publishable T>
  T open(std::string_view name) const {
    const detail::MakingIn here(node_);
    std::optional<T> found = detail::Publishing<T>::find(name);
    if (!found) detail::throw_not_published(name);
    return *std::move(found);
  }
  // Waits until something is published under the name. Nothing: it was not before the wait was over.
  template <detail::Publishable T>
  [[nodiscard]] std::optional<T> try_open(std::string_view name, const Wait& wait = Wait::now()) const {
    const Wait begun = wait.begun();
    const detail::MakingIn here(node_);
    for (;;) {
      if (std::optional<T> found = detail::Publishing<T>::find(name)) return found;
      if (!detail::pause_to_look_again(begun)) return std::nullopt;
    }
  }
  // Opens what is published, or makes it (from `args`) and publishes it: several programs may do so at once,
  // and all get the same. A queue or container of another capacity, an array of another size, a tensor of another
  // shape or dtype, or a barrier of other parties, is an Error (kInvalid).
  template <detail::Publishable T, class... Args>
  T open_or_create(std::string_view name, const Args&... args) {
    const detail::MakingIn here(node_);
    for (;;) {
      if (std::optional<T> found = detail::Publishing<T>::find(name)) {
        if constexpr (requires { detail::Publishing<T>::check(name, *found, args...); })
          detail::Publishing<T>::check(name, *found, args...);
        return *std::move(found);
      }
      T made(args...);
      if (!detail::Publishing<T>::publish(name, made)) continue;
      // A tensor from elsewhere is copied, and the copy has the name.
      if constexpr (std::same_as<T, Tensor>) {
        if (std::optional<T> found = detail::Publishing<T>::find(name)) return *std::move(found);
      }
      return made;
    }
  }
  // False: it was not published. Those who have it open keep it.
  bool unpublish(std::string_view name);

  // Everything that has a name in this domain.
  struct Published {
    std::string name;  // under which it was published
    std::string kind;  // "queue", "lock", "event", ...
  };
  std::vector<Published> published() const;

 private:
  Domain(node::Node& node, std::shared_ptr<rendezvous::NamedDomain> served) noexcept
      : node_(&node), served_(std::move(served)) {}
  static Domain of(std::shared_ptr<rendezvous::NamedDomain> served) noexcept;
  node::Node* node_;
  std::shared_ptr<rendezvous::NamedDomain> served_;
};

}  // namespace forklift::inline abi_0_1
