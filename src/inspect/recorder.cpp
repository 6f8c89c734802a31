#include "inspect/recorder.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>

#include "domain/wait_records.h"
#include "inspect/machine.h"
#include "inspect/objects.h"
#include "os/clock.h"
#include "os/limits.h"
#include "sync/thread_rows.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

using arena::Object;
using arena::ObjectKind;
using domain::WaitKind;
using trace::Event;
using trace::EventKind;

constexpr std::int64_t kNamesNs = 50'000'000;

std::int64_t wall_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

struct PlaceWords {
  const char* noun;
  const char* before;  // the object's text
  const char* behind;
};

PlaceWords words_of(Need need) noexcept {
  switch (need) {
    case Need::kLock: return {"lock", "", ""};
    case Need::kReadersGone: return {"lock", "the readers of ", ""};
    case Need::kUnit: return {"semaphore", "a unit of ", ""};
    case Need::kNotice: return {"condition", "a notification of ", ""};
    case Need::kSetting: return {"event", "", " to be set"};
    case Need::kParties: return {"barrier", "the other parties of ", ""};
    case Need::kCountDown: return {"latch", "", " to reach zero"};
    case Need::kOnce: return {"once", "the initialisation of ", ""};
    case Need::kMessage:
    case Need::kNews: return {"message", "a message in ", ""};
    case Need::kRoom:
    case Need::kReaders: return {"room", "room in ", ""};
    case Need::kAllDone: return {"join", "the end of all work of ", ""};
    case Need::kEnd: return {"process", "the end of process ", ""};
    case Need::kTask: return {"task", "its pool", ""};
    case Need::kRanks: return {"ranks", "other ranks", ""};
    case Need::kContainer: return {"container", "a container's writer", ""};
    case Need::kUnknown: break;
  }
  return {"other", "something", ""};
}

// Messages that were put or taken under one lock are one event in a ring, and one each in a recording.
std::uint64_t count_of(const Event& event) noexcept {
  if (event.kind != EventKind::kPut && event.kind != EventKind::kGet) return 1;
  return std::max<std::uint64_t>(1, event.value >> trace::kCountShift);
}

Event nth_of(Event event, std::uint64_t nth, std::uint64_t count) noexcept {
  if (event.kind != EventKind::kPut && event.kind != EventKind::kGet) return event;
  const std::uint64_t bytes = event.value & ((std::uint64_t{1} << trace::kCountShift) - 1);
  event.value = bytes / count + (nth < bytes % count ? 1 : 0);
  event.object = trace::row_and_sequence(
      event.row(), (event.sequence() + static_cast<std::uint32_t>(nth)) & channel::kSequenceMask);
  return event;
}

}  // namespace

Result<Recorder> Recorder::start(View view, std::uint64_t categories, std::uint64_t most) {
  trace::Tracer::Switch* const on_off = view.trace_switch();
  if (on_off == nullptr) return Status(Code::kInvalid, "a view that is for reading only cannot trace");
  const std::int64_t now = os::now_ns();
  std::uint64_t until = load(on_off->until);
  // The word says who may switch: 0 nobody does, or in the past: who did is gone.
  if (static_cast<std::int64_t>(until) > now ||
      !on_off->until.compare_exchange_strong(until, static_cast<std::uint64_t>(now + kGraceNs)))
    return Status(Code::kRefused, "somebody else records this program already");
  Recorder recorder(std::move(view), most);
  // What was recorded before by default: whose the rings are, and which processes began and ended.
  recorder.collect();
  for (RecordedThread& thread : recorder.recording_.threads) thread.lost = 0;
  recorder.on_ = true;
  on_off->categories.store(categories | trace::kByDefault, std::memory_order_release);
  return recorder;
}

Recorder::Recorder(View view, std::uint64_t most)
    : view_(std::move(view)), most_(most), rings_(view_.traces().rings().size()) {
  recording_.domain = view_.header().domain_id;
  recording_.began_ns = os::now_ns();
  recording_.wall_ns = wall_ns();
  // Traced from its beginning: what its threads did before this one came belongs to the recording.
  const bool whole = load(view_.header().trace.categories) != trace::kByDefault;
  if (whole) recording_.began_ns = 0;
  note_processes();
}

