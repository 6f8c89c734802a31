// services: requests and responses between programs, under a name.
#include <forklift/multiprocessing.h>
#include <forklift/service.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using std::chrono::seconds;
using Average = forklift::Service<std::vector<double>, double>;
using Countdown = forklift::Service<int, int>;

int main(int argc, char** argv) {
  forklift::init(argc, argv);
  auto domain =
      forklift::Domain::own();  // or serve(), attach(), meet(): programs that did not start each other

  // Two servers of one name: each request goes to one of them.
  auto serve = [&domain] {
    auto server = Average::serve(domain, "average");
    server.run([](const std::vector<double>& x) {
      if (x.empty()) throw std::invalid_argument("the average of nothing");
      return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
    });
  };
  auto first = forklift::Process::fork(serve).start();
  auto second = forklift::Process::fork(serve).start();
  auto counter = forklift::Process::fork([&domain] {
                   auto server = Countdown::serve(domain, "countdown");
                   for (;;) {  // by hand: several responses to a request
                     auto call = server.next();
                     for (int n = call.request(); n > 0 && !call.cancelled(); --n) call.send(n);
                     call.finish();
                   }
                 }).start();

  auto client = Average::connect(domain, "average", seconds(30));  // waits until there is a server
  const double average = client.call({1, 2, 6});
  auto pending = client.send({10, 20});  // meanwhile ...
  const auto soon = client.try_call({4}, seconds(30));
  std::string refused;
  try {
    (void)client.call({});
  } catch (const forklift::ServiceError& error) {
    refused = error.what();  // "...: the average of nothing"
  }
  std::printf("%.0f, %.0f, %.0f; %s\n", average, pending.get(), soon.value_or(0), refused.c_str());

  auto countdown = Countdown::connect(domain, "countdown", seconds(30));
  int parts = 0;
  for (const int n : countdown.stream(1000)) parts += n > 0 ? 1 : 0;

  while (client.servers() < 2) std::this_thread::yield();  // the second one may still be starting

  // A server that is killed: its call ends with ServerDied, the other one goes on.
  first.kill();
  first.join();
  const double still = client.call({7});
  second.kill();
  second.join();
  bool died = false;
  try {
    (void)client.call({8});
  } catch (const forklift::ServerDied&) {
    died = true;  // nobody serves it any more
  }
  counter.kill();
  counter.join();
  return average == 3 && still == 7 && parts == 1000 && died ? 0 : 1;
}
