// An agent's side of pools: for each pool of the driver, the pool of this machine with workers of this node.
//
//   Host host(cpus, [&](NodeMessage packet) { messenger.post(driver, std::move(packet)); });
//   host.came(std::move(packet));              // never waits
//   host.close();                              // ends all pools, and waits for it
//
// What the driver asks of a pool is done in the pool's lane, a thread of its own: starting workers, and handing tasks to
// them, must not keep the thread that exchanges messages. A second thread waits for the workers' answers.
//
// Thread safety: came() and close() in one thread. The sink is called in several.
#pragma once

#include <sched.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "mpi/node_message.h"

namespace forklift::inline abi_0_1::mpi {

class Hosted;

class Host {
 public:
  using Sink = std::function<void(NodeMessage packet)>;
  Host(const cpu_set_t& cpus, Sink sink);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void came(NodeMessage packet);
  void close();

 private:
  const cpu_set_t cpus_;  // that workers may use
  const Sink sink_;
  std::map<std::uint64_t, std::unique_ptr<Hosted>> pools_;
};

}  // namespace forklift::inline abi_0_1::mpi
