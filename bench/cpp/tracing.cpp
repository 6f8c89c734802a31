// cpp-trace-on: one event while somebody records: a span, as of a put, with two readings of the clock; beside it a moment, as
// of a lock, with one, and the readings by themselves. cpp-trace-off: the same span while nobody records.
#include "cpp/case.h"
#include "cpp/ours.h"
#include "trace/tracer.h"

namespace bench {
namespace {

using forklift::trace::Category;
using forklift::trace::EventKind;
using forklift::trace::Tracer;

Tracer& tracer() {
  static Tracer& own = node().domain().tracer();
  return own;
}

class Recording {
 public:
  Recording() { tracer().switch_on(forklift::trace::kEverything, 0); }
  ~Recording() { tracer().switch_off(); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
};

template <class Operation>
double each_ns(const Run& run, Operation&& operation) {
  const std::size_t count = run.count(5'000'000);
  for (std::size_t i = 0; i < count / 10 + 1; ++i) operation(i);
  const std::int64_t begin = now_ns();
  for (std::size_t i = 0; i < count; ++i) operation(i);
  return static_cast<double>(now_ns() - begin) / static_cast<double>(count);
}

void span(std::size_t i) {
  const std::int64_t began = tracer().begin(Category::kMessages);
  tracer().span(EventKind::kPut, began, i, 64);
}

const Contender on{"cpp-trace-on", "forklift", Role::kOurs, "ns", [](const Run& run) {
                     const Recording recording;
                     return each_ns(run, span);
                   }};
const Contender moment{
    "cpp-trace-on", "a moment", Role::kPart, "ns", [](const Run& run) {
      const Recording recording;
      return each_ns(run, [](std::size_t i) { tracer().moment(Category::kLocks, EventKind::kLocked, i, 0); });
    }};
const Contender clock{"cpp-trace-on", "two clock readings", Role::kFloor, "ns", [](const Run& run) {
                        return each_ns(run, [](std::size_t) {
                          const std::int64_t first = now_ns();
                          keep(now_ns() - first);
                        });
                      }};
const Contender off{"cpp-trace-off", "forklift", Role::kOurs, "ns",
                    [](const Run& run) { return each_ns(run, span); }};

}  // namespace
}  // namespace bench
