// The C++ end of bench/rows/cross.py: sends back what it gets, with the first element increased by one.
//
//   forklift_bench_echo            tensors, from the inherited queue "there" to "back", until one is empty
//   forklift_bench_echo BYTES      that many bytes at a time, from standard input to standard output, until
//                                  end-of-file
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "forklift/init.h"
#include "forklift/queue.h"

namespace {

void echo_tensors() {
  using forklift::Queue;
  using forklift::Tensor;
  auto there = Queue<Tensor>::inherited("there");
  auto back = Queue<Tensor>::inherited("back");
  for (;;) {
    Tensor tensor = there.get();
    if (tensor.numel() == 0) return;
    tensor.data<float>()[0] += 1;
    back.put(std::move(tensor));
  }
}

// Reads or writes all of `bytes`. False: end-of-file, or an error.
template <class Call>
bool all_of(std::vector<char>& bytes, Call&& call) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got = call(bytes.data() + done, bytes.size() - done);
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

void echo_bytes(std::size_t count) {
  std::vector<char> bytes(count);
  while (all_of(bytes, [](char* at, std::size_t left) { return ::read(STDIN_FILENO, at, left); })) {
    reinterpret_cast<float*>(bytes.data())[0] += 1;
    if (!all_of(bytes, [](const char* at, std::size_t left) { return ::write(STDOUT_FILENO, at, left); }))
      return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    forklift::init(argc, argv);
    if (argc > 1) {
      echo_bytes(std::strtoull(argv[1], nullptr, 10));
    } else {
      echo_tensors();
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "echo: %s\n", error.what());
    return 1;
  }
}
