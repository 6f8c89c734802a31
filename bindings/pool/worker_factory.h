// Worker processes of a Python pool: the engine's factory, which asks Python for a process object.
//
// The engine calls it in create() and in the thread that minds the workers, which the interpreter does not
// know: the interpreter lock is taken here, and nothing of the engine is locked meanwhile. Signals go through
// a descriptor of the process, so that they need no interpreter lock and never meet another process.
#pragma once

#include <Python.h>

#include "bindings/core/gil.h"
#include "workers/engine.h"

namespace forklift::py {

// What the pool's threads share with its Python side.
struct WorkerFactory {
  PyObject* python = nullptr;  // forklift.multiprocessing._pool.workers.WorkerFactory: start(), wait()
  PyObject* error = nullptr;   // what start() raised last; under the interpreter lock
  channel::ChannelPtr tasks;   // from the first worker on

  WorkerFactory() = default;
  WorkerFactory(const WorkerFactory&) = delete;
  WorkerFactory& operator=(const WorkerFactory&) = delete;
  ~WorkerFactory();
  Result<std::unique_ptr<workers::WorkerHandle>> start(const workers::WorkerSlot& worker_slot);
  // The worker factory for which this thread is running Python code just now, or nullptr.
  static const WorkerFactory* minding() noexcept;
};

}  // namespace forklift::py
