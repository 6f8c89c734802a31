// cpp-handle-1M: blocks of 1 MB are allocated, sent, received and released, and no byte is copied; the time
// of one block. cpp-loan-1M: the same for a struct of 1 MB that is lent. cpp-lease: one more lease on a block and its release; beside it, a lease that is entered in
// the ledger as for a message. cpp-alloc: a block of 1 MB allocated and freed.
#include <array>
#include <atomic>

#include "cpp/case.h"
#include "cpp/iceoryx.h"
#include "cpp/ours.h"
#include "cpp/peers.h"
#include "forklift/tensor.h"

#if FORKLIFT_BENCH_BOOST
#include <boost/interprocess/managed_external_buffer.hpp>
#include <boost/interprocess/mem_algo/rbtree_best_fit.hpp>
#include <boost/interprocess/sync/mutex_family.hpp>
#endif

namespace bench {
namespace {

using forklift::arena::Kind;
using forklift::arena::LeasePtr;
using forklift::channel::Incoming;
using forklift::os::Deadline;

constexpr std::size_t kMega = 1024 * 1024;
constexpr std::uint32_t kUnderWay = 64;

template <class Operation>
double each_ns(std::size_t count, Operation&& operation) {
  for (std::size_t i = 0; i < count / 10 + 1; ++i) operation();
  const std::int64_t begin = now_ns();
  for (std::size_t i = 0; i < count; ++i) operation();
  return static_cast<double>(now_ns() - begin) / static_cast<double>(count);
}

// --- cpp-handle-1M

template <class Send, class Receive>
double handles_ns(const Run& run, Send&& send, Receive&& receive) {
  const std::size_t count = run.count(500'000);
  const std::size_t warm = count / 10 + 1;
  return race({{.warm_up = [&] { send(warm); }, .work = [&] { send(count); }},
               {.warm_up = [&] { receive(warm); }, .work = [&] { receive(count); }}},
              run.pin) /
         static_cast<double>(count);
}

double tensor_handle(const Run& run) {
  forklift::Queue<forklift::Tensor> queue({.capacity = kUnderWay});
  return handles_ns(
      run,
      [&](std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
          queue.put(forklift::Tensor::empty({kMega / 4}, forklift::DType::kFloat32));
      },
      [&](std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) keep(queue.get().raw());
      });
}

struct Megabyte {
  std::uint64_t number;
  std::byte rest[kMega - sizeof(std::uint64_t)];
};

double lent_struct(const Run& run) {
  forklift::Queue<Megabyte> queue({.capacity = kUnderWay});
  return handles_ns(
      run,
      [&](std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
          auto loan = queue.loan();
          loan->number = i;
          loan.publish();
        }
      },
      [&](std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) keep(queue.get_loaned()->number);
      });
}

double lease_handle(const Run& run) {
  OurChannel queue(kUnderWay);
  return handles_ns(
      run,
      [&](std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
          std::array<LeasePtr, 1> block{must(node().arena().allocate(Kind::kShare, kMega))};
          must(queue.channel().put({.leases = block}, Deadline::never()));
        }
      },
      [&](std::size_t count) {
        Incoming message;
        for (std::size_t i = 0; i < count; ++i) {
          must(queue.channel().get(message, Deadline::never()));
          if (message.leases().size() != 1) fail("a message without its block");
          message.clear();
        }
      });
}

// The least that a handle costs: its 32 bytes through a ring, in a block that is never given back.
double ring_handle(const Run& run) {
  using Ring = SpscRing<32, 64>;
  Shared<Ring> ring;
  const std::size_t count = run.count(5'000'000);
  const auto send = [&](std::size_t times) {
    std::array<std::byte, 32> handle{};
    for (std::size_t i = 0; i < times; ++i) ring->send(handle);
  };
  const auto receive = [&](std::size_t times) {
    std::array<std::byte, 32> handle{};
    for (std::size_t i = 0; i < times; ++i) ring->receive(handle);
  };
  return race({{.warm_up = [&] { send(1000); }, .work = [&] { send(count); }},
               {.warm_up = [&] { receive(1000); }, .work = [&] { receive(count); }}},
              run.pin) /
         static_cast<double>(count);
}

