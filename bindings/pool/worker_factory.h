// Makes the worker processes of a Python pool: the engine's factory, which asks Python for process objects.
//
// The engine calls it in create() and in its supervisor thread, which Python did not start. The factory takes
// the interpreter lock itself, and the engine holds none of its locks meanwhile (decisions/0081). Signals go
// through a pidfd, so they need no interpreter lock and cannot hit another process that got the same pid.
#pragma once

#include <Python.h>

#include "bindings/core/gil.h"
#include "workers/engine.h"

namespace forklift::py {

// The state that the engine's threads share with the Python side of the pool.
struct WorkerFactory {
  PyObject* python = nullptr;  // forklift.multiprocessing._pool.workers.WorkerFactory: start(), wait()
  PyObject* error = nullptr;   // what start() raised last; guarded by the interpreter lock
  channel::ChannelPtr tasks;   // the channel of tasks; set when the first worker starts

  WorkerFactory() = default;
  WorkerFactory(const WorkerFactory&) = delete;
  WorkerFactory& operator=(const WorkerFactory&) = delete;
  ~WorkerFactory();
  Result<std::unique_ptr<workers::WorkerHandle>> start(const workers::WorkerSlot& worker_slot);
  // The factory for which this thread is running Python code at this moment, or nullptr.
  static const WorkerFactory* minding() noexcept;
};

}  // namespace forklift::py
