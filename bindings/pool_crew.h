// Worker processes of a Python pool: the engine's factory, which asks Python for a process object.
//
// The engine calls it in create() and in the thread that minds the workers, which the interpreter does not
// know: the interpreter lock is taken here, and nothing of the engine is locked meanwhile. Signals go through
// a descriptor of the process, so that they need no interpreter lock and never meet another process.
#pragma once

#include <Python.h>

#include "gil.h"
#include "process/pool_engine.h"

namespace forklift::py {

// What the pool's threads share with its Python side.
struct Crew {
  PyObject* python = nullptr;  // forklift.multiprocessing.pool_workers.Crew: start(), bury()
  PyObject* error = nullptr;   // what start() raised last; under the interpreter lock
  channel::ChannelPtr tasks;   // from the first worker on

  Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew();
  Result<std::unique_ptr<process::WorkerHandle>> start(const process::Seat& seat);
  // The crew for which this thread is running Python code just now, or nullptr.
  static const Crew* minding() noexcept;
};

}  // namespace forklift::py
