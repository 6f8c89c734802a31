// forklift._core's functions that look at a domain from outside, and the records of waits that are made in Python.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

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
// Who could end a wait for `target`, and what they do: for a note. Needs no interpreter lock; empty where nothing is explained.
std::string prospects_of(const inspect::Target& target) noexcept;
// Adds a note that prospects_of() made to an exception that is not set.
void note_on(nanobind::handle error, const std::string& prospects);

}  // namespace forklift::py
