// Clang's thread safety analysis has nothing to say here.
#include "forklift/lock.h"
#include "forklift/rw_lock.h"
#include "forklift/thread_safety.h"

namespace {

class Journal {
 public:
  void enter() {
    const forklift::ScopedLock guard(lock_);
    enter_locked();
  }
  bool enter_soon() {
    if (!lock_.try_lock()) return false;
    enter_locked();
    lock_.unlock();
    return true;
  }
  int price() {
    const forklift::SharedScopedLock guard(prices_lock_);
    return price_;
  }
  void set_price(int price) {
    const forklift::ScopedLock guard(prices_lock_);
    price_ = price;
  }

 private:
  void enter_locked() FORKLIFT_REQUIRES(lock_) { ++entries_; }
  forklift::Lock lock_;
  int entries_ FORKLIFT_GUARDED_BY(lock_) = 0;
  forklift::RWLock prices_lock_;
  int price_ FORKLIFT_GUARDED_BY(prices_lock_) = 0;
};

}  // namespace

int main() {
  Journal journal;
  journal.enter();
  journal.set_price(journal.enter_soon() ? 1 : 0);
  return journal.price();
}