Recorder::Recorder(Recorder&& other) noexcept
    : view_(std::move(other.view_)),
      most_(other.most_),
      count_(other.count_),
      on_(std::exchange(other.on_, false)),
      rings_(std::move(other.rings_)),
      fresh_(std::move(other.fresh_)),
      by_owner_(std::move(other.by_owner_)),
      by_pid_(std::move(other.by_pid_)),
      named_ns_(other.named_ns_),
      recording_(std::move(other.recording_)) {}

Recorder::~Recorder() { switch_off(); }

void Recorder::switch_off() noexcept {
  if (!std::exchange(on_, false)) return;
  trace::Tracer::Switch& on_off = *view_.trace_switch();
  on_off.categories.store(trace::kByDefault, std::memory_order_release);
  on_off.until.store(0, std::memory_order_release);
}

void Recorder::collect() {
  if (on_)
    view_.trace_switch()->until.store(static_cast<std::uint64_t>(os::now_ns() + kGraceNs),
                                      std::memory_order_release);
  const std::uint64_t used = std::min<std::uint64_t>(load(view_.traces().table().rings_used), rings_.size());
  for (std::size_t number = 0; number < used; ++number) collect_ring(number);
  // Names are given soon after a process has begun, and gone with it.
  const std::int64_t now = os::now_ns();
  if (now - named_ns_ < kNamesNs) return;
  named_ns_ = now;
  note_processes();
}

void Recorder::collect_ring(std::size_t number) {
  Ring& ring = rings_[number];
  const trace::Region region = view_.traces();
  if (load(region.rings()[number].written) == ring.next) return;
  fresh_.clear();
  std::uint64_t lost = 0;
  ring.next = trace::read_ring(region, number, ring.next, fresh_, lost);
  if (ring.thread == kNone) ring.thread = owner_of(number);
  if (ring.thread != kNone) recording_.threads[ring.thread].lost += lost;
  for (const Event& event : fresh_) add(ring, event);
}

std::string Recorder::name_of(std::uint64_t number) const {
  const std::span<const trace::NameRow> names = view_.traces().names();
  return number < names.size() ? trace::name_in(names[number]) : std::string();
}

// Of a ring whose beginning is not there any more: its row says whose it is, unless that changes in what is left.
std::size_t Recorder::owner_of(std::size_t number) {
  const bool changes = std::any_of(fresh_.begin(), fresh_.end(),
                                   [](const Event& each) { return each.kind == EventKind::kThread; });
  const std::uint64_t owner = load(view_.traces().rings()[number].owner);
  const std::uint32_t slot = sync::owner_slot(owner);
  if (changes || owner == 0 || slot >= view_.slots().size()) return kNone;
  const domain::Slot& row = view_.slots()[slot];
  const auto generation = static_cast<std::uint32_t>(load(row.state) >> 32) & sync::kOwnerGenerationMask;
  if (generation != sync::owner_generation(owner)) return kNone;
  return thread_of(static_cast<pid_t>(load(row.pid)), static_cast<pid_t>(sync::owner_thread(owner)), owner);
}

void Recorder::add(Ring& ring, const Event& event) {
  if (event.kind == EventKind::kThread) {
    ring.thread = thread_of(static_cast<pid_t>(event.object >> 32),
                            static_cast<pid_t>(event.object & 0xffffffff), event.value);
    return;
  }
  if (ring.thread == kNone || event.kind == EventKind::kNone) return;
  RecordedThread& thread = recording_.threads[ring.thread];
  if (event.kind == EventKind::kStarted || event.kind == EventKind::kGone) note_life(thread.pid, event);
  if (event.kind == EventKind::kNamed) {
    if (std::string name = name_of(event.value); !name.empty()) process(thread.pid).name = std::move(name);
    return;
  }
  if (event.end() < recording_.began_ns) return;
  note(event);
  const std::uint64_t count = count_of(event);
  for (std::uint64_t nth = 0; nth < count; ++nth) keep(thread, nth_of(event, nth, count));
}

