// The base types of the queues in forklift.multiprocessing.queues: put and get, each one C call.
//
// Written against the plain C interface: these two calls are what a program pays for every message, and the
// Python classes inherit from these and from the standard library's, which nanobind's types cannot.
#pragma once

#include <Python.h>

#include "channel/channel.h"

namespace forklift::py {

int add_queue_types(PyObject* module);

// The channel behind a queue object; empty (with an exception set) if it is none or was never opened.
channel::ChannelPtr channel_of(PyObject* queue);

// Makes a channel that of a queue object. False with TypeError set if it is no queue.
bool adopt_channel(PyObject* queue, channel::ChannelPtr channel);

}  // namespace forklift::py
