// What is alive in this process: counting it, and ending it.
#include "contexts.h"
#include "devices.h"
#include "engine.h"
#include "events.h"
#include "fake_cuda.h"
#include "host_memory.h"
#include "modules.h"
#include "physical.h"
#include "space.h"
#include "virtual_memory.h"

namespace fake = forklift::device::cuda::fake;
using fake::Range;

FAKE_CUDA void fakeCudaLive(FakeCudaLive* live) {
  const fake::Lock lock(fake::process_mutex());
  *live = FakeCudaLive{};
  live->contexts = fake::contexts().retained();
  live->handles = fake::virtual_memory().handles();
  live->physical = fake::Physical::live();
  live->physical_bytes = fake::Physical::live_bytes();
  live->streams = fake::engine().streams();
  live->events = fake::events().live();
  live->modules = fake::modules().live();
  live->host_ranges = fake::host_memory().ranges();
  live->host_bytes = fake::host_memory().bytes();
  live->pending = fake::engine().pending();
  fake::space().each([&](const Range& range) {
    switch (range.kind) {
      case Range::Kind::kPlain:
        ++live->allocations;
        live->allocation_bytes += static_cast<long>(range.bytes);
        break;
      case Range::Kind::kReservation:
        ++live->reservations;
        live->mappings += static_cast<long>(range.pieces.size());
        break;
      case Range::Kind::kIpc: live->ipc_opened += range.opened; break;
    }
  });
}

FAKE_CUDA void fakeCudaReset() {
  fakeCudaPoison(0);
  fake::Lock lock(fake::process_mutex());
  for (int device = 0; device < fake::device_count(); ++device) {
    while (fake::contexts().active(device)) fake::contexts().release(device, lock);
  }
  fake::virtual_memory().end();
  fake::host_memory().end();
}
