// What a process and its zygote tell each other, over a pair of sequential-packet sockets. Both are the same
// program; what arrives is checked all the same.
//
//   request   magic, n, n descriptor numbers (4 bytes each), then "NAME=value" strings, each with its zero;
//             beside it n + 1 descriptors: "go", then those that the child gets under the numbers
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

namespace forklift::process {

struct Request {
  std::vector<std::int32_t> numbers;
  std::vector<std::string> variables;  // "NAME=value"
  std::vector<os::Fd> descriptors;     // as received; the first is "go"
};

struct Reply {
  std::int32_t pid = 0;      // of the child; otherwise why there is none:
  std::int32_t threads = 0;  // so many, where one is the most
  std::int32_t error = 0;    // errno of clone
};

// Ok: it is on its way. `descriptors` as described above.
Status send_request(int socket, const std::vector<std::int32_t>& numbers,
                    const std::vector<std::string>& variables, std::span<const int> descriptors);
// nullopt: the other end is closed. kCorrupt: that was no request (its descriptors are closed). kSystem.
Result<std::optional<Request>> receive_request(int socket);

}  // namespace forklift::process
