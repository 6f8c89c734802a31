#include "forklift/mpi/job.h"

#include <exception>
#include <new>

#include "forklift/error.h"
#include "mpi/exchange.h"
#include "mpi/job_core.h"

namespace forklift::inline abi_0_1::mpi {

Job::Job(int argc, char** argv) {
  init(argc, argv);
  core_ = std::make_shared<JobCore>(argc, argv);
}

Job::~Job() {
  // Those that come through here while it is thrown cannot be told from those that were there before: a Job that is
  // made while something is thrown would be a surprise in itself.
  if (std::uncaught_exceptions() > 0) core_->doom(described(core_->me()) + " was left by an exception");
  if (!core_->is_doomed()) {
    try {
      if (core_->exchange) core_->exchange->end();
      core_->end();
      return;
    } catch (const std::exception& error) {
      core_->abort("the job cannot be ended by " + described(core_->me()) + ": " + error.what(), 1);
    }
  }
  // The rank's signs of life, and the abort at its exit, need it.
  (void)new (std::nothrow) std::shared_ptr<JobCore>(core_);
}

int Job::serve() {
  if (is_driver())
    throw Error({Code::kInvalid, "serve() is for ranks that are not the driver; rank 0 runs the program"});
  Exchange::of(*core_)->serve();
  return 0;
}

int Job::rank() const noexcept { return core_->rank(); }
int Job::size() const noexcept { return core_->size(); }
const std::vector<Node>& Job::nodes() const noexcept { return core_->nodes(); }
std::unique_lock<std::mutex> Job::serialized() { return core_->serialized(); }
void Job::abort(const std::string& why, int status) { core_->abort(why, status); }

}  // namespace forklift::inline abi_0_1::mpi