void Recorder::keep(RecordedThread& thread, const Event& event) {
  if (count_ >= most_) {
    ++thread.lost;
    return;
  }
  ++count_;
  thread.events.push_back(event);
}

std::size_t Recorder::thread_of(pid_t pid, pid_t thread, std::uint64_t owner) {
  const auto [at, is_new] = by_owner_.try_emplace({owner, pid}, recording_.threads.size());
  if (is_new) {
    process(pid);
    recording_.threads.push_back({pid, thread, {}, {}, 0});
    if (pid != thread) {
      const ProcessState state = look_at(pid);
      for (const ThreadState& each : state.threads)
        if (each.thread == thread) recording_.threads.back().name = each.name;
    }
  }
  return at->second;
}

RecordedProcess& Recorder::process(pid_t pid) {
  const auto [at, is_new] = by_pid_.try_emplace(pid, recording_.processes.size());
  if (is_new) {
    recording_.processes.push_back({});
    recording_.processes.back().pid = pid;
  }
  return recording_.processes[at->second];
}

void Recorder::note_life(pid_t writer, const Event& event) {
  if (event.kind == EventKind::kStarted) {
    RecordedProcess& started = process(writer);
    if (started.began_ns == 0) started.began_ns = event.time;
    started.parent = static_cast<pid_t>(event.value);
    return;
  }
  RecordedProcess& gone = process(static_cast<pid_t>(event.object));
  gone.ended_ns = event.time;
  gone.left_in_order = event.value != 0;
}

// The channels of pools are named for what they carry; waits for them end with the same words.
std::string Recorder::queue_text(std::uint32_t row) const {
  const Object object{ObjectKind::kChannel, row};
  const std::string label = label_of(view_, object);
  if (label == channel::kPoolTasks) return "tasks of pool " + std::to_string(row);
  if (label == channel::kPoolAnswers) return "answers of a pool (queue " + std::to_string(row) + ")";
  return text_of(view_, object);
}

// Names what the event is about, while it is there.
void Recorder::note(const Event& event) {
  const auto name = [&](std::map<std::uint32_t, std::string>& names, ObjectKind kind, std::uint32_t index) {
    const auto [at, is_new] = names.try_emplace(index);
    if (is_new) at->second = text_of(view_, {kind, index});
  };
  switch (event.kind) {
    case EventKind::kPut:
    case EventKind::kGet: {
      const auto [at, is_new] = recording_.queues.try_emplace(event.row());
      if (is_new) at->second = queue_text(event.row());
      break;
    }
    case EventKind::kTask:
    case EventKind::kTaskBegan:
      recording_.pools.try_emplace(event.row(), "pool " + std::to_string(event.row()));
      break;
    case EventKind::kPublish:
    case EventKind::kRead: name(recording_.topics, ObjectKind::kTopic, event.row()); break;
    case EventKind::kLocked:
    case EventKind::kUnlocked:
      name(recording_.locks, ObjectKind::kLock, static_cast<std::uint32_t>(event.object));
      break;
    case EventKind::kWait: note_place(event); break;
    default: break;
  }
}

