// forklift._core._segments: named segments for Python.
//
//   block = _segments.create(1 << 20)     # a Block of mode shared, in a file with a name
//   _segments.name(block)                 # "/forklift-2f...-1000000"
//
// A Block over a segment is sent, offered and dropped like one over a block of the arena, and has the buffer
// protocol and an address. C++ code that needs the lease itself calls Segments::create (segment/segments.h) and
// uses it where it would use a block's.
//
// All functions must be called with the interpreter lock held.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

// Adds the submodule when the module is imported.
void bind_segments(nanobind::module_& module);

}  // namespace forklift::py
