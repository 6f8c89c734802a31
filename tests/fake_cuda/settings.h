// What the environment asks of the fake driver, read once, at the first call. README.md has the list.
//
//   if (settings().lazy) ...
//
// Thread safety: read-only after the first call.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace forklift::inline abi_0_1::device::cuda::fake {

struct Settings {
  int devices = 1;
  std::size_t bytes = std::size_t{8} << 30;  // of each device
  bool bytes_are_set = false;                // by the environment
  int version = 13000;
  bool no_peer = false;
  bool lazy = false;
  unsigned polls = 3;              // with lazy: which query of a stream or an event does its work; 0: none
  unsigned delay_us = 200;         // otherwise: how long work waits for its stream's thread
  std::string machine = "shared";  // processes with the same name share their devices' memory
  std::set<int> attributes_off;    // numbers of CUdevice_attribute that read as 0
  std::vector<int> visible;        // ordinal -> number of the device on the machine
};

const Settings& settings();

// The 16 bytes of a device's UUID, the same in every process.
std::string uuid_bytes(int device);

}  // namespace forklift::inline abi_0_1::device::cuda::fake