#if FORKLIFT_BENCH_ICEORYX
double iceoryx_handle(const Run& run) {
  IceoryxQueue queue(kMega, kUnderWay);
  const std::size_t count = run.count(200'000);
  const auto send = [&](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) queue.send_handle();
  };
  const auto receive = [&](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) queue.receive_handle();
  };
  const std::function<void()> finish = leaving(queue);
  return race({{.warm_up = [&] { send(1000); }, .work = [&] { send(count); }, .finish = finish},
               {.warm_up = [&] { receive(1000); }, .work = [&] { receive(count); }, .finish = finish}},
              run.pin) /
         static_cast<double>(count);
}

const Contender handle_iceoryx{"cpp-handle-1M", "iceoryx", Role::kPeer, "ns", iceoryx_handle};
#endif

const Contender handle{"cpp-handle-1M", "forklift", Role::kOurs, "ns", tensor_handle};
const Contender loan{"cpp-loan-1M", "forklift", Role::kOurs, "ns", lent_struct};
const Contender loan_handle{"cpp-loan-1M", "a tensor's handle", Role::kFloor, "ns", tensor_handle};
const Contender handle_lease{"cpp-handle-1M", "channel and lease", Role::kPart, "ns", lease_handle};
const Contender handle_floor{"cpp-handle-1M", "SPSC ring of handles", Role::kFloor, "ns", ring_handle};

// --- cpp-lease

double ours_lease(const Run& run) {
  const LeasePtr block = must(node().arena().allocate(Kind::kShare, kMega));
  return each_ns(run.count(5'000'000), [&] { must(node().arena().another(block)); });
}

// A lease that is to be passed on: it has a row of its own in the ledger that all processes share.
double entered_lease(const Run& run) {
  const LeasePtr block = must(node().arena().allocate(Kind::kShare, kMega));
  return each_ns(run.count(5'000'000), [&] {
    const LeasePtr more = must(node().arena().another(block));
    must(node().arena().separate(more));
  });
}

double atomic_pair(const Run& run) {
  Shared<std::atomic<std::uint64_t>> count(std::uint64_t{1});
  return each_ns(run.count(50'000'000), [&] {
    count->fetch_add(1, std::memory_order_relaxed);
    count->fetch_sub(1, std::memory_order_acq_rel);
  });
}

double robust_pair(const Run& run) {
  Shared<RobustLock> lock;
  return each_ns(run.count(10'000'000), [&] {
    lock->lock();
    lock->unlock();
    lock->lock();
    lock->unlock();
  });
}

const Contender lease{"cpp-lease", "forklift", Role::kOurs, "ns", ours_lease};
const Contender lease_entered{"cpp-lease", "with a row of its own", Role::kPart, "ns", entered_lease};
const Contender lease_atomic{"cpp-lease", "atomic pair (cannot be repaired)", Role::kFloor, "ns",
                             atomic_pair};
const Contender lease_robust{"cpp-lease", "two passes of a robust mutex", Role::kFloor, "ns", robust_pair};

// --- cpp-alloc

double ours_alloc(const Run& run) {
  return each_ns(run.count(5'000'000), [&] { must(node().arena().allocate(Kind::kShare, kMega)); });
}

const Contender alloc{"cpp-alloc", "forklift", Role::kOurs, "ns", ours_alloc};
const Contender alloc_floor{"cpp-alloc", "two passes of a robust mutex", Role::kFloor, "ns", robust_pair};

#if FORKLIFT_BENCH_BOOST
namespace ipc = boost::interprocess;

double boost_alloc(const Run& run) {
  using Heap =
      ipc::basic_managed_external_buffer<char, ipc::rbtree_best_fit<ipc::mutex_family>, ipc::iset_index>;
  constexpr std::size_t kHeapBytes = 16 * kMega;
  void* memory = map_shared(kHeapBytes);
  double ns = 0;
  {
    Heap heap(ipc::create_only, memory, kHeapBytes);
    ns = each_ns(run.count(5'000'000), [&] {
      void* block = heap.allocate_aligned(kMega, 64);
      keep(block);
      heap.deallocate(block);
    });
  }
  unmap_shared(memory, kHeapBytes);
  return ns;
}

const Contender alloc_boost{"cpp-alloc", "boost managed memory", Role::kPeer, "ns", boost_alloc};
#endif

}  // namespace
}  // namespace bench
