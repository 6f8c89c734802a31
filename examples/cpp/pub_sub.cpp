// Publish and subscribe: programs that find each other by name, are killed, and come back.
//
//   ./pub_sub [QUOTES = 200000] [KILLS = 5]
//
// The program executes itself as three others: a publisher of quotes, a steady reader, and a visitor. The visitor and the
// publisher are killed (SIGKILL) again and again, wherever they are, and started anew. All of them meet by a name; the
// quotes go through a Broadcast, and from a Latest a publisher that has just come learns where the one before was. The
// steady reader checks that it sees every quote of every publisher, in order. Then the program measures how fast quotes
// reach two readers. It prints:
//
//   5 publishers and 5 visitors were killed; the steady reader has lost 0 quotes
//   broadcast to 2 readers: 2880148 quotes/s
//   datagrams to 2 readers: 299060 quotes/s
//
// The alternative (pub_sub_alternative.cpp) sends a datagram to the socket of each reader, one copy for each.
//
// Built by examples/CMakeLists.txt: with the library, or by itself with find_package(forklift).
#include "pub_sub.h"

#include <forklift/domain.h>
#include <forklift/multiprocessing.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

#include "measure.h"

using forklift::Broadcast;
using forklift::Domain;
using forklift::SharedCounter;
using std::chrono::seconds;

// What all roles open, in whatever order they come. A reader that is slow makes the publisher wait; one that has died
// does not.
struct Market {
  explicit Market(const std::string& name) : domain(Domain::meet(name)) {}
  Domain domain;
  Broadcast<Quote> quotes = domain.open_or_create<Broadcast<Quote>>(
      "quotes", forklift::BroadcastOptions{.capacity = 64, .when_slow = forklift::WhenSlow::kWait});
  forklift::Latest<Quote> newest = domain.open_or_create<forklift::Latest<Quote>>("newest");
  SharedCounter published = domain.open_or_create<SharedCounter>("published");
  SharedCounter visitors = domain.open_or_create<SharedCounter>("visitors");
  forklift::Queue<Seen> reports = domain.open_or_create<forklift::Queue<Seen>>("reports");
};

// Until it is killed, or the Broadcast is closed.
void publish(Market& market) {
  const std::optional<Quote> before = market.newest.peek();
  const std::int64_t run = before ? before->run + 1 : 0;
  try {
    for (std::int64_t number = 0;; ++number) {
      const Quote quote{.run = run, .number = number, .price = price_of(number)};
      // First, so that the next publisher knows of this run, whenever this one is killed.
      market.newest.put(quote);
      market.quotes.put(quote);
      market.published.add();
    }
  } catch (const forklift::Closed&) {
  }
}

void watch(Broadcast<Quote>& quotes, forklift::Queue<Seen>& reports, SharedCounter* visitors) {
  auto stream = quotes.subscribe();
  Seen seen{.visitor = visitors != nullptr};
  for (const Quote& quote : stream) {
    seen.add(quote);
    if (visitors != nullptr && seen.quotes == 50) visitors->add();
  }
  reports.put(seen);
}

// Another program: this one in a role. `./pub_sub visitor NAME` in another terminal is one, too.
forklift::Process start(const char* role, const std::string& name) {
  return forklift::Process::program({"/proc/self/exe", role, name}).set_daemon(true).start();
}

bool programs_that_come_and_go(std::int64_t kills) {
  const std::string name = "pub-sub-" + std::to_string(::getpid());
  Market market(name);
  auto reader = start("reader", name);
  if (!market.quotes.try_wait_for_readers(1, seconds(60))) throw std::runtime_error("no reader has come");
  auto visitor = start("visitor", name);
  auto publisher = start("publisher", name);
  for (std::int64_t round = 1; round <= kills + 1; ++round) {
    if (!market.visitors.try_wait_for(round, seconds(60))) throw std::runtime_error("no visitor has come");
    if (round > kills) break;
    for (forklift::Process* victim : {&visitor, &publisher}) {
      victim->kill();
      victim->join();
    }
    publisher = start("publisher", name);
    visitor = start("visitor", name);
  }
  market.quotes.close();
  for (forklift::Process* process : {&publisher, &reader, &visitor}) process->join();
  std::int64_t lost = market.published.value();  // unless the reader reports
  std::int64_t gaps = 0;
  while (const std::optional<Seen> seen = market.reports.try_get()) {
    if (!seen->visitor) lost = std::max<std::int64_t>(0, lost - seen->quotes);
    gaps += seen->gaps;
  }
  std::printf("%ld publishers and %ld visitors were killed; the steady reader has lost %ld quotes\n", kills,
              kills, lost + gaps);
  return lost + gaps == 0;
}

std::int64_t with_broadcast(std::int64_t count, int readers) {
  Broadcast<Quote> quotes({.capacity = 1024, .when_slow = forklift::WhenSlow::kWait});
  forklift::Queue<Seen> reports;
  const auto read = [&](int) { watch(quotes, reports, nullptr); };
  auto group =
      forklift::spawn({.context = forklift::fork_context(), .join = false, .daemon = true}, read, readers);
  quotes.wait_for_readers(static_cast<std::uint32_t>(readers));
  for (std::int64_t number = 0; number < count; ++number)
    quotes.put({.run = 0, .number = number, .price = price_of(number)});
  quotes.close();
  group.join();
  std::int64_t all = 0;
  while (const std::optional<Seen> seen = reports.try_get()) all += seen->quotes - seen->gaps;
  return all;
}

int main(int argc, char** argv) {
  try {
    forklift::init(argc, argv);
    const std::string role = argc == 3 ? argv[1] : "";
    if (role == "publisher" || role == "reader" || role == "visitor") {
      Market market(argv[2]);
      role == "publisher"
          ? publish(market)
          : watch(market.quotes, market.reports, role == "visitor" ? &market.visitors : nullptr);
      return 0;
    }
    const std::int64_t quotes = example::argument(argc, argv, 1, 200'000);
    const bool all = programs_that_come_and_go(example::argument(argc, argv, 2, 5));
    std::int64_t broadcast = 0, datagrams = 0;
    const double broadcast_time = example::seconds([&] { broadcast = with_broadcast(quotes, 2); });
    const double datagrams_time = example::seconds([&] { datagrams = with_datagrams(quotes, 2); });
    example::print_rate("broadcast to 2 readers", quotes, broadcast_time, "quotes");
    example::print_rate("datagrams to 2 readers", quotes, datagrams_time, "quotes");
    return all && broadcast == 2 * quotes && datagrams == 2 * quotes ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pub_sub: %s\n", error.what());
    return 1;
  }
}
