// request-rtt: a call of 8 bytes and its response of 8 bytes, between two processes; the time of one call. Beside it the
// same numbers through two queues, which know nothing of calls, time-outs and deaths.
#include "forklift/service.h"
#include "cpp/case.h"
#include "cpp/workers.h"
#include "forklift/queue.h"

namespace bench {
namespace {

using Doubler = forklift::Service<std::uint64_t, std::uint64_t>;

void check(std::uint64_t answer, std::uint64_t number) {
  if (answer != 2 * number) fail("another call's answer");
}

double service_us(const Run& run) {
  forklift::Domain domain = forklift::Domain::own();
  auto server = Doubler::serve(domain, "request-rtt");
  auto client = Doubler::connect(domain, "request-rtt");
  const std::size_t count = run.count(300'000);
  const std::size_t warm = count / 10 + 1;
  const auto ask = [&](std::size_t times) {
    for (std::uint64_t i = 0; i < times; ++i) check(client.call(i), i);
  };
  const auto answer = [&](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) {
      auto call = server.next();
      if (!call.respond(2 * call.request())) fail("nobody waits for an answer");
    }
  };
  const double ns = race({{.warm_up = [&] { ask(warm); }, .work = [&] { ask(count); }},
                          {.warm_up = [&] { answer(warm); }, .work = [&] { answer(count); }}},
                         run.pin);
  domain.unpublish("request-rtt");
  return ns / static_cast<double>(count) / 1e3;
}

double queues_us(const Run& run) {
  forklift::Queue<std::uint64_t> there;
  forklift::Queue<std::uint64_t> back;
  const std::size_t count = run.count(300'000);
  const std::size_t warm = count / 10 + 1;
  const auto ask = [&](std::size_t times) {
    for (std::uint64_t i = 0; i < times; ++i) {
      there.put(i);
      check(back.get(), i);
    }
  };
  const auto answer = [&](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) back.put(2 * there.get());
  };
  const double ns = race({{.warm_up = [&] { ask(warm); }, .work = [&] { ask(count); }},
                          {.warm_up = [&] { answer(warm); }, .work = [&] { answer(count); }}},
                         run.pin);
  return ns / static_cast<double>(count) / 1e3;
}

const Contender service{"request-rtt", "forklift", Role::kOurs, "us", service_us};
const Contender queues{"request-rtt", "two queues", Role::kFloor, "us", queues_us};

}  // namespace
}  // namespace bench
