// BoardRef: what lies behind a Broadcast or a Latest, whatever its type: how they are handed over.
//
//   forklift::Broadcast<Frame> frames;
//   forklift::Broadcast<Frame> same(frames.ref());       // checks the type: TypeMismatch
//
// Thread and process safety: as a shared_ptr: a copy is another handle on the same object. Invariant: it
// names one object for as long as it lives.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

namespace forklift {

// The core's; programs have no use for them.
namespace channel {
class Board;
class Reader;
}  // namespace channel

class BoardRef {
 public:
  BoardRef() noexcept = default;
  explicit BoardRef(std::shared_ptr<channel::Board> board) noexcept : board_(std::move(board)) {}
  // For the library's own parts; null: closed.
  const std::shared_ptr<channel::Board>& get() const noexcept { return board_; }

 private:
  std::shared_ptr<channel::Board> board_;
};

namespace detail {

using BoardPtr = std::shared_ptr<channel::Board>;
using ReaderPtr = std::shared_ptr<channel::Reader>;

template <class T>
concept BoardHandle = std::constructible_from<T, BoardRef> && requires(const T& handle) {
  { handle.ref() } -> std::same_as<BoardRef>;
};

// A Subscription, a Latest: what has something to read now and then.
template <class T>
concept ReaderHandle = requires(const T& handle) {
  { handle.reader() } -> std::same_as<const ReaderPtr&>;
};

}  // namespace detail
}  // namespace forklift
