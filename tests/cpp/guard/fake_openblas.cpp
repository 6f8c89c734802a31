// A library whose file is called as OpenBLAS's are, with a thread of its own that computes until it is told to stop
// (rest_test.cpp). The thread begins in a function of this library, as OpenBLAS's do, not in one of std::thread's.
#include <pthread.h>

#include <atomic>

namespace {

std::atomic<bool> computes{false};
pthread_t server;

void* serve(void*) {
  while (computes) {
  }
  return nullptr;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] bool fake_openblas_begin() {
  computes = true;
  return ::pthread_create(&server, nullptr, serve, nullptr) == 0;
}

[[gnu::visibility("default")]] void fake_openblas_end() {
  if (computes.exchange(false)) ::pthread_join(server, nullptr);
}
}
