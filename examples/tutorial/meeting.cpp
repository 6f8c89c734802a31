// meeting: two programs of one user that did not start each other share a queue by a name.
#include <forklift/domain.h>
#include <forklift/multiprocessing.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

using forklift::Domain;
using forklift::JoinableQueue;
using forklift::Value;

// Either of them, whoever comes first.
JoinableQueue<Value> meet(const std::string& name) {
  static Domain domain = Domain::meet(name);
  return domain.open_or_create<JoinableQueue<Value>>("greetings");
}

int main(int argc, char** argv) {
  forklift::init(argc, argv);
  const std::string name = "tutorial-" + std::to_string(::getpid());

  // Two programs in one, for the sake of the tutorial: this fork knows nothing of Forklift yet.
  const pid_t other = ::fork();
  if (other == 0) {
    auto greetings = meet(name);
    greetings.put("hello from another program");
    greetings.join();  // what is shared lives as long as one of those who share it
    return 0;
  }
  JoinableQueue<Value> greetings = meet(name);
  const auto greeting = greetings.try_get(std::chrono::seconds(30));
  if (greeting) greetings.task_done();
  ::waitpid(other, nullptr, 0);
  if (!greeting) return 1;
  std::printf("%s\n", greeting->as<std::string>().c_str());
}
