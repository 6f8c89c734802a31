// Which sorts of objects are published, for those who open them again: the C++ API and the bindings.
//
// Thread and process safety: as Names.
#pragma once

#include <string>
#include <string_view>

#include "channel/board.h"
#include "channel/channel.h"
#include "channel/names.h"

namespace forklift::channel {

// The `kind` of a name. Locks: kLocks + locks::Kind.
enum class Sort : std::uint64_t {
  kQueue = 1,
  kJoinableQueue = 2,
  kSimpleQueue = 3,
  kBroadcast = 8,
  kLatest = 9,
  kLocks = 16
};

// Errors as of Names::publish.
Status publish(const Channel& channel, Sort sort, std::string_view name);
Status publish(const Board& board, Sort sort, std::string_view name);
Status publish(Hub& hub, const locks::Object& lock, std::string_view name);

// "queue", "lock", "event", ...
std::string sort_name(const Published& published);

}  // namespace forklift::channel
