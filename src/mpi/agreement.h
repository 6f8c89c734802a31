// The frame around each call of TwoSteps: all ranks agree on what is called before anything is done, and a failure after
// that breaks the group. Included by the sources of TwoSteps alone.
#pragma once

#include "forklift/error.h"
#include "mpi/two_steps.h"

namespace forklift::inline abi_0_1::mpi {

template <class Work>
void TwoSteps::guarded(const Wait& wait, const Work& work) {
  const Wait begun = wait.begun();
  const std::lock_guard lock(mutex_);
  if (broken_) throw BrokenGroup({Code::kBroken, "this group was given up in an earlier call"});
  try {
    work(begun);
  } catch (const PeerDied& error) {
    broken_ = true;
    name_the_dead(error);
  } catch (const BrokenGroup& error) {
    broken_ = true;
    job_->doom("a collective of " + described(job_->me()) + " was given up: " + error.what());
    throw;
  }
}

}  // namespace forklift::inline abi_0_1::mpi
