// Several messages in one call: what is no template of it.
#include "forklift/detail/batch_transfer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "api/transfer.h"
#include "channel/batch.h"

namespace forklift::inline abi_0_1::detail {
namespace {

channel::Channel& opened(channel::Channel* queue) {
  if (queue == nullptr) throw_empty_handle();
  return *queue;
}

channel::Outgoing raw(std::uint64_t type) { return {.codec = message::kRawCodec, .tag = type}; }

// `attempt(done, count, deadline, hooks)` puts what is behind the first `done` messages, each of `bytes`. How many were
// put in all.
template <class Attempt>
std::size_t put_counted(channel::Channel& queue, std::size_t bytes, Limit limit, Partly partly,
                        Attempt&& attempt) {
  std::size_t done = 0;
  const auto again = [&](Limit left) {
    const os::Deadline until = deadline_of(left);
    std::size_t count = 0;
    Status status = wait_stoppable(
        until.passed() ? nullptr : left.stop,
        [&](channel::WaitHooks* hooks) { return attempt(done, count, until, hooks); },
        [&queue] { queue.wake_all(); });
    done += count;
    return status;
  };
  try {
    put_with_memory(&queue, bytes, limit, again);
  } catch (const Error&) {
    if (partly == Partly::kThrows || done == 0) throw;
  }
  return done;
}

// `attempt(done, deadline, hooks)` takes what comes behind the first `done` messages and answers with a status; it
// changes `done`. Waits for the first message only.
template <class Attempt>
std::size_t get_counted(channel::Channel& queue, std::size_t most, Limit limit, Attempt&& attempt) {
  std::size_t done = 0;
  while (done < most) {
    const os::Deadline until = done == 0 ? deadline_of(limit) : os::Deadline::after_ns(0);
    Status got = wait_stoppable(
        until.passed() ? nullptr : limit.stop,
        [&](channel::WaitHooks* hooks) { return attempt(done, until, hooks); },
        [&queue] { queue.wake_all(); });
    if (got) continue;
    // The messages that came are the answer; the next get meets the failure.
    if (done != 0 && got.code() != Code::kCorrupt) break;
    if (!settled(got)) break;
  }
  return done;
}

// Of a message that came by itself.
std::span<const std::byte> raw_payload(channel::Incoming& message, std::uint64_t type) {
  check_kind(message, message::kRawCodec, type);
  return payload_of(message);
}

channel::Batch& batch_of_thread() {
  thread_local channel::Batch batch;
  return batch;
}

}  // namespace

std::size_t put_items(channel::Channel* queue, std::uint64_t type, std::span<const std::byte> items,
                      std::size_t item_bytes, Limit limit, Partly partly) {
  channel::Channel& channel = opened(queue);
  return put_counted(
      channel, item_bytes, limit, partly, [&](std::size_t done, std::size_t& count, auto... wait) {
        return channel.put_items(items.subspan(done * item_bytes), item_bytes, raw(type), count, wait...);
      });
}

std::size_t put_pieces(channel::Channel* queue, std::uint64_t type, std::span<const Piece> pieces,
                       Limit limit, Partly partly) {
  channel::Channel& channel = opened(queue);
  std::array<channel::Outgoing, kMostPieces> messages;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    messages[i] = raw(type);
    messages[i].bytes = pieces[i];
    longest = std::max(longest, pieces[i].size());
  }
  const std::span<const channel::Outgoing> all(messages.data(), pieces.size());
  return put_counted(channel, longest, limit, partly,
                     [&](std::size_t done, std::size_t& count, auto... wait) {
                       return channel.put_many(all.subspan(done), count, wait...);
                     });
}

std::size_t get_items(channel::Channel* queue, std::uint64_t type, std::span<std::byte> items,
                      std::size_t item_bytes, Limit limit) {
  channel::Channel& channel = opened(queue);
  Received single;
  return get_counted(channel, items.size() / item_bytes, limit, [&](std::size_t& done, auto... wait) {
    const std::span<std::byte> rest = items.subspan(done * item_bytes);
    std::size_t count = 0;
    Status got = channel.get_items(rest, item_bytes, raw(type), count, *single, wait...);
    if (got && count == 0) {
      const std::span<const std::byte> bytes = raw_payload(*single, type);
      if (bytes.size() != item_bytes) throw_wrong_length(bytes.size(), item_bytes);
      std::memcpy(rest.data(), bytes.data(), item_bytes);
      single->clear();
      count = 1;
    }
    done += count;
    return got;
  });
}

std::size_t get_sequences(channel::Channel* queue, std::uint64_t type, Sink sink, void* first,
                          std::size_t stride, std::size_t most, Limit limit) {
  channel::Channel& channel = opened(queue);
  Received single;
  channel::Batch& batch = batch_of_thread();
  return get_counted(channel, most, limit, [&](std::size_t& done, auto... wait) {
    Status got = channel.get_many(batch, *single, most - done, wait...);
    if (!got) return got;
    const auto next = [&] { return static_cast<std::byte*>(first) + stride * done; };
    for (std::size_t i = 0; i < batch.size(); ++i, ++done) {
      batch.show(i, *single);
      sink(next(), raw_payload(*single, type));
    }
    if (batch.empty()) {
      sink(next(), raw_payload(*single, type));
      single->clear();
      ++done;
    }
    return got;
  });
}

}  // namespace forklift::inline abi_0_1::detail
