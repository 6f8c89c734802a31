// What there is in a domain and how it is used, in numbers: for `forklift top` and for those who draw dashboards.
//
//   Survey survey = survey_of(View(domain));
//   for (const QueueLine& queue : survey.queues) ... queue.put - queue.got
//
// Totals count from an object's creation; who wants rates subtracts two surveys. Each number is read at a moment of its
// own, so that two of them may differ by what happened in between; where nothing happens they are exact.
//
// It costs what there is: rows of queues and locks that were ever used, leases, and a few files of /proc for each process.
// Nothing in the domain is stored, locked or asked.
//
// Thread safety: any.
#pragma once

#include <string>
#include <vector>

#include "inspect/holdings.h"
#include "inspect/snapshot.h"

namespace forklift::inline abi_0_1::inspect {

struct ProcessUse {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;
  std::string state;  // as in a Diagnosis
  bool service = false;
  double cpu_seconds = 0;       // of all its threads since it began
  std::uint64_t own_bytes = 0;  // resident, without files and shared memory
  std::uint64_t arena_bytes =
      0;  // committed in blocks that it holds; a block of several holders counts for each
  std::uint64_t blocks = 0;
  std::uint64_t old_bytes = 0;  // of that, in old blocks (BlockUse::held_seconds)
  std::string waits_for;        // its main thread, in words; empty: it works, or waits for nothing recorded
  double waits_seconds = 0;
};

struct QueueUse {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  std::string label;
  std::uint64_t length = 0;      // messages
  std::uint64_t capacity = 0;    // 0: no bound
  std::uint64_t put = 0;         // messages since its creation, modulo 2^30
  std::uint64_t got = 0;         // likewise
  std::uint64_t put_bytes = 0;   // modulo 2^64, of all messages: only differences count
  std::uint64_t unfinished = 0;  // put and not marked done, of a queue that counts that
  std::vector<pid_t> waiting_to_get;
  std::vector<pid_t> waiting_to_put;
  std::vector<pid_t> holders;  // who has a right to it
};

struct TopicUse {
  std::uint32_t index = 0;
  std::string label;
  std::uint64_t put = 0;  // messages since its creation
  std::uint64_t dropped = 0;
  std::vector<pid_t> waiting_to_get;
};

struct PoolUse {
  std::uint32_t tasks = 0;      // index of the queue of tasks
  pid_t owner = 0;              // 0: unknown
  std::uint64_t waiting = 0;    // tasks, or batches of tasks, that no worker has taken
  std::uint64_t submitted = 0;  // messages of tasks, modulo 2^30
  std::uint64_t deaths = 0;   // of workers, also by a task's time limit; not in good order or by terminate()
  std::uint64_t retries = 0;  // tasks that were sent again after their worker's death
  std::vector<pid_t> busy;    // workers
  std::vector<pid_t> idle;
};

struct LockUse {
  std::uint32_t index = 0;
  std::string kind;
  std::string label;
  pid_t owner = 0;          // 0: nobody, or it has none
  std::uint64_t value = 0;  // a semaphore's units, a barrier's parties inside, a latch's count
  std::vector<pid_t> waiting;
};

// A block of the arena that is in use.
struct BlockUse {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  std::uint64_t bytes = 0;  // committed
  std::string holder;       // a process's number, what else has it (`a message in queue 3`), `3 holders`
  pid_t process = 0;        // which alone holds it; 0: none does
  // For how long that process alone has been seen to hold it; a block that travels or is shared begins anew. From
  // kOldSeconds on it is old: kept for good reasons, or forgotten.
  double held_seconds = 0;
};
inline constexpr double kOldSeconds = 60;

struct ArenaUse {
  std::uint64_t reserved = 0;  // bytes of the data segment
  std::uint64_t budget = 0;    // 0: derived by each process from the machine's memory
  std::uint64_t committed = 0;
  std::uint64_t warm = 0;      // of that, free and kept
  std::uint64_t messages = 0;  // committed for messages
  std::uint64_t blocks = 0;    // in use
};

struct Survey {
  std::uint64_t domain = 0;
  std::int64_t now_ns = 0;  // CLOCK_MONOTONIC
  ArenaUse arena;
  std::vector<ProcessUse> processes;
  std::vector<QueueUse> queues;  // but those of pools
  std::vector<TopicUse> topics;
  std::vector<PoolUse> pools;
  std::vector<LockUse> locks;    // those that are held, or waited for
  std::vector<BlockUse> blocks;  // the largest ones, at most kMostBlocks, the largest first
};
inline constexpr std::size_t kMostBlocks = 10;

// Who holds what takes time where many processes have inherited many queues: QueueUse::holders is empty without.
enum class Holders : bool {
  kNone,
  kAll
};
// `before`: what earlier surveys of the domain saw, for BlockUse::held_seconds; without, each block is new.
Survey survey_of(const View& view, Holders holders = Holders::kAll, Holdings* before = nullptr);

}  // namespace forklift::inline abi_0_1::inspect
