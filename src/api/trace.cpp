#include "forklift/trace.h"

#include <bit>

#include "node/node.h"
#include "trace/tracer.h"

namespace forklift::inline abi_0_1::trace {

namespace {

// nullptr: the ranges of this process are not recorded.
Tracer* recording_here() noexcept {
  node::Node* const node = node::Node::existing();
  if (node == nullptr) return nullptr;
  Tracer& tracer = node->domain().tracer();
  return tracer.on(Category::kRanges) ? &tracer : nullptr;
}

}  // namespace

Range::Range(std::string_view name) noexcept {
  Tracer* const tracer = recording_here();
  if (tracer == nullptr) [[likely]]
    return;
  name_ = tracer->name(name);
  began_ = tracer->begin(Category::kRanges);
  if (began_ != 0) tracer->write(EventKind::kRangeBegan, began_, began_, 0, name_);
}

void Range::end() const noexcept {
  // A forked child may end the range that its parent began.
  if (node::Node* const node = node::Node::existing())
    node->domain().tracer().span(EventKind::kRange, began_, 0, name_);
}

void counter(std::string_view name, double value) noexcept {
  Tracer* const tracer = recording_here();
  if (tracer == nullptr) [[likely]]
    return;
  tracer->moment(Category::kRanges, EventKind::kCounter, tracer->name(name),
                 std::bit_cast<std::uint64_t>(value));
}

bool is_on() noexcept { return recording_here() != nullptr; }

}  // namespace forklift::inline abi_0_1::trace
