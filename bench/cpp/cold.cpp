// cpp-cold-write-64M: 64 MB of memory that nobody has used before are allocated and written. cpp-cold-read-64M: another process
// receives the block and reads it. Each measurement has a domain of its own, so that the memory is cold. "on request" is
// DomainOptions::huge_pages = true, which needs no setting of the machine; the floors are a bare memory file that is mapped
// and touched by both processes, and the same with MADV_HUGEPAGE, which counts where shmem_enabled is `advise`.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <optional>

#include "cpp/case.h"
#include "cpp/ours.h"
#include "os/mapping.h"
#include "os/memfd.h"

namespace bench {
namespace {

using forklift::arena::Kind;
using forklift::arena::LeasePtr;
using forklift::channel::Channel;
using forklift::channel::Incoming;
using forklift::os::Deadline;

constexpr std::size_t kBytes = std::size_t{64} << 20;

struct Times {
  double write_ms = 0;
  double read_ms = 0;
};

double since_ms(std::int64_t begin) { return static_cast<double>(now_ns() - begin) / 1e6; }

void read_all(const std::byte* memory) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < kBytes; at += 64) sum += static_cast<std::uint64_t>(memory[at]);
  if (sum != kBytes / 64) fail("the block arrived changed");
}

// write() in this process, then read() in a child that was forked before.
template <class Write, class Read>
Times timed(Write&& write, Read&& read) {
  struct Meeting {
    std::atomic<int> written{0};
    double read_ms = 0;
  };
  const Shared<Meeting> meeting;
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    while (meeting->written.load(std::memory_order_acquire) == 0) ::usleep(200);
    const std::int64_t begin = now_ns();
    read();
    meeting->read_ms = since_ms(begin);
    ::_exit(0);
  }
  Times times;
  const std::int64_t begin = now_ns();
  write(times);
  if (times.write_ms == 0) times.write_ms = since_ms(begin);
  meeting->written.store(1, std::memory_order_release);
  int status = 0;
  if (::waitpid(child, &status, 0) != child || status != 0) fail("the reader failed");
  times.read_ms = meeting->read_ms;
  return times;
}

Times ours(std::optional<bool> huge) {
  const auto own = must(forklift::node::Node::create({.huge_pages = huge}));
  const auto queue = must(Channel::create(own->channels(), {.capacity = 1}));
  return timed(
      [&](Times& times) {
        const std::int64_t begin = now_ns();
        std::array<LeasePtr, 1> block{must(own->arena().allocate(Kind::kShare, kBytes))};
        std::memset(block[0]->data(), 1, kBytes);
        times.write_ms = since_ms(begin);
        must(queue->put({.leases = block}, Deadline::never()));
      },
      [&] {
        Incoming message;
        must(queue->get(message, Deadline::never()));
        read_all(message.leases().front()->data());
        message.clear();
      });
}

Times bare(bool huge) {
  const auto file = must(forklift::os::create_memfd("bench-cold", kBytes));
  const auto map = [&] {
    auto memory = must(forklift::os::Mapping::shared(file, 0, kBytes));
    if (huge) (void)::madvise(memory.data(), kBytes, MADV_HUGEPAGE);
    return memory;
  };
  return timed([&](Times&) { std::memset(map().data(), 1, kBytes); },
               [&] {
                 const auto memory = map();
                 read_all(memory.data());
               });
}

double write_by_default(const Run&) { return ours(std::nullopt).write_ms; }
double read_by_default(const Run&) { return ours(std::nullopt).read_ms; }
double write_on_request(const Run&) { return ours(true).write_ms; }
double read_on_request(const Run&) { return ours(true).read_ms; }
double write_small(const Run&) { return ours(false).write_ms; }
double read_small(const Run&) { return ours(false).read_ms; }
double write_bare(const Run&) { return bare(false).write_ms; }
double read_bare(const Run&) { return bare(false).read_ms; }
double write_bare_huge(const Run&) { return bare(true).write_ms; }
double read_bare_huge(const Run&) { return bare(true).read_ms; }

const Contender write{"cpp-cold-write-64M", "forklift", Role::kOurs, "ms", write_by_default};
const Contender write2{"cpp-cold-write-64M", "huge pages on request", Role::kPart, "ms", write_on_request};
const Contender write3{"cpp-cold-write-64M", "small pages", Role::kPart, "ms", write_small};
const Contender write4{"cpp-cold-write-64M", "bare memfd", Role::kFloor, "ms", write_bare};
const Contender write5{"cpp-cold-write-64M", "bare memfd, MADV_HUGEPAGE", Role::kFloor, "ms",
                       write_bare_huge};
const Contender read{"cpp-cold-read-64M", "forklift", Role::kOurs, "ms", read_by_default};
const Contender read2{"cpp-cold-read-64M", "huge pages on request", Role::kPart, "ms", read_on_request};
const Contender read3{"cpp-cold-read-64M", "small pages", Role::kPart, "ms", read_small};
const Contender read4{"cpp-cold-read-64M", "bare memfd", Role::kFloor, "ms", read_bare};
const Contender read5{"cpp-cold-read-64M", "bare memfd, MADV_HUGEPAGE", Role::kFloor, "ms", read_bare_huge};

}  // namespace
}  // namespace bench
