// The parts of Domain that are no template.
#include "forklift/domain.h"

#include <string>

#include "channel/board.h"
#include "channel/channel.h"
#include "channel/published.h"
#include "channel/stop.h"
#include "forklift/barrier.h"
#include "locks/table.h"
#include "process/door.h"

namespace forklift {

namespace {

channel::Hub& own_hub() { return *need(channel::Hub::current()); }

// `enter` is Door::serve, Door::attach or Door::meet.
template <class Enter>
process::DoorPtr through_door(std::string_view name, const AttachOptions& options, Enter&& enter) {
  process::DoorOptions made;
  made.deadline = os::Deadline::after_ns(options.timeout.count());
  made.stand_by = options.stand_by;
  channel::StopHooks hooks(options.stop);
  if (options.stop.stop_possible()) {
    check(hooks.poll());
    made.hooks = &hooks;
  }
  return need(enter(name, made));
}

bool published(const Status& status) {
  if (status.code() == Code::kExists) return false;
  check(status);
  return true;
}

std::optional<channel::Published> look_up(std::string_view name) {
  Result<channel::Published> found = own_hub().names().find(name);
  if (found.code() == Code::kNotFound) return std::nullopt;
  return need(std::move(found));
}

}  // namespace

namespace detail {

bool publish_queue(std::string_view name, const ChannelRef& queue, std::uint64_t sort) {
  if (!queue.get()) throw Error({Code::kClosed, "a closed queue cannot be published"});
  return published(channel::publish(*queue.get(), static_cast<channel::Sort>(sort), name));
}

bool publish_lock(std::string_view name, const LockRef& lock) {
  return published(channel::publish(own_hub(), *lock.get(), name));
}

bool publish_board(std::string_view name, const BoardRef& board, std::uint64_t sort) {
  return published(channel::publish(*board.get(), static_cast<channel::Sort>(sort), name));
}

std::optional<BoardRef> find_published_board(std::string_view name) {
  const std::optional<channel::Published> found = look_up(name);
  if (!found) return std::nullopt;
  if (found->object.kind != arena::ObjectKind::kBoard) throw_published_otherwise(name);
  Result<channel::BoardPtr> opened =
      channel::Board::open(own_hub(), {found->object.index, found->generation});
  // Unpublished and gone since it was looked up.
  if (opened.code() == Code::kInvalid) return std::nullopt;
  return BoardRef(need(std::move(opened)));
}

std::optional<ChannelRef> find_published_queue(std::string_view name, std::uint64_t type,
                                               std::uint64_t sort) {
  const std::optional<channel::Published> found = look_up(name);
  if (!found) return std::nullopt;
  const bool as_made = sort == static_cast<std::uint64_t>(channel::Sort::kQueue) || sort == found->kind;
  if (found->object.kind != arena::ObjectKind::kChannel || !as_made) throw_published_otherwise(name);
  Result<channel::ChannelPtr> opened =
      channel::Channel::open(own_hub(), {found->object.index, found->generation});
  // Unpublished and gone since it was looked up.
  if (opened.code() == Code::kInvalid) return std::nullopt;
  ChannelPtr queue = need(std::move(opened));
  check_queue_type(*queue, name, type);
  return ChannelRef(std::move(queue));
}

std::optional<LockName> find_published_lock(std::string_view name) {
  const std::optional<channel::Published> found = look_up(name);
  if (!found) return std::nullopt;
  if (found->object.kind != arena::ObjectKind::kLock) throw_published_otherwise(name);
  return LockName{found->object.index, found->generation};
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

void throw_not_published(std::string_view name) {
  throw Error({Code::kNotFound, "nothing is published as \"" + std::string(name) + "\" in this domain"});
}

void throw_published(std::string_view name) {
  throw Error({Code::kExists, "\"" + std::string(name) + "\" is published in this domain already"});
}

void throw_published_otherwise(std::string_view name) {
  const std::optional<channel::Published> found = look_up(name);
  if (!found) throw_not_published(name);
  throw TypeMismatch({Code::kInvalid, "\"" + std::string(name) + "\" is published as a " +
                                          channel::sort_name(*found) + ", and was opened as something else"});
}

}  // namespace detail

Domain Domain::serve(std::string_view name, const ServeOptions& options) {
  return Domain(through_door(name, {.timeout = options.timeout, .stop = options.stop}, process::Door::serve));
}

Domain Domain::attach(std::string_view name, const AttachOptions& options) {
  return Domain(through_door(name, options, process::Door::attach));
}

Domain Domain::meet(std::string_view name, const AttachOptions& options) {
  return Domain(through_door(name, options, process::Door::meet));
}

Domain Domain::own() {
  (void)own_hub();
  return Domain(nullptr);
}

const std::string& Domain::name() const noexcept {
  static const std::string none;
  return door_ ? door_->name() : none;
}

bool Domain::serving() const noexcept { return door_ && door_->serving(); }

void Domain::close() noexcept {
  if (door_) door_->close();
}

bool Domain::unpublish(std::string_view name) {
  const Status status = own_hub().names().unpublish(name);
  if (status.code() == Code::kNotFound) return false;
  check(status);
  return true;
}

std::vector<Domain::Published> Domain::published() const {
  std::vector<Published> all;
  for (const channel::Published& one : need(own_hub().names().list())) {
    all.push_back({one.name, channel::sort_name(one)});
  }
  return all;
}

}  // namespace forklift
