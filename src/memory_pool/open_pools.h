// The pools that a process has open, for memory_pool/pools.cpp.
//
// An opened pool is shared by the leases on its pieces. The table keeps it open when the last one has gone, since the next
// message often brings another piece of it, and to open a GPU's memory takes a hundred times as long as to receive it. What it
// keeps is let go of in turn: see Pools::Idle.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "memory_pool/pools.h"

namespace forklift::inline abi_0_1::memory_pool {

struct Pools::Open {
  PoolRef pool;
  os::Fd file;  // none in a child that has inherited the pool, and of memory that has a handle
  Memory memory;
  std::shared_ptr<Table> table;
  std::uint64_t last_use = 0;  // under the table's lock
  bool was_idle = false;       // at the last look
  ~Open();
};

// Process-private locks of all domains. A fork takes both, so that the child finds them free. Nothing of the arena
// is called inside of either.
struct Pools::Table {
  struct Locks {
    std::mutex opening;  // questions to brokers, and imports
    std::mutex opened;   // the tables, and the list of them
    std::set<Pools*> all;
  };
  static Locks& locks();

  // Null: it is not open.
  std::shared_ptr<Open> find(PoolRef pool);
  // Called with `opening`, so there is none.
  static std::shared_ptr<Open> add(const std::shared_ptr<Table>& table, PoolRef pool, os::Fd file,
                                   Memory memory);
  std::vector<std::shared_ptr<Open>> list();
  // Keeps it open when nobody uses it.
  void keep(const std::shared_ptr<Open>& open);
  // What is kept without being used.
  std::vector<PoolRef> idle();
  // What is kept no longer, for the caller to drop. `ended`: whose owner has ended or left them.
  std::vector<std::shared_ptr<Open>> take_idle(Idle which, const std::set<PoolRef>& ended);
  // In a forked child. A copy of a descriptor would keep the pool for as long as the child lives.
  void inherit(Pools& pools);

  std::map<PoolRef, std::weak_ptr<Open>> open;
  std::vector<std::shared_ptr<Open>> kept;
  std::uint64_t clock = 0;

 private:
  static bool is_idle(const std::shared_ptr<Open>& one) noexcept { return one.use_count() == 1; }
};

}  // namespace forklift::inline abi_0_1::memory_pool
