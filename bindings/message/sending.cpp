#include "bindings/message/sending.h"

#include "bindings/core/stats.h"

namespace forklift::py {

Status Sending::make_leases() {
  if (Status allocated = writer_.allocate(arena_); !allocated) return allocated;
  if (Status copied = writer_.copy(); !copied) return copied;
  return writer_.moves.empty() ? Status() : settle();
}

void Sending::count() const noexcept {
  count_block_bytes(writer_.message.copied_bytes());
  count_shared_bytes(writer_.message.shared_bytes());
}

// Before anybody can receive the message: what the program writes from now on is written to the shared
// memory.
Status Sending::settle() {
  released_.acquire();
  writer_.settle();
  released_.release();
  return writer_.allocate(arena_);
}

}  // namespace forklift::py
