// forklift._core's functions that look at a domain from outside, and the records of waits that are made in Python.
#pragma once

#include <nanobind/nanobind.h>

#include "channel/channel.h"
#include "forklift/status.h"
#include "inspect/snapshot.h"
#include "topic/topic.h"

namespace forklift::py {

void bind_inspection(nanobind::module_& module);
void bind_survey(nanobind::module_& module);
void bind_recorder(nanobind::module_& module);
void bind_recording(nanobind::module_& module);

inline arena::Object object_of(const channel::Channel& channel) noexcept {
  return {arena::ObjectKind::kChannel, channel.id().index};
}
inline arena::Object object_of(const topic::Topic& topic) noexcept {
  return {arena::ObjectKind::kTopic, topic.id().index};
}

// Where the program asks for explanations and the status is that of a wait whose time is over: adds to the exception that is
// set who could have ended the wait, and what they do (BaseException.__notes__, which Python shows from 3.11 on).
void note_prospects(const Status& status, const inspect::Target& target);
// The same for an exception that is not set, of a wait that is known to have been over.
void note_prospects_on(nanobind::handle error, const inspect::Target& target);

}  // namespace forklift::py
