// A name for people, in the row of a queue, topic or lock: what messages and tools call it.
//
//   row.label.clear();                 // where the row is taken
//   row.label.set("frames");           // kInvalid: too long, or not for people
//   row.label.text();                  // "frames"; empty: it has none
//
// Thread and process safety: any. Two that set it at once, or one that is killed there, may leave a mixture; readers take
// it for text and nothing more.
#pragma once

#include <string>
#include <string_view>

#include "forklift/status.h"
#include "sync/word.h"

namespace forklift::inline abi_0_1::sync {

inline constexpr std::size_t kLabelBytes = 64;

class Label {
 public:
  void clear() noexcept { words_[0].store(0, std::memory_order_relaxed); }
  // At most kLabelBytes, without control characters.
  Status set(std::string_view name) noexcept;
  // What may not be shown is a '?'.
  std::string text() const;
  // Is this its text? Without a copy of it.
  bool is(std::string_view name) const noexcept;
  bool empty() const noexcept { return words_[0].load(std::memory_order_relaxed) == 0; }

 private:
  Word words_[kLabelBytes / sizeof(Word)];  // padded with zeros
};
static_assert(sizeof(Label) == kLabelBytes);

// `what`, or with a label: the queue "frames".
std::string labelled(std::string_view what, const Label& label);

}  // namespace forklift::inline abi_0_1::sync
