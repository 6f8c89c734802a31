#include "memory_pool/open_pools.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace forklift::inline abi_0_1::memory_pool {
namespace {

// So many pools stay open without a piece. Their memory is their owners', who have it anyway.
constexpr std::size_t kMostIdle = 8;

}  // namespace

// Never destroyed: leases of static objects may outlive main.
Pools::Table::Locks& Pools::Table::locks() {
  static Locks* const instance = [] {
    static const auto before = [] {
      locks().opening.lock();
      locks().opened.lock();
    };
    static const auto after = [] {
      locks().opened.unlock();
      locks().opening.unlock();
    };
    ::pthread_atfork(before, after, [] {
      for (Pools* const pools : locks().all) pools->table_->inherit(*pools);
      after();
    });
    return new Locks;
  }();
  return *instance;
}

std::shared_ptr<Pools::Open> Pools::Table::find(PoolRef pool) {
  const std::lock_guard<std::mutex> lock(locks().opened);
  const auto known = open.find(pool);
  std::shared_ptr<Open> found = known == open.end() ? nullptr : known->second.lock();
  if (found) found->last_use = ++clock;
  return found;
}

std::shared_ptr<Pools::Open> Pools::Table::add(const std::shared_ptr<Table>& table, PoolRef pool, os::Fd file,
                                               Memory memory) {
  auto made = std::make_shared<Open>();
  made->pool = pool;
  made->file = std::move(file);
  made->memory = std::move(memory);
  const std::lock_guard<std::mutex> lock(locks().opened);
  made->table = table;
  made->last_use = ++table->clock;
  table->open[pool] = made;
  return made;
}

std::vector<std::shared_ptr<Pools::Open>> Pools::Table::list() {
  std::vector<std::shared_ptr<Open>> found;
  const std::lock_guard<std::mutex> lock(locks().opened);
  for (const auto& [pool, known] : open)
    if (std::shared_ptr<Open> one = known.lock()) found.push_back(std::move(one));
  return found;
}

void Pools::Table::keep(const std::shared_ptr<Open>& open) {
  const std::lock_guard<std::mutex> lock(locks().opened);
  kept.push_back(open);
}

std::vector<PoolRef> Pools::Table::idle() {
  std::vector<PoolRef> found;
  const std::lock_guard<std::mutex> lock(locks().opened);
  for (const std::shared_ptr<Open>& one : kept)
    if (is_idle(one)) found.push_back(one->pool);
  return found;
}

// A reference that somebody else takes meanwhile is found by find(), under the lock, or is a copy of one that counts already.
std::vector<std::shared_ptr<Pools::Open>> Pools::Table::take_idle(Idle which,
                                                                  const std::set<PoolRef>& ended) {
  std::vector<std::shared_ptr<Open>> taken;
  const std::lock_guard<std::mutex> lock(locks().opened);
  auto idle = static_cast<std::size_t>(std::count_if(kept.begin(), kept.end(), is_idle));
  // The longest unused first.
  std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a->last_use < b->last_use; });
  for (std::shared_ptr<Open>& one : kept) {
    if (!is_idle(one)) {
      one->was_idle = false;
      continue;
    }
    const bool rested = std::exchange(one->was_idle, true);
    const bool has_handle = !one->file.valid();
    if (which == Idle::kAll || idle > kMostIdle || ended.contains(one->pool) ||
        (which == Idle::kUnusedHandles && has_handle && rested)) {
      taken.push_back(std::move(one));
      --idle;
    }
  }
  std::erase(kept, nullptr);
  return taken;
}

Pools::Open::~Open() {
  if (!table) return;
  const std::lock_guard<std::mutex> lock(Table::locks().opened);
  const auto mine = table->open.find(pool);
  if (mine != table->open.end() && mine->second.expired()) table->open.erase(mine);
}

}  // namespace forklift::inline abi_0_1::memory_pool
