// Which sorts of objects are published, for those who open them again: the C++ API and the bindings.
//
// Thread and process safety: as Names.
#pragma once

#include <string>
#include <string_view>

#include "channel/channel.h"
#include "locks/table.h"
#include "node/names.h"
#include "node/node.h"
#include "topic/topic.h"

namespace forklift::inline abi_0_1::node {

// The `kind` of a name. Locks: kLocks + locks::Kind.
enum class ObjectType : std::uint64_t {
  kQueue = 1,
  kJoinableQueue = 2,
  kSimpleQueue = 3,
  kService = 4,
  kBroadcast = 8,
  kLatest = 9,
  // Each is the newest value of a topic of its own, which nobody puts to again.
  kTensor = 10,
  kSharedArray = 11,
  kSharedValue = 12,
  kContainer = 13,
  kManagedDict = 14,
  kManagedList = 15,
  kLocks = 16
};

// Errors as of Names::publish.
Status publish(Names& names, const channel::Channel& channel, ObjectType type, std::string_view name);
Status publish(Names& names, const topic::Topic& topic, ObjectType type, std::string_view name);
Status publish(Names& names, const locks::Object& lock, std::string_view name);

// The same for what is known by its row; kInvalid, too: there is no such object (any more).
Status publish(Node& node, const Published& what, std::string_view name);
// The label in the object's row. kInvalid: there is no such object (any more).
Result<sync::Label*> label_of(Node& node, const arena::Object& object, std::uint32_t generation);

// "queue", "lock", "event", ...
std::string type_name(const Published& published);

}  // namespace forklift::inline abi_0_1::node
