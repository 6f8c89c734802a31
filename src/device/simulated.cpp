#include "device/simulated.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "os/fd.h"
#include "os/local_socket.h"

namespace forklift::inline abi_0_1::device {
namespace {

class Simulated final : public Device {
 public:
  Simulated(std::string name, os::Fd claim)
      : Device(std::move(name)), claim_(std::move(claim)), owner_(::getpid()) {}

  Status usable() const override {
    if (::getpid() == owner_) return {};
    return {Code::kBrokenByFork,
            name() + " belongs to process " + std::to_string(owner_) +
                ", from which this one was forked; copy tensors with to(\"CPU\") before the fork"};
  }

  Result<void*> allocate(std::size_t bytes) override {
    if (Status status = usable(); !status) return status;
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      return Status::system("mmap", errno, std::to_string(bytes) + " bytes of " + name());
    if (::madvise(memory, bytes, MADV_DONTFORK) != 0) {
      const int error = errno;
      ::munmap(memory, bytes);
      return Status::system("madvise", error, name());
    }
    return memory;
  }

  // In a child there is nothing at this address, or something of the child's own.
  void free(void* memory, std::size_t bytes) noexcept override {
    if (::getpid() == owner_) ::munmap(memory, bytes);
  }

  Status copy_in(void* to, const void* host, std::size_t bytes) override {
    std::memcpy(to, host, bytes);
    return {};
  }
  Status copy_out(void* host, const void* from, std::size_t bytes) override {
    std::memcpy(host, from, bytes);
    return {};
  }
  Status copy_within(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
    return {};
  }

  void disown() noexcept override { claim_.close(); }

 private:
  os::Fd claim_;
  const pid_t owner_;
};

// An abstract address: the kernel frees it with its last descriptor. Two users do not disturb each other.
std::string claim_of(const std::string& name) {
  return std::string(1, '\0') + "forklift-device-" + std::to_string(::geteuid()) + "-" + name.substr(0, 64);
}

std::string holder_of(const std::string& claim) {
  const Result<os::Fd> socket = os::connect_to(claim);
  const Result<os::Credentials> peer =
      socket ? os::peer_of(*socket) : Result<os::Credentials>(socket.status());
  return peer && peer->pid != 0 ? "process " + std::to_string(peer->pid) : "another process";
}

}  // namespace

std::vector<std::string> simulated_names() {
  std::vector<std::string> names;
  const char* const text = std::getenv("FORKLIFT_SIMULATE_DEVICE");
  if (text == nullptr) return names;
  std::string name;
  for (const char* at = text;; ++at) {
    if (*at != ',' && *at != '\0') {
      name += *at;
      continue;
    }
    if (!name.empty() && name != kCpu) names.push_back(std::exchange(name, {}));
    if (*at == '\0') return names;
  }
}

Result<std::shared_ptr<Device>> open_simulated(const std::string& name) {
  Result<os::Fd> claim = os::listen_at(claim_of(name));
  if (claim) return std::shared_ptr<Device>(std::make_shared<Simulated>(name, *std::move(claim)));
  if (claim.status().errno_value() != EADDRINUSE) return claim.status();
  return {Code::kRefused, name + " is held by " + holder_of(claim_of(name)) +
                              ", and one process can hold it at a time; compute on the CPU here "
                              "(set_context(device_target=\"CPU\"))"};
}

}  // namespace forklift::inline abi_0_1::device
