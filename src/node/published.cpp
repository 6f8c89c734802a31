#include "node/published.h"

namespace forklift::inline abi_0_1::node {

namespace {

// What has no label is called as it is published.
Status enter(Names& names, sync::Label& label, std::string_view name, const Published& as) {
  Status entered = names.publish(name, as);
  if (entered.ok() && label.empty()) (void)label.set(name);
  return entered;
}

}  // namespace

Status publish(Names& names, const channel::Channel& channel, ObjectType type, std::string_view name) {
  const channel::ChannelId id = channel.id();
  return enter(
      names, channel.label(), name,
      {{arena::ObjectKind::kChannel, id.index}, id.generation, static_cast<std::uint64_t>(type), {}});
}

Status publish(Names& names, const topic::Topic& topic, ObjectType type, std::string_view name) {
  const topic::TopicId id = topic.id();
  return enter(names, topic.label(), name,
               {{arena::ObjectKind::kTopic, id.index}, id.generation, static_cast<std::uint64_t>(type), {}});
}

Status publish(Names& names, const locks::Object& lock, std::string_view name) {
  const locks::LockId id = lock.id();
  const auto kind = static_cast<std::uint64_t>(lock.table().kind_of(id));
  return enter(names, lock.label(), name,
               {{arena::ObjectKind::kLock, id.index},
                id.generation,
                static_cast<std::uint64_t>(ObjectType::kLocks) + kind,
                {}});
}

Result<sync::Label*> label_of(Node& node, const arena::Object& object, std::uint32_t generation) {
  switch (object.kind) {
    case arena::ObjectKind::kChannel:
      if (channel::ChannelRow* const row = node.channels().row(object.index)) return &row->label;
      break;
    case arena::ObjectKind::kTopic:
      if (topic::TopicRow* const row = node.topics().row(object.index)) return &row->label;
      break;
    case arena::ObjectKind::kLock:
      if (node.locks().kind_of({object.index, generation}) != locks::Kind::kNone)
        return &node.locks().row(object.index).label;
      break;
    default: break;
  }
  return Status(Code::kInvalid, "there is no such queue, topic or lock (any more)");
}

Status publish(Node& node, const Published& what, std::string_view name) {
  const Result<sync::Label*> label = label_of(node, what.object, what.generation);
  if (!label) return label.status();
  return enter(node.names(), **label, name, what);
}

std::string type_name(const Published& published) {
  switch (static_cast<ObjectType>(published.kind)) {
    case ObjectType::kQueue: return "queue";
    case ObjectType::kJoinableQueue: return "joinable queue";
    case ObjectType::kSimpleQueue: return "simple queue";
    case ObjectType::kService: return "service";
    case ObjectType::kBroadcast: return "broadcast";
    case ObjectType::kLatest: return "latest";
    case ObjectType::kTensor: return "tensor";
    case ObjectType::kSharedArray: return "shared array";
    case ObjectType::kSharedValue: return "shared value";
    case ObjectType::kContainer: return "shared container";
    case ObjectType::kManagedDict: return "managed dictionary";
    case ObjectType::kManagedList: return "managed list";
    case ObjectType::kLocks: break;
  }
  switch (static_cast<locks::Kind>(published.kind - static_cast<std::uint64_t>(ObjectType::kLocks))) {
    case locks::Kind::kNone: break;
    case locks::Kind::kLock: return "lock";
    case locks::Kind::kRLock: return "recursive lock";
    case locks::Kind::kSemaphore:
    case locks::Kind::kRecovering: return "semaphore";
    case locks::Kind::kCondition: return "condition";
    case locks::Kind::kEvent: return "event";
    case locks::Kind::kBarrier: return "barrier";
    case locks::Kind::kReadWrite: return "read-write lock";
    case locks::Kind::kLatch: return "latch";
    case locks::Kind::kOnce: return "once";
  }
  return "thing of type " + std::to_string(published.kind);
}

}  // namespace forklift::inline abi_0_1::node
