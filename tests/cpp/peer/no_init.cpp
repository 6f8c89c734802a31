// A program that forgets forklift::init(), or calls it late: what it is told, and that nothing hangs.
//
//   forklift_no_init missing|late
#include <forklift/multiprocessing.h>

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace {

using namespace forklift;

bool wrong = false;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "wrong: %s\n", what.c_str());
  wrong = true;
}

// `call` throws an Error that says so.
void refused(const char* what, const std::function<void()>& call, std::string_view words) {
  try {
    call();
    expect(false, std::string(what) + " is not refused");
  } catch (const Error& error) {
    const std::string text = error.what();
    std::printf("%s: %s\n", what, text.c_str());
    expect(text.find(words) != std::string::npos, std::string(what) + " says: " + text);
  }
}

int answer(int x) { return x; }
const Registered<&answer> kAnswer{"no init answer"};

PoolOptions one_worker(const Context& context) {
  PoolOptions options;
  options.workers = 1;
  options.context = context;
  return options;
}

int exitcode_of(Process child) {
  child.join();
  return child.exitcode().value_or(-1000);
}

// Everything that needs no fresh process of this program.
void use_what_works() {
  Queue<int> numbers;
  numbers.put(3);
  expect(numbers.get() == 3, "a queue works");
  expect(exitcode_of(Process::fork([] { return 4; }).start()) == 4, "a forked child works");
  expect(exitcode_of(fork_context().process(answer, 5).start()) == 5, "a registered function, forked");
  Pool pool(one_worker(fork_context()));
  expect(pool.apply(answer, 6) == 6, "a pool of forked workers works");
  Manager manager;
  ManagedDict dict = manager.dict();
  dict.set("a", 7);
  expect(dict.at<int>("a") == 7, "a manager works");
}

void start_everything() {
  for (const Context& context : {spawn_context(), forkserver_context()}) {
    refused("Process", [&] { context.process(answer, 1).start(); }, "forklift::init(argc, argv)");
    refused("Pool", [&] { const Pool pool(one_worker(context)); }, "forklift::init(argc, argv)");
  }
  refused("spawn", [] { spawn(answer, 2); }, "forklift::init(argc, argv)");
  use_what_works();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "late") {
    const Queue<int> early;
    for (int i = 0; i < 2; ++i)
      refused("init", [&] { init(argc, argv); }, "forklift::init() was called late");
  }
  start_everything();
  return wrong ? 1 : 0;
}
