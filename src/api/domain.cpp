// The parts of Domain that are no template.
#include "forklift/domain.h"

#include <time.h>

#include <algorithm>
#include <string>

#include "api/attached.h"
#include "api/stop.h"
#include "channel/channel.h"
#include "forklift/barrier.h"
#include "forklift/latest.h"
#include "forklift/value.h"
#include "inspect/diagnosis.h"
#include "locks/table.h"
#include "node/published.h"
#include "rendezvous/named_domain.h"
#include "topic/topic.h"

namespace forklift::inline abi_0_1 {

namespace {

// `enter` is NamedDomain::serve, attach or meet.
template <class Enter>
Result<rendezvous::NamedDomainPtr> with_domain(std::string_view name, detail::Limit limit,
                                               const AttachOptions& options, Enter&& enter) {
  rendezvous::NamedDomainOptions made;
  made.deadline = os::Deadline::after_ns(limit.ns);
  made.stand_by = options.stand_by;
  detail::StopHooks hooks(detail::stop_of(limit));
  if (limit.stop != nullptr) {
    if (Status stopped = hooks.poll(); !stopped) return stopped;
    made.hooks = &hooks;
  }
  return enter(name, made);
}

// How often a name that nobody serves, or under which nothing is published, is looked for again.
constexpr std::int64_t kLookAgainNs = 5'000'000;

bool published(const Status& status) {
  if (status.code() == Code::kExists) return false;
  throw_if_failed(status);
  return true;
}

std::optional<node::Published> look_up(std::string_view name) {
  Result<node::Published> found = detail::attached_node().names().find(name);
  if (found.code() == Code::kNotFound) return std::nullopt;
  return value_or_throw(std::move(found));
}

}  // namespace

namespace detail {

bool pause_to_look_again(const Wait& wait) {
  if (wait.over()) return false;
  const Limit limit(wait);
  const timespec pause{0, static_cast<long>(std::min(limit.ns, kLookAgainNs))};
  ::nanosleep(&pause, nullptr);
  return true;
}

MakingIn::MakingIn(node::Node* node) noexcept : before_(node::MakeIn::choose(node)) {}
MakingIn::~MakingIn() { node::MakeIn::choose(before_); }

namespace {

// Precondition of publishing an object: it lives here.
node::Names& names_for(const domain::Domain& of_object, std::string_view name) {
  node::Node& here = attached_node();
  if (&here.domain() == &of_object) return here.names();
  throw Error({Code::kInvalid, "\"" + std::string(name) + "\" cannot be published in " +
                                   here.domain().described() + ": the object lives in " +
                                   of_object.described() +
                                   ". Publish it there, or make it here (Domain::make)"});
}

}  // namespace

bool publish_queue(std::string_view name, const ChannelRef& queue, std::uint64_t object_type) {
  if (!queue.get()) throw Error({Code::kClosed, "an empty handle cannot be published"});
  return published(node::publish(names_for(queue.get()->domain(), name), *queue.get(),
                                 static_cast<node::ObjectType>(object_type), name));
}

bool publish_lock(std::string_view name, const LockRef& lock) {
  return published(node::publish(names_for(lock.get()->table().domain(), name), *lock.get(), name));
}

bool publish_topic(std::string_view name, const TopicRef& topic, std::uint64_t object_type) {
  return published(node::publish(names_for(topic.get()->domain(), name), *topic.get(),
                                 static_cast<node::ObjectType>(object_type), name));
}

std::optional<TopicRef> find_published_topic(std::string_view name) {
  const std::optional<node::Published> found = look_up(name);
  if (!found) return std::nullopt;
  if (found->object.kind != arena::ObjectKind::kTopic) throw_published_otherwise(name);
  Result<topic::TopicPtr> opened =
      topic::Topic::open(detail::attached_node().topics(), {found->object.index, found->generation});
  // Unpublished and gone since it was looked up.
  if (opened.code() == Code::kInvalid) return std::nullopt;
  return TopicRef(value_or_throw(std::move(opened)));
}

bool publish_value(std::string_view name, const Value& value, std::uint64_t object_type) {
  // The topic's newest message holds the memory for as long as the name, or a reader, holds the topic.
  Latest<Value> kept;
  kept.put(value);
  return publish_topic(name, kept.ref(), object_type);
}

std::optional<Value> find_published_value(std::string_view name, std::uint64_t object_type) {
  const std::optional<node::Published> found = look_up(name);
  if (!found) return std::nullopt;
  if (found->kind != object_type) throw_published_otherwise(name);
  const std::optional<TopicRef> topic = find_published_topic(name);
  if (!topic) return std::nullopt;
  return Latest<Value>(*topic).peek();
}

std::optional<ChannelRef> find_published_queue(std::string_view name, std::uint64_t type,
                                               std::uint64_t object_type) {
  const std::optional<node::Published> found = look_up(name);
  if (!found) return std::nullopt;
  const bool any_queue = object_type == static_cast<std::uint64_t>(node::ObjectType::kQueue) &&
                         found->kind != static_cast<std::uint64_t>(node::ObjectType::kService);
  const bool as_made = any_queue || object_type == found->kind;
  if (found->object.kind != arena::ObjectKind::kChannel || !as_made) throw_published_otherwise(name);
  Result<channel::ChannelPtr> opened =
      channel::Channel::open(detail::attached_node().channels(), {found->object.index, found->generation});
  // Unpublished and gone since it was looked up.
  if (opened.code() == Code::kInvalid) return std::nullopt;
  ChannelPtr queue = value_or_throw(std::move(opened));
  check_queue_type(*queue, name, type);
  return ChannelRef(std::move(queue));
}

std::optional<LockName> find_published_lock(std::string_view name) {
  const std::optional<node::Published> found = look_up(name);
  if (!found) return std::nullopt;
  if (found->object.kind != arena::ObjectKind::kLock) throw_published_otherwise(name);
  return LockName{found->object.index, found->generation, 0};
}

namespace {

[[noreturn]] void throw_made_otherwise(std::string_view name, std::string_view what, std::uint64_t is,
                                       std::uint64_t wanted) {
  throw Error({Code::kInvalid, "\"" + std::string(name) + "\" is published with " + std::string(what) + " " +
                                   std::to_string(is) + ", and was to be made with " +
                                   std::to_string(wanted)});
}

}  // namespace

void check_published(std::string_view name, const ChannelRef& queue, const QueueOptions& options) {
  const channel::Channel& channel = *queue.get();
  if (channel.capacity() != options.capacity)
    throw_made_otherwise(name, "capacity", channel.capacity(), options.capacity);
  if (options.bytes != 0 && channel.byte_capacity() != options.bytes)
    throw_made_otherwise(name, "a capacity in bytes of", channel.byte_capacity(), options.bytes);
}

void check_published(std::string_view name, std::uint32_t parties, std::uint32_t wanted) {
  if (parties != wanted) throw_made_otherwise(name, "a number of parties of", parties, wanted);
}

void check_published_size(std::string_view name, std::uint64_t size, std::uint64_t wanted) {
  if (size != wanted) throw_made_otherwise(name, "room for", size, wanted);
}

void check_published(std::string_view name, const Tensor& tensor, const Tensor& wanted) {
  const bool same_shape = std::ranges::equal(tensor.shape(), wanted.shape());
  if (same_shape && tensor.dtype() == wanted.dtype()) return;
  const auto described = [](const Tensor& of) {
    std::string text = std::string(forklift::name(of.dtype())) + " of shape [";
    for (const std::int64_t length : of.shape()) text += std::to_string(length) + " ";
    if (text.back() == ' ') text.pop_back();
    return text + "]";
  };
  throw Error({Code::kInvalid, "\"" + std::string(name) + "\" is published as a tensor of " +
                                   described(tensor) + ", and was to be made as one of " +
                                   described(wanted)});
}

void throw_not_published(std::string_view name) {
  throw Error({Code::kNotFound, "nothing is published as \"" + std::string(name) + "\" in " +
                                    attached_node().domain().described()});
}

void throw_published(std::string_view name) {
  throw Error({Code::kExists, "\"" + std::string(name) + "\" is published in " +
                                  attached_node().domain().described() + " already"});
}

void throw_published_otherwise(std::string_view name) {
  const std::optional<node::Published> found = look_up(name);
  if (!found) throw_not_published(name);
  throw TypeMismatch({Code::kInvalid, "\"" + std::string(name) + "\" is published as a " +
                                          node::type_name(*found) + ", and was opened as something else"});
}

}  // namespace detail

Domain Domain::serve(std::string_view name, const Wait& wait) {
  return of(value_or_throw(with_domain(name, wait, {}, rendezvous::NamedDomain::serve)));
}

Domain Domain::serve_apart(std::string_view name, const Wait& wait) {
  return of(value_or_throw(
      with_domain(name, wait, {}, [](std::string_view at, rendezvous::NamedDomainOptions options) {
        options.apart = true;
        return rendezvous::NamedDomain::serve(at, options);
      })));
}

Domain Domain::attach(std::string_view name, const Wait& wait, const AttachOptions& options) {
  return of(value_or_throw(with_domain(name, wait, options, rendezvous::NamedDomain::attach)));
}

std::optional<Domain> Domain::try_attach(std::string_view name, const Wait& wait,
                                         const AttachOptions& options) {
  const Wait begun = wait.begun();
  for (;;) {
    auto attached =
        with_domain(name, Wait(kServerAnswers, wait.stop()), options, rendezvous::NamedDomain::attach);
    if (attached) return of(*std::move(attached));
    if (attached.code() == Code::kInterrupted) return std::nullopt;
    if (attached.code() != Code::kNotFound) throw Error(attached.status());
    if (!detail::pause_to_look_again(begun)) return std::nullopt;
  }
}

Domain Domain::meet(std::string_view name, const Wait& wait, const AttachOptions& options) {
  return of(value_or_throw(with_domain(name, wait, options, rendezvous::NamedDomain::meet)));
}

Domain Domain::own() { return {detail::home_node(), nullptr}; }

Domain Domain::of(std::shared_ptr<rendezvous::NamedDomain> served) noexcept {
  node::Node& node = served->node();
  return {node, std::move(served)};
}

std::uint64_t Domain::id() const noexcept { return node_->domain().header().domain_id; }

Domain::Diagnosis Domain::why() const {
  const inspect::Diagnosis found = inspect::diagnose(inspect::View(node_->domain()));
  return {found.is_stuck(), found.text()};
}

Domain::Diagnosis Domain::why_of(int pid) {
  Diagnosis all;
  for (const inspect::Diagnosis& each : value_or_throw(inspect::diagnose(static_cast<pid_t>(pid)))) {
    const std::string text = each.text();
    all.text = each.is_stuck() && !all.stuck ? text + all.text : all.text + text;
    all.stuck = all.stuck || each.is_stuck();
  }
  return all;
}

const std::string& Domain::name() const noexcept {
  static const std::string none;
  return served_ ? served_->name() : none;
}

bool Domain::serving() const noexcept { return served_ && served_->serving(); }

void Domain::close() noexcept {
  if (served_) served_->close();
}

bool Domain::unpublish(std::string_view name) {
  const detail::MakingIn here(node_);
  const Status status = detail::attached_node().names().unpublish(name);
  if (status.code() == Code::kNotFound) return false;
  throw_if_failed(status);
  return true;
}

std::vector<Domain::Published> Domain::published() const {
  const detail::MakingIn here(node_);
  std::vector<Published> all;
  for (const node::Published& one : value_or_throw(detail::attached_node().names().list())) {
    all.push_back({one.name, node::type_name(one)});
  }
  return all;
}

}  // namespace forklift::inline abi_0_1
