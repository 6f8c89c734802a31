// forklift._core's functions that look at a domain from outside, and the records of waits that are made in Python.
#pragma once

#include <nanobind/nanobind.h>

#include "forklift/status.h"
#include "inspect/snapshot.h"

namespace forklift::py {

void bind_inspection(nanobind::module_& module);
void bind_survey(nanobind::module_& module);
void bind_recorder(nanobind::module_& module);
void bind_recording(nanobind::module_& module);

// Where the program asks for explanations and the status is that of a wait whose time is over: adds to the exception that is
// set who could have ended the wait, and what they do (BaseException.__notes__, which Python shows from 3.11 on).
void note_prospects(const Status& status, const inspect::Target& target);

}  // namespace forklift::py
