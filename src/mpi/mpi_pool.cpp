#include "forklift/mpi/pool.h"

#include "api/pool_core.h"
#include "mpi/dispatcher.h"

namespace forklift::inline abi_0_1::mpi {

std::shared_ptr<forklift::detail::PoolCore> make_pool(Job& job, const PoolOptions& options,
                                                      const Prepare& prepare) {
  if (!job.is_driver())
    throw Error({Code::kInvalid,
                 "a pool is made by the driver, rank 0; this is rank " + std::to_string(job.rank()) +
                     ", which hosts workers: begin main with if (!job.is_driver()) return job.serve();"});
  auto engine = std::make_unique<Dispatcher>(job.core(), options, prepare);
  forklift::PoolOptions local;
  local.workers = engine->workers();
  auto core = std::make_shared<forklift::detail::PoolCore>(local, forklift::detail::PrepareCall());
  core->start(std::move(engine));
  return core;
}

std::vector<PoolNode> nodes_of(forklift::detail::PoolCore& pool) {
  return static_cast<Dispatcher&>(pool.engine()).nodes();
}

}  // namespace forklift::inline abi_0_1::mpi
