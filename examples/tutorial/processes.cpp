// processes: a registered function, started in every way; its errors.
#include <forklift/multiprocessing.h>

#include <cstdio>
#include <stdexcept>
#include <string>

void greet(int id, const std::string& name, forklift::Queue<std::string>& out) {
  if (name.empty()) throw std::invalid_argument("nobody to greet");
  out.put(std::to_string(id) + ": hello, " + name);
}
static const forklift::Registered<&greet> registered_greet{"greet"};

int main(int argc, char** argv) {
  forklift::init(argc, argv);  // in a fresh process: runs greet() and exits

  forklift::Queue<std::string> out;
  int id = 0;
  for (const char* method : {"fork", "spawn", "forkserver"}) {
    auto child = forklift::get_context(method).process(greet, ++id, std::string(method), out).start();
    std::printf("%s\n", out.get().c_str());
    child.join();
  }

  auto careless = forklift::spawn_context().process(greet, 0, std::string(), out);
  careless.set_name("careless").start();
  try {
    careless.join();
    return 1;
  } catch (const forklift::RemoteError& error) {
    std::printf("%s threw %s: %s\n", error.process().c_str(), error.type().c_str(), error.message().c_str());
  }

  auto sleeper = forklift::Process::fork([] { forklift::Event().wait(); }).start();
  sleeper.kill();
  sleeper.join();
  std::printf("killed: exit code %d\n", *sleeper.exitcode());
}
