// What lies where in a control segment: the locks, queues and topics, by number or by the place of one of their events.
//
//   Target target = target_at(view, offset);              // what a thread waits for that sleeps on the event there
//   std::string text = text_of(view, target.object);      // `queue "frames"`
//
// Thread safety: any.
#pragma once

#include <string>
#include <vector>

#include "arena/tables.h"
#include "channel/tables.h"
#include "inspect/view.h"
#include "locks/tables.h"

namespace forklift::inline abi_0_1::inspect {

// What has to happen.
enum class Need : std::uint8_t {
  kUnknown,
  kLock,         // its holder releases it
  kReadersGone,  // a read-write lock's readers leave
  kUnit,         // a semaphore's unit is released
  kNotice,       // a condition is notified
  kSetting,      // an event is set
  kParties,      // a barrier's other parties come
  kCountDown,    // a latch reaches zero
  kOnce,         // the initialisation under way ends
  kMessage,      // something is put into a queue
  kRoom,         // something is taken out of it
  kAllDone,      // every message of it is marked done
  kNews,         // something is put into a topic
  kReaders,      // a topic's slow readers go on
  kEnd,          // a process ends
  kTask,         // a pool opens, or ends
  kRanks,        // other ranks come
  kContainer,    // a container's writer ends
};

struct Target {
  Need need = Need::kUnknown;
  arena::Object object{};  // of the domain; nothing for kEnd and the later ones
  pid_t process = 0;       // kEnd
};

// nullptr: there is no such row.
const locks::LockRow* lock_at(const View& view, const arena::Object& object) noexcept;
const channel::ChannelRow* channel_at(const View& view, const arena::Object& object) noexcept;
// What the program calls it; empty: nothing.
std::string label_of(const View& view, const arena::Object& object);
// "Lock", "Barrier".
const char* noun_of(locks::Kind kind) noexcept;
// `Lock "frames"`, `queue 7`.
std::string text_of(const View& view, const arena::Object& object);
// What has a block, if no process does: `a message in queue "frames"`.
std::string text_of(const View& view, const arena::Holder& holder);

// By the offset of an event in the segment. Need::kUnknown: there is none that is known.
Target target_at(const View& view, std::uint64_t offset);
// The events that a wait set, whose own event is there, watches.
std::vector<std::uint64_t> watched_by(const View& view, std::uint64_t offset);

}  // namespace forklift::inline abi_0_1::inspect
