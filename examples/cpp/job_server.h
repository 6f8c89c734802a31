// The jobs of job_server.cpp and what goes wrong with some of them; and what the alternative is called.
#pragma once

#include <csignal>
#include <cstdint>
#include <stdexcept>

struct Job {
  std::int64_t number;
};

// What a job computes.
inline std::int64_t answer_to(const Job& job) {
  std::uint64_t x = static_cast<std::uint64_t>(job.number) + 1;
  for (int i = 0; i < 2000; ++i) x = x * 6364136223846793005U + 1442695040888963407U;
  return static_cast<std::int64_t>(x >> 1) | 1;  // not 0
}

// Every fiftieth job ends its worker where it is tried for the first time, and every hundredth fails each time.
inline bool crashes(const Job& job) { return job.number % 50 == 7; }
inline bool fails(const Job& job) { return job.number % 100 == 93; }

inline std::int64_t work(const Job& job, std::uint32_t tries, bool with_accidents) {
  if (with_accidents && crashes(job) && tries == 1) std::raise(SIGKILL);
  if (with_accidents && fails(job)) throw std::runtime_error("this job always fails");
  return answer_to(job);
}

// job_server_alternative.cpp: a socket pair, from whose other end the workers read. How many jobs were done.
std::int64_t with_sockets(std::int64_t jobs, int workers, bool with_accidents);
