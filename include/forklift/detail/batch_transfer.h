// How several messages travel through a queue in one call; included by queue.h and claim.h.
//
//   std::size_t put = Batches<T>::put(channel, frames, wait, kAll);
//   std::size_t got = Batches<T>::get(channel, std::span(into), wait);
//
// Bytewise types that lie one behind the other, and strings and vectors, share a lock and a commit; any other message
// goes by itself, as through put() and get().
//
// Thread and process safety: as of the queue. No frame here owns anything while the library may throw (caught.h).
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>

#include "forklift/detail/caught.h"
#include "forklift/detail/transfer.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1::detail {

// What is to happen when a message cannot be put after others were.
enum class Partly : std::uint8_t {
  kThrows,  // the failure is thrown
  kCounts,  // the others are the answer, and the next put meets the failure
};

// Messages of one length, one behind the other. How many were put, the first ones: all, unless the wait was over.
std::size_t put_items(channel::Channel* queue, std::uint64_t type, std::span<const std::byte> items,
                      std::size_t item_bytes, Limit limit, Partly partly);
using Piece = std::span<const std::byte>;
inline constexpr std::size_t kMostPieces = 64;
std::size_t put_pieces(channel::Channel* queue, std::uint64_t type, std::span<const Piece> pieces,
                       Limit limit, Partly partly);
// How many came, at least one; 0: the wait was over.
std::size_t get_items(channel::Channel* queue, std::uint64_t type, std::span<std::byte> items,
                      std::size_t item_bytes, Limit limit);
// Into objects that lie `stride` bytes apart.
std::size_t get_sequences(channel::Channel* queue, std::uint64_t type, Sink sink, void* first,
                          std::size_t stride, std::size_t most, Limit limit);

// What is put from a range: items, or what converts to them.
template <class R>
concept Range = requires(R& range) {
  std::begin(range) != std::end(range);
  *std::begin(range);
  ++std::declval<decltype(std::begin(range))&>();
};
template <class R, class T>
concept RangeOf = Range<R> && std::convertible_to<decltype(*std::begin(std::declval<R&>())), const T&>;

template <class T>
struct Batches {
  template <class R>
  static std::size_t put(channel::Channel* queue, R& items, const Wait& wait, Partly partly) {
    auto at = std::begin(items);
    const auto end = std::end(items);
    using Iterator = decltype(at);
    using Reference = decltype(*at);
    constexpr bool kThereIsOne = std::same_as<std::remove_cvref_t<Reference>, T>;
    if constexpr (Bytewise<T> && kThereIsOne && std::contiguous_iterator<Iterator> &&
                  std::sized_sentinel_for<decltype(std::end(items)), Iterator>) {
      const std::span<const T> all(std::to_address(at), static_cast<std::size_t>(end - at));
      return put_items(queue, Transfer<T>::kType, std::as_bytes(all), sizeof(T), wait, partly);
    } else if constexpr ((Bytewise<T> || Sequence<T>) && kThereIsOne && std::forward_iterator<Iterator> &&
                         std::is_lvalue_reference_v<Reference>) {
      return put_in_pieces(queue, at, end, wait.begun(), partly);
    } else {
      return put_singly(queue, at, end, wait.begun(), partly);
    }
  }

  static std::size_t get(channel::Channel* queue, std::span<T> into, const Wait& wait) {
    if constexpr (Bytewise<T>) {
      return get_items(queue, Transfer<T>::kType, std::as_writable_bytes(into), sizeof(T), wait);
    } else if constexpr (Sequence<T>) {
      return get_sequences(queue, Transfer<T>::kType, assign_sequence<T>, into.data(), sizeof(T), into.size(),
                           wait);
    } else {
      return get_singly(queue, into, wait);
    }
  }

 private:
  static Piece piece_of(const T& item) noexcept {
    if constexpr (Bytewise<T>) {
      return std::as_bytes(std::span<const T, 1>(&item, 1));
    } else {
      return std::as_bytes(std::span(item.data(), item.size()));
    }
  }

  static std::size_t put_in_pieces(channel::Channel* queue, auto at, const auto end, const Wait& wait,
                                   Partly partly) {
    std::array<Piece, kMostPieces> pieces;
    std::size_t count = 0;
    while (at != end) {
      std::size_t ready = 0;
      for (; ready < kMostPieces && at != end; ++at) pieces[ready++] = piece_of(*at);
      std::size_t put_now = 0;
      const auto put = [&] {
        put_now = put_pieces(queue, Transfer<T>::kType, std::span(pieces).first(ready), wait, partly);
      };
      if (!attempted(put, partly, count)) return count;
      count += put_now;
      if (put_now != ready) break;
    }
    return count;
  }

  static std::size_t put_singly(channel::Channel* queue, auto at, const auto end, const Wait& wait,
                                Partly partly) {
    std::size_t count = 0;
    for (; at != end; ++at, ++count) {
      bool done = false;
      const auto put = [&] {
        if constexpr (std::same_as<std::remove_cvref_t<decltype(*at)>, T>) {
          done = Transfer<T>::put(queue, *at, wait);
        } else {
          done = Transfer<T>::put(queue, static_cast<T>(*at), wait);
        }
      };
      if (!attempted(put, partly, count) || !done) break;
    }
    return count;
  }

  // False: it failed after `count` messages, which are the answer.
  template <class Attempt>
  static bool attempted(Attempt&& attempt, Partly partly, std::size_t count) {
    if (partly == Partly::kThrows || count == 0) {
      attempt();
      return true;
    }
    return caught(attempt) == nullptr;
  }

  static std::size_t get_singly(channel::Channel* queue, std::span<T> into, const Wait& wait) {
    std::size_t count = 0;
    while (count < into.size()) {
      bool came = false;
      const auto get = [&] {
        came = Transfer<T>::get_into(queue, into[count], count == 0 ? Limit(wait) : Limit(0));
      };
      if (count == 0) {
        get();
      } else if (met_closed(get)) {
        break;
      }
      if (!came) break;
      ++count;
    }
    return count;
  }
};

}  // namespace forklift::inline abi_0_1::detail
