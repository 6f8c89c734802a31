// The base types of forklift.Broadcast, its subscriptions, and forklift.Latest.
#pragma once

#include <Python.h>

namespace forklift::py {

int add_topic_types(PyObject* module);

}  // namespace forklift::py
