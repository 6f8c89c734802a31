#include "watch/descriptor.h"

#include "watch/lookout.h"

namespace forklift::inline abi_0_1::watch {

Result<std::unique_ptr<Descriptor>> Descriptor::make(Watches& watches, sync::EventCount& event, Ready ready) {
  if (Status status = Lookout::keep(watches); !status) return status;
  Result<std::unique_ptr<Set>> set = Set::make(watches);
  if (!set) return set.status();
  if (Result<std::uint32_t> member = (*set)->add(event); !member) return member.status();
  std::unique_ptr<Descriptor> made(new Descriptor(*std::move(set), std::move(ready)));
  Result<int> fd = made->set_->descriptor();
  if (!fd) return fd.status();
  made->fd_ = *fd;
  made->settle();
  return made;
}

// Several threads may be here: each leaves the set armed or its descriptor readable, and looks after it has armed it.
void Descriptor::settle() noexcept {
  if (!mine() || ready_()) return;
  set_->take_marks([](std::uint32_t) {});
  if (set_->arm() && ready_()) set_->mark_again(0);
}

Result<int> DescriptorCell::get(Watches& watches, sync::EventCount& event, Descriptor::Ready ready) {
  Descriptor* seen = descriptor_.load(std::memory_order_acquire);
  if (seen != nullptr && seen->mine()) return seen->fd();
  Result<std::unique_ptr<Descriptor>> made = Descriptor::make(watches, event, std::move(ready));
  if (!made) return made.status();
  for (;;) {
    (*made)->inherited_.reset(seen);
    if (descriptor_.compare_exchange_strong(seen, made->get(), std::memory_order_acq_rel))
      return made->release()->fd();
    (void)(*made)->inherited_.release();
    if (seen != nullptr && seen->mine()) return seen->fd();
  }
}

}  // namespace forklift::inline abi_0_1::watch
