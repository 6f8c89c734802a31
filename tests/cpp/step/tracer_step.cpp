// Tracing: a thread is killed after every instruction of taking its ring, naming and writing. A reader finds whole events,
// in their order, and others go on tracing.
#include <map>
#include <string>
#include <vector>

#include "step/lock_operation.h"
#include "trace/tracer.h"

namespace forklift::test {
namespace {

using trace::Category;
using trace::Event;
using trace::EventKind;

constexpr std::uint64_t kEvents = 3;
constexpr std::uint64_t kMark = 0x5eed0000;

class Trace : public LockOperation {
 public:
  void prepare() override {
    tracer().switch_on(trace::bit(Category::kRanges), 0);
    name_ = "step " + std::to_string(++runs_ % 50);  // most names are there already, some are not
    (void)read();
  }
  void act() override {
    for (std::uint64_t i = 0; i < kEvents; ++i)
      tracer().moment(Category::kRanges, EventKind::kRangeBegan, kMark + i, tracer().name(name_));
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    const std::vector<Event> events = read();
    const std::vector<std::string> names = trace::read_names(region());
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events[i].object != kMark + i) found.add("an event is missing, or out of order");
      if (events[i].value >= names.size() || names[events[i].value] != name_)
        found.add("an event has another name");
    }
    if (death.returned && events.size() != kEvents) found.add("an event is lost");
    saw(events.size() == kEvents);
    tracer().moment(Category::kRanges, EventKind::kRangeBegan, kMark, tracer().name(name_));
    const std::vector<Event> own = read();
    if (own.size() != 1 || trace::read_names(region())[own[0].value] != name_)
      found.add("the survivor cannot trace");
  }
  void drop() override { tracer().switch_off(); }

 private:
  trace::Tracer& tracer() { return world_.node().domain().tracer(); }
  trace::Region region() { return trace::Region(world_.node().domain().region(domain::Region::kTraces)); }
  // The marked events since the last time, of all rings.
  std::vector<Event> read() {
    std::vector<Event> marked;
    for (std::size_t ring = 0; ring < region().rings().size(); ++ring) {
      std::vector<Event> events;
      std::uint64_t lost = 0;
      next_[ring] = trace::read_ring(region(), ring, next_[ring], events, lost);
      for (const Event& event : events)
        if (event.kind == EventKind::kRangeBegan) marked.push_back(event);
    }
    return marked;
  }

  std::string name_;
  std::uint64_t runs_ = 0;
  std::map<std::size_t, std::uint64_t> next_;
};

TEST(TracerStep, TakeARingNameAndWrite) { kill_lock("trace: take a ring, name, write", Trace()); }

}  // namespace
}  // namespace forklift::test
