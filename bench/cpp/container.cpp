// map-read: one read of a random element of a map of 100,000, by each of two processes at once; map-read-write: the
// same beside a third process that changes elements. rw-lock-read: one shared lock and unlock, by each of two
// processes. Beside ours: Boost's unordered map in shared memory under its sharable mutex, and the C library's
// read-write lock, neither of which survives the death of a process; a map that only its process has, without a
// lock; and the two loads that a read waits for.
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <unordered_map>

#include "cpp/case.h"
#include "cpp/workers.h"
#include "forklift/rw_lock.h"
#include "forklift/shared_map.h"

#if FORKLIFT_BENCH_BOOST
#include <boost/interprocess/allocators/allocator.hpp>
#include <boost/interprocess/managed_external_buffer.hpp>
#include <boost/interprocess/sync/interprocess_sharable_mutex.hpp>
#include <boost/interprocess/sync/sharable_lock.hpp>
#include <boost/unordered_map.hpp>
#endif

namespace bench {
namespace {

constexpr std::uint64_t kElements = 100'000;

struct Price {
  std::uint64_t parts[4] = {};
};

std::uint64_t next_key(std::uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return (state >> 33) % kElements;
}

void check(const Price& price, std::uint64_t key) {
  if (price.parts[0] != key) fail("an element that is not the key's");
}

class OurMap {
 public:
  OurMap() : map_(kElements) {
    for (std::uint64_t key = 0; key < kElements; ++key) map_.insert(key, Price{{key}});
  }
  void read(std::uint64_t key) { check(map_.at(key), key); }
  void write(std::uint64_t key, std::uint64_t number) { map_.insert_or_assign(key, Price{{key, number}}); }

 private:
  forklift::SharedMap<std::uint64_t, Price> map_;
};

class PrivateMap {
 public:
  PrivateMap() {
    for (std::uint64_t key = 0; key < kElements; ++key) map_.emplace(key, Price{{key}});
  }
  void read(std::uint64_t key) { check(map_.at(key), key); }

 private:
  std::unordered_map<std::uint64_t, Price> map_;
};

// What one read of such a map waits for, and nothing else: a bucket, and the element that it names. Each read waits for the
// one before it.
class TwoLoads {
  static constexpr std::uint64_t kBuckets = 1 << 17;
  struct Element {
    std::uint64_t next = 0;
    std::uint64_t key = 0;
    Price price;
  };
  struct Table {
    std::uint64_t buckets[kBuckets] = {};
    Element elements[kElements];
  };

 public:
  TwoLoads() {
    for (std::uint64_t key = 0; key < kElements; ++key) {
      table_->buckets[bucket_of(key)] = key;
      table_->elements[key].key = key;
    }
  }
  void read(std::uint64_t key) {
    const Element& element = table_->elements[table_->buckets[bucket_of(key) + before_]];
    before_ = element.next;  // always 0, which the processor learns from the element
    keep(element.key);
  }

 private:
  // Another one for each key, so that a read may want any element.
  static std::uint64_t bucket_of(std::uint64_t key) { return key * 0x9e3779b97f4a7c15U % kBuckets; }
  Shared<Table> table_;
  std::uint64_t before_ = 0;
};

#if FORKLIFT_BENCH_BOOST
namespace ipc = boost::interprocess;

class BoostMap {
  using Memory = ipc::managed_external_buffer;
  using Element = std::pair<const std::uint64_t, Price>;
  using Allocator = ipc::allocator<Element, Memory::segment_manager>;
  using Map =
      boost::unordered_map<std::uint64_t, Price, boost::hash<std::uint64_t>, std::equal_to<>, Allocator>;
  static constexpr std::size_t kBytes = std::size_t{64} << 20;

 public:
  BoostMap()
      : address_(map_shared(kBytes)),
        memory_(ipc::create_only, address_, kBytes),
        mutex_(memory_.construct<ipc::interprocess_sharable_mutex>("mutex")()),
        map_(memory_.construct<Map>("map")(kElements, boost::hash<std::uint64_t>(), std::equal_to<>(),
                                           Allocator(memory_.get_segment_manager()))) {
    for (std::uint64_t key = 0; key < kElements; ++key) map_->emplace(key, Price{{key}});
  }
  BoostMap(const BoostMap&) = delete;
  BoostMap& operator=(const BoostMap&) = delete;
  ~BoostMap() { unmap_shared(address_, kBytes); }
  void read(std::uint64_t key) {
    const ipc::sharable_lock<ipc::interprocess_sharable_mutex> guard(*mutex_);
    check(map_->at(key), key);
  }
  void write(std::uint64_t key, std::uint64_t number) {
    const ipc::scoped_lock<ipc::interprocess_sharable_mutex> guard(*mutex_);
    map_->at(key) = Price{{key, number}};
  }

