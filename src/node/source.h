// What can be waited for together with others (wait_any.h, wait_set.h).
#pragma once

#include "channel/pipe.h"
#include "locks/table.h"
#include "topic/topic.h"

namespace forklift::inline abi_0_1::node {

// One of the five.
struct Source {
  channel::Channel* channel = nullptr;  // has a message
  channel::PipeEnd* pipe = nullptr;     // has a message or is at its end
  int descriptor = -1;                  // is readable
  topic::Reader* reader = nullptr;      // has a message or is at its end
  locks::Object* lock = nullptr;        // can be acquired; an event: is set, or was since the look began
};

}  // namespace forklift::inline abi_0_1::node
