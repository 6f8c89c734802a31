// Everything that a program of several processes needs.
//
//   #include <forklift/multiprocessing.h>
//
//   int main(int argc, char** argv) {
//     forklift::init(argc, argv);
//     forklift::Queue<forklift::Tensor> queue;
//     auto child = forklift::Process::fork([&] {
//       auto image = *forklift::Tensor::zeros({480, 640}, forklift::DType::kFloat32);
//       queue.put(std::move(image));
//     }).start();
//     auto image = queue.get();        // the child's memory, not a copy
//     child.join();
//   }
//
// Thread and process safety, invariants: those of each header.
#pragma once

#include "forklift/barrier.h"
#include "forklift/broadcast.h"
#include "forklift/claim.h"
#include "forklift/collectives.h"
#include "forklift/condition.h"
#include "forklift/context.h"
#include "forklift/domain.h"
#include "forklift/error.h"
#include "forklift/event.h"
#include "forklift/fork_guard.h"
#include "forklift/frozen.h"
#include "forklift/group.h"
#include "forklift/init.h"
#include "forklift/joinable_queue.h"
#include "forklift/latch.h"
#include "forklift/latest.h"
#include "forklift/lock.h"
#include "forklift/manager.h"
#include "forklift/once.h"
#include "forklift/pipe.h"
#include "forklift/pool.h"
#include "forklift/process.h"
#include "forklift/queue.h"
#include "forklift/rw_lock.h"
#include "forklift/semaphore.h"
#include "forklift/shared_counter.h"
#include "forklift/shared_map.h"
#include "forklift/shared_value.h"
#include "forklift/shared_vector.h"
#include "forklift/simple_queue.h"
#include "forklift/spawn.h"
#include "forklift/tensor.h"
#include "forklift/this_process.h"
#include "forklift/value.h"
#include "forklift/version.h"
#include "forklift/wait.h"
#include "forklift/wait_any.h"
#include "forklift/wait_set.h"