 private:
  void* address_;
  Memory memory_;
  ipc::interprocess_sharable_mutex* mutex_;
  Map* map_;
};
#endif

template <class Map>
Worker reader(Map& map, std::size_t count, std::uint64_t seed) {
  const auto read = [&map, seed](std::size_t times) {
    std::uint64_t state = seed;
    for (std::size_t i = 0; i < times; ++i) map.read(next_key(state));
  };
  return {.warm_up = [=] { read(count / 10 + 1); }, .work = [=] { read(count); }};
}

template <class Map>
double read_ns(const Run& run) {
  Map map;
  const std::size_t count = run.count(5'000'000);
  return race({reader(map, count, 1), reader(map, count, 2)}, run.pin) / static_cast<double>(count);
}

// A process changes elements until the one that reads, on another processor, is done.
template <class Map>
double read_beside_writer_ns(const Run& run) {
  Map map;
  Shared<std::atomic<bool>> done(false);
  const std::size_t count = run.count(2'000'000);
  Worker reads = reader(map, count, 1);
  Worker timed{.warm_up = reads.warm_up, .work = [&, work = reads.work] { work(), (*done).store(true); }};
  Worker writes{.warm_up = [] {},
                .work =
                    [&] {
                      std::uint64_t state = 3;
                      while (!(*done).load(std::memory_order_relaxed)) {
                        const std::uint64_t key = next_key(state);
                        map.write(key, state);
                      }
                    }};
  return race({timed, writes}, run.pin) / static_cast<double>(count);
}

class PthreadReadWrite {
 public:
  PthreadReadWrite() : lock_(static_cast<pthread_rwlock_t*>(map_shared(sizeof(pthread_rwlock_t)))) {
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_rwlock_init(lock_, &attributes);
    pthread_rwlockattr_destroy(&attributes);
  }
  PthreadReadWrite(const PthreadReadWrite&) = delete;
  PthreadReadWrite& operator=(const PthreadReadWrite&) = delete;
  ~PthreadReadWrite() { unmap_shared(lock_, sizeof(pthread_rwlock_t)); }
  void lock_shared() { pthread_rwlock_rdlock(lock_); }
  void unlock_shared() { pthread_rwlock_unlock(lock_); }

 private:
  pthread_rwlock_t* lock_;
};

template <class Lock>
double shared_ns(const Run& run) {
  Lock lock;
  const std::size_t count = run.count(5'000'000);
  const auto turns = [&lock](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) {
      lock.lock_shared();
      lock.unlock_shared();
    }
  };
  const Worker worker{.warm_up = [=] { turns(count / 10 + 1); }, .work = [=] { turns(count); }};
  return race({worker, worker}, run.pin) / static_cast<double>(count);
}

const Contender read_ours{"map-read", "forklift", Role::kOurs, "ns", read_ns<OurMap>};
const Contender read_floor{"map-read", "unordered_map, no lock", Role::kFloor, "ns", read_ns<PrivateMap>};
const Contender read_loads{"map-read", "two dependent loads", Role::kFloor, "ns", read_ns<TwoLoads>};
const Contender beside_ours{"map-read-write", "forklift", Role::kOurs, "ns", read_beside_writer_ns<OurMap>};
#if FORKLIFT_BENCH_BOOST
const Contender read_boost{"map-read", "Boost", Role::kPeer, "ns", read_ns<BoostMap>};
const Contender beside_boost{"map-read-write", "Boost", Role::kPeer, "ns", read_beside_writer_ns<BoostMap>};
#endif
const Contender rw_ours{"rw-lock-read", "forklift", Role::kOurs, "ns", shared_ns<forklift::RWLock>};
const Contender rw_peer{"rw-lock-read", "pthread_rwlock", Role::kPeer, "ns", shared_ns<PthreadReadWrite>};

}  // namespace
}  // namespace bench