void Recorder::note_place(const Event& event) {
  const auto kind = static_cast<WaitKind>(event.value & 0xff);
  const auto [at, is_new] = recording_.places.try_emplace({event.object, event.value & 0xff});
  if (!is_new) return;
  Target target;
  std::string text;
  switch (kind) {
    case WaitKind::kProcess: target.need = Need::kEnd; break;
    case WaitKind::kTask: target.need = Need::kTask; break;
    case WaitKind::kRanks: target.need = Need::kRanks; break;
    case WaitKind::kContainer: target.need = Need::kContainer; break;
    case WaitKind::kEvent:
    case WaitKind::kSeveral:
      if (event.object != 0) target = target_at(view_, event.object);
      break;
    case WaitKind::kAwake: break;
  }
  if (target.need == Need::kEnd) {
    text = std::to_string(event.object);
  } else if (target.need != Need::kUnknown && kind != WaitKind::kTask && kind != WaitKind::kRanks &&
             kind != WaitKind::kContainer) {
    const bool is_queue = target.object.kind == ObjectKind::kChannel;
    text = is_queue ? queue_text(target.object.index) : text_of(view_, target.object);
    if (is_queue && label_of(view_, target.object) == channel::kPoolTasks) {
      at->second = {"task", "a task of pool " + std::to_string(target.object.index)};
      return;
    }
  }
  const PlaceWords words = words_of(target.need);
  at->second = {words.noun, words.before + text + words.behind};
}

void Recorder::note_processes() {
  for (const domain::Slot& slot : view_.slots()) {
    const std::uint64_t state = load(slot.state);
    const auto pid = static_cast<pid_t>(load(slot.pid));
    if (static_cast<domain::SlotState>(state & 0xff) != domain::SlotState::kLive || pid == 0) continue;
    RecordedProcess& seen = process(pid);
    seen.service = load(slot.service) != 0;
    if (std::string name = domain::name_in(slot); !name.empty()) seen.name = std::move(name);
    if (seen.name.empty() || seen.parent == 0) {
      const ProcessState now = look_at(pid, Detail::kNumbers);
      if (seen.name.empty()) seen.name = now.name;
      if (now.parent != 0) seen.parent = now.parent;
    }
  }
}

// Waits that have not ended are no events yet; their records say what they are.
void Recorder::add_lasting_waits() {
  for (const domain::Waiting& wait : domain::read_waits(view_.region(domain::Region::kWaits))) {
    if (wait.slot.index >= view_.slots().size()) continue;
    const auto pid = static_cast<pid_t>(load(view_.slots()[wait.slot.index].pid));
    const std::uint64_t owner = sync::owner_process(wait.slot.index, wait.slot.generation) | wait.thread;
    const auto at = by_owner_.find({owner, pid});
    if (at == by_owner_.end()) continue;
    std::int64_t since = std::max(wait.since_ns, recording_.began_ns);
    RecordedThread& thread = recording_.threads[at->second];
    // Of its slices the last one only: the earlier ones are events.
    if (!thread.events.empty()) since = std::max(since, thread.events.back().end());
    if (since >= recording_.ended_ns) continue;
    Event event{since, recording_.ended_ns - since, EventKind::kWait,
                wait.values.empty() ? 0 : wait.values.front(),
                domain::traced_wait(wait.kind, domain::WaitManner::kStill)};
    note_place(event);
    thread.events.push_back(event);
  }
}

Recording Recorder::stop() {
  const std::int64_t now = os::now_ns();
  switch_off();
  collect();
  note_processes();
  recording_.ended_ns = now;
  std::int64_t first = now;
  for (RecordedThread& thread : recording_.threads) {
    std::stable_sort(thread.events.begin(), thread.events.end(),
                     [](const Event& a, const Event& b) { return a.time < b.time; });
    if (!thread.events.empty()) first = std::min(first, thread.events.front().time);
  }
  if (recording_.began_ns == 0) {
    recording_.began_ns = first;
    recording_.wall_ns -= now - first;
  }
  add_lasting_waits();
  recording_.names = trace::read_names(view_.traces());
  // The pages of the rings are as good as new; a thread that has not seen the switch yet loses an event by this.
  const trace::Region region = view_.traces();
  if (region.plan().rings != 0) {
    const std::uint64_t page = os::page_size();
    const auto begin = (reinterpret_cast<std::uintptr_t>(region.cells(0).data()) + page - 1) / page * page;
    const auto end =
        reinterpret_cast<std::uintptr_t>(region.cells(region.plan().rings - 1).data() + region.plan().cells) /
        page * page;
    if (begin < end) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_REMOVE);
  }
  return std::move(recording_);
}

}  // namespace forklift::inline abi_0_1::inspect
