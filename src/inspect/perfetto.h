// Writes a recording as a trace of Perfetto: for ui.perfetto.dev and trace_processor.
//
//   Status written = write_perfetto(recording, "program.pftrace");
//
// The file is a stream of packets of Perfetto's public format (TracePacket). Each thread has a track of slices, and flows lead
// from each put to the get that took it. Queues' lengths, memory in use and the program's counters are counter tracks.
//
// The packets go out in buffers of 256 KiB. Beside them it needs a Timeline and the lengths of the queues: some three times
// the memory of the recording's events.
//
// Thread safety: any. Errors: kSystem with what open or write said.
#pragma once

#include <string>

#include "forklift/status.h"
#include "inspect/timeline.h"

namespace forklift::inline abi_0_1::inspect {

// Into a new file, or in the place of what is in it.
Status write_perfetto(const Recording& recording, const std::string& path);
// To an open descriptor: a file, a pipe or a socket. It stays open.
Status write_perfetto(const Timeline& timeline, int fd);

}  // namespace forklift::inline abi_0_1::inspect
