// SimpleQueue<T>: a Queue<T> that holds 64 KiB, as Python's, whose SimpleQueue is a pipe.
//
//   forklift::SimpleQueue<std::string> lines;
//   auto reader = forklift::Process::fork([&] { for (std::string& line : lines) print(line); }).start();
//   for (const std::string& line : text) lines.put(line);        // waits for the reader, whatever their lengths
//   lines.close();
//
// The bound counts bytes, of messages and of the memory behind their tensors: put() waits while it is
// exceeded. A longer message waits until the queue is empty and then goes as a whole. So a writer that is
// faster than its reader fills 64 KiB and not the machine, without a guess at a capacity in messages.
//
// Everything else, also what T may be and how it reaches other processes: as Queue<T> (queue.h). capacity()
// is 0, since messages are not counted.
//
// Thread and process safety, errors: as Queue<T>.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "forklift/queue.h"

namespace forklift::inline abi_0_1 {

template <class T>
class SimpleQueue : public Queue<T> {
 public:
  // What it holds before put() waits, as a pipe does.
  static constexpr std::uint64_t kBytes = 64 * 1024;

  SimpleQueue() : Queue<T>({.capacity = 0, .bytes = kBytes}) {}
  // As Queue's.
  template <std::same_as<std::nullptr_t> None>
  explicit SimpleQueue(None none) noexcept : Queue<T>(none) {}
  explicit SimpleQueue(const ChannelRef& channel) : Queue<T>(channel) {}
  template <class U>
  explicit SimpleQueue(const Queue<U>& other) : Queue<T>(other) {}
  static SimpleQueue inherited(std::string_view name) {
    return SimpleQueue(ChannelRef(Queue<T>::inherited(name)));
  }
};

}  // namespace forklift::inline abi_0_1

template <class T>
struct std::hash<forklift::SimpleQueue<T>> : forklift::detail::QueueHash {};
