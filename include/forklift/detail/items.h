// Iterating over a stream of messages: a queue, a connection, a Subscription; included by their headers.
//
//   for (Frame& frame : frames) show(frame);                // until it is closed and empty
//   for (Frame& frame : frames.each(stop)) show(frame);     // or a wait for one is over
//
// Each step takes one message. The message belongs to the iterator: it may be moved from, and strings and vectors
// are received into its memory again. Several threads and processes may iterate over one stream at the same time;
// each message reaches one of them.
//
// Thread safety: an iterator is one thread's; as many iterators as there are threads.
// Errors: what try_get() throws, but for Closed, which is the end.
#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>

#include "forklift/detail/caught.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1::detail {

template <class Stream>
class ItemIterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type =
      std::remove_cvref_t<decltype(*std::declval<Stream&>().try_get(std::declval<const Wait&>()))>;
  using difference_type = std::ptrdiff_t;
  using reference = value_type&;

  ItemIterator(Stream& stream, Wait wait) : stream_(&stream), wait_(std::move(wait)) { ++*this; }

  value_type& operator*() const noexcept { return *item_; }
  value_type* operator->() const noexcept { return &*item_; }
  ItemIterator& operator++() {
    const bool closed = met_closed([this] {
      if (!item_) {
        item_ = stream_->try_get(wait_);
      } else if (!stream_->try_get_into(*item_, wait_)) {
        item_.reset();
      }
    });
    if (closed) item_.reset();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const ItemIterator& at, std::default_sentinel_t) noexcept { return !at.item_; }

 private:
  Stream* stream_;
  Wait wait_;
  mutable std::optional<value_type> item_;
};

// What each(wait) returns.
template <class Stream>
class Items {
 public:
  Items(Stream& stream, Wait wait) : stream_(stream), wait_(std::move(wait)) {}
  ItemIterator<Stream> begin() const { return ItemIterator<Stream>(stream_, wait_); }
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  Stream& stream_;
  Wait wait_;
};

// What each_loaned(wait) returns: every message where it lies. A loan goes back before the next message is waited for, so
// that a loop never holds two of them.
template <class Stream>
class LoanedItems {
 public:
  LoanedItems(Stream& stream, Wait wait) : stream_(stream), wait_(std::move(wait)) {}
  ItemIterator<LoanedItems> begin() { return {*this, wait_}; }
  std::default_sentinel_t end() const noexcept { return {}; }

  // For its iterator.
  auto try_get(const Wait& wait) { return stream_.try_get_loaned(wait); }
  template <class Loan>
  bool try_get_into(Loan& loan, const Wait& wait) {
    loan.reset();
    auto next = stream_.try_get_loaned(wait);
    if (!next) return false;
    loan = *std::move(next);
    return true;
  }

 private:
  Stream& stream_;
  Wait wait_;
};

}  // namespace forklift::inline abi_0_1::detail
