// forklift._core.PoolCore, PoolJob, PoolFutures and PoolWorker: the pool engine (workers/engine.h) for Python's
// Pool and ProcessPoolExecutor.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_pool(nanobind::module_& module);

// Called by bind_pool; each is in a file of its own.
void bind_pool_job(nanobind::module_& module);
void bind_pool_futures(nanobind::module_& module);
void bind_pool_worker(nanobind::module_& module);

}  // namespace forklift::py
