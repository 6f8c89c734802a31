// pipes: two connected ends, requests and replies; waiting on several things at once.
#include <forklift/multiprocessing.h>

#include <cstdio>
#include <string>
#include <utility>

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  auto pipe = forklift::make_pipe<int, std::string>();  // requests are ints, replies strings
  auto& here = pipe.first;
  auto server = forklift::Process::fork([&, end = std::move(pipe.second)]() mutable {
                  here.close();  // its copy of the other end, else the pipe has no end
                  for (const int request : end) end.put(std::string(static_cast<std::size_t>(request), '*'));
                }).start();

  for (int length : {3, 5}) {
    here.put(length);
    for (std::size_t ready : forklift::wait_any({forklift::Waitable(here), forklift::Waitable(server)}))
      std::printf("%s\n", ready == 0 ? here.get().c_str() : "the server has ended");
  }
  here.close();
  server.join();
}
