// The messages between a process and its zygote, over a pair of sequential-packet sockets. Both run the same
// program; each checks what it receives all the same.
//
//   request   magic, n, n descriptor numbers (4 bytes each), then "NAME=value" strings, each with its zero;
//             with it come n + 1 descriptors: "go", then those that the child gets under the numbers
//   reply     Reply
//   go        child to parent: its pid; parent to child: one byte
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "os/fd.h"

namespace forklift::inline abi_0_1::process {

struct Request {
  std::vector<std::int32_t> numbers;
  std::vector<std::string> variables;  // "NAME=value"
  std::vector<os::Fd> descriptors;     // as received; the first is "go"
};

struct Reply {
  std::int32_t pid = 0;      // of the child; if there is none, the next two say why:
  std::int32_t threads = 0;  // of the zygote, which may have only one
  std::int32_t error = 0;    // errno of clone
};

// Ok: the request was sent. `descriptors` as described above.
Status send_request(int socket, const std::vector<std::int32_t>& numbers,
                    const std::vector<std::string>& variables, std::span<const int> descriptors);
// nullopt: the other end is closed. kCorrupt: the message was no request (its descriptors are closed).
// kSystem.
Result<std::optional<Request>> receive_request(int socket);

}  // namespace forklift::inline abi_0_1::process
