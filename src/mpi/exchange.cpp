#include "mpi/exchange.h"

#include <exception>
#include <utility>

namespace forklift::inline abi_0_1::mpi {
namespace {

constexpr std::chrono::milliseconds kIdle{20};  // a rank that hosts nothing looks so often

}  // namespace

Exchange::Exchange(JobCore& job)
    : job_(job),
      messenger_(job, [this](int from, NodeMessage packet) { came(from, std::move(packet)); }),
      host_(cpus_of(job.node(), job.ranks()),
            [this](NodeMessage packet) { messenger_.post(0, std::move(packet)); }) {}

std::shared_ptr<Exchange> Exchange::of(JobCore& job) {
  static std::mutex one;
  const std::lock_guard lock(one);
  if (!job.exchange) job.exchange = std::make_shared<Exchange>(job);
  return job.exchange;
}

void Exchange::serve() {
  const bool is_agent = job_.node().agent == job_.rank();
  try {
    while (!job_.has_left()) {
      if (is_agent) {
        messenger_.step();
      } else {
        std::this_thread::sleep_for(kIdle);
      }
    }
  } catch (const std::exception& error) {
    job_.abort(described(job_.me()) + " cannot exchange messages with the driver any more: " + error.what(),
               1);
  }
  end();
}

std::uint64_t Exchange::enter(Dealer& dealer) {
  const std::lock_guard lock(mutex_);
  dealers_.emplace(++pools_, &dealer);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  return pools_;
}

void Exchange::leave(std::uint64_t pool) {
  const std::lock_guard lock(mutex_);
  dealers_.erase(pool);
}

void Exchange::run() {
  try {
    while (!over_.load(std::memory_order_acquire)) {
      messenger_.step();
      const std::lock_guard lock(mutex_);
      for (const auto& [pool, dealer] : dealers_) dealer->deal();
    }
    while (messenger_.is_sending()) messenger_.step();
  } catch (const std::exception& error) {
    job_.abort("the driver cannot exchange messages with its agents any more: " + std::string(error.what()),
               1);
  }
}

void Exchange::came(int from, NodeMessage packet) {
  Reader reader(packet);
  const auto kind = reader.take<Kind>();
  const auto pool = reader.take<std::uint64_t>();
  if (kind < Kind::kBegun) return host_.came(std::move(packet));
  const std::lock_guard lock(mutex_);
  const auto at = dealers_.find(pool);
  if (at != dealers_.end()) at->second->came(from, kind, reader);
}

void Exchange::end() {
  host_.close();
  over_.store(true, std::memory_order_release);
  messenger_.wake();
  if (thread_.joinable()) thread_.join();
}

}  // namespace forklift::inline abi_0_1::mpi
