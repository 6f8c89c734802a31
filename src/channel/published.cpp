#include "channel/published.h"

namespace forklift::channel {

Status publish(const Channel& channel, Sort sort, std::string_view name) {
  const ChannelId id = channel.id();
  return channel.hub().names().publish(
      name, {{arena::ObjectKind::kChannel, id.index}, id.generation, static_cast<std::uint64_t>(sort), {}});
}

Status publish(const Board& board, Sort sort, std::string_view name) {
  const BoardId id = board.id();
  return board.hub().names().publish(
      name, {{arena::ObjectKind::kBoard, id.index}, id.generation, static_cast<std::uint64_t>(sort), {}});
}

Status publish(Hub& hub, const locks::Object& lock, std::string_view name) {
  const locks::LockId id = lock.id();
  const auto kind = static_cast<std::uint64_t>(lock.table().kind_of(id));
  return hub.names().publish(name, {{arena::ObjectKind::kLock, id.index},
                                    id.generation,
                                    static_cast<std::uint64_t>(Sort::kLocks) + kind,
                                    {}});
}

std::string sort_name(const Published& published) {
  switch (static_cast<Sort>(published.kind)) {
    case Sort::kQueue: return "queue";
    case Sort::kJoinableQueue: return "joinable queue";
    case Sort::kSimpleQueue: return "simple queue";
    case Sort::kBroadcast: return "broadcast";
    case Sort::kLatest: return "latest";
    case Sort::kLocks: break;
  }
  switch (static_cast<locks::Kind>(published.kind - static_cast<std::uint64_t>(Sort::kLocks))) {
    case locks::Kind::kNone: break;
    case locks::Kind::kLock: return "lock";
    case locks::Kind::kRLock: return "recursive lock";
    case locks::Kind::kSemaphore:
    case locks::Kind::kRecovering: return "semaphore";
    case locks::Kind::kCondition: return "condition";
    case locks::Kind::kEvent: return "event";
    case locks::Kind::kBarrier: return "barrier";
  }
  return "thing of sort " + std::to_string(published.kind);
}

}  // namespace forklift::channel
