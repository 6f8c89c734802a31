// Putting and taking several plain messages under one lock and with one commit; whatever is not plain, waits or fails
// goes through put() and get(), one by one.
#include "channel/batch.h"

#include <algorithm>
#include <climits>

#include "channel/plain.h"
#include "channel/record.h"
#include "channel/waiting.h"
#include "sync/past_caches.h"

namespace forklift::inline abi_0_1::channel {

namespace {

// How many units are fetched ahead.
constexpr std::uint32_t kUnitsAhead = 8;

// A record of `handles` plain messages, as write_header() wants it; 0: of one that is not packed.
struct PlainRecord {
  const Outgoing& message;
  std::uint64_t units;
  std::uint64_t bytes;
  std::uint64_t handles;
  std::uint64_t spilled;
  std::uint64_t weight;
  std::uint32_t sequence;
};

constexpr std::uint32_t units_of(std::size_t bytes, std::size_t messages) {
  return units_for(sizeof(RecordHeader) + (messages == 1 ? bytes : messages * packed_stride(bytes)));
}

// How many messages of so many bytes fit into a record of at most so many units.
constexpr std::size_t most_in(std::uint32_t units, std::size_t bytes) {
  if (units < units_of(bytes, 1)) return 0;
  const std::size_t packed = (units * std::size_t{kUnitBytes} - sizeof(RecordHeader)) / packed_stride(bytes);
  return packed < 2 ? 1 : packed;
}

// What is put: messages that differ. `first`: the place of one among them.
struct Messages {
  std::span<const Outgoing> all;
  std::size_t size() const noexcept { return all.size(); }
  const Outgoing& at(std::size_t first) const noexcept { return all[first]; }
  // How many of the `most` messages from `first` on share the first one's length, codec and tag.
  std::size_t alike(std::size_t first, std::size_t most) const noexcept {
    const Outgoing& one = all[first];
    const auto differs = [&one](const Outgoing& message) {
      return message.bytes.size() != one.bytes.size() || message.tag != one.tag ||
             message.codec != one.codec || !message.leases.empty();
    };
    std::size_t count = 1;
    while (count < most && !differs(all[first + count])) ++count;
    return count;
  }
  void copy(std::byte* to, std::size_t first, std::size_t count, std::size_t stride) const noexcept {
    for (; count != 0; --count, ++first, to += stride) {
      const std::span<const std::byte> bytes = all[first].bytes;
      if (!bytes.empty()) sync::copy_bytes(to, bytes.data(), bytes.size());
    }
  }
};

// The same for messages of one length, one behind the other.
struct Items {
  std::span<const std::byte> all;
  Outgoing like;  // whose bytes are the first item
  std::size_t size() const noexcept { return all.size() / like.bytes.size(); }
  Outgoing at(std::size_t first) const noexcept {
    Outgoing item = like;
    item.bytes = all.subspan(first * like.bytes.size(), like.bytes.size());
    return item;
  }
  std::size_t alike(std::size_t, std::size_t most) const noexcept { return most; }
  void copy(std::byte* to, std::size_t first, std::size_t count, std::size_t stride) const noexcept {
    const std::size_t bytes = like.bytes.size();
    const std::byte* from = all.data() + first * bytes;
    if (stride == bytes) {
      sync::copy_bytes(to, from, count * bytes);
      return;
    }
    for (; count != 0; --count, from += bytes, to += stride) std::memcpy(to, from, bytes);
  }
};

}  // namespace

// Tail lock held, and the records written.
//
// Of tail_bytes, the word that belongs to the committed tail must stay as it is until the new tail commits. So where
// bytes are bounded, a batch has an odd number of messages. Elsewhere the two words only say how long the last message
// is (spin_ns).
void Channel::commit_batch(Position tail, Position behind, std::uint64_t weight,
                           std::uint64_t last) noexcept {
  const std::uint64_t bytes = bytes_at(tail) + weight;
  const std::uint32_t next = behind.sequence();
  row_.tail_bytes[next & 1].store(bytes, std::memory_order_relaxed);
  if (row_.byte_capacity.load(std::memory_order_relaxed) == 0)
    row_.tail_bytes[~next & 1].store(bytes - last, std::memory_order_relaxed);
  row_.put_cpu.store(static_cast<std::uint64_t>(os::current_cpu()) + 1, std::memory_order_relaxed);
  sync::crash_fence();
  row_.tail.store(behind.pack(), std::memory_order_release);
  sync::crash_fence();
  note_put(behind, bytes);
}

// Tail lock held, as in the next two. The header of a record of `count` messages from `first` on, and where it ends.
template <class Source>
Position Channel::write_plain_header(const Source& source, std::size_t first, std::size_t count, Chunk& chunk,
                                     Position place) {
  const Outgoing& message = source.at(first);
  const std::size_t bytes = message.bytes.size();
  const std::uint32_t units = units_of(bytes, count);
  const bool packed = count != 1;
  write_header(
      unit_address(chunk, place.unit()),
      PlainRecord{message, units, bytes, packed ? count : 0, packed ? kPacked : 0U, bytes, place.sequence()});
  return place.past(units, count);
}

// Writes messages from `first` on as one record at `place`, at most `most` of them. How many.
template <class Source>
std::size_t Channel::write_plain(const Source& source, std::size_t first, std::size_t most, Chunk& chunk,
                                 Position& place) {
  const std::size_t bytes = source.at(first).bytes.size();
  const std::size_t fitting = std::min(most_in(kChunkUnits - place.unit(), bytes), most);
  if (fitting == 0) return 0;
  const std::size_t count = source.alike(first, fitting);
  source.copy(unit_address(chunk, place.unit()) + sizeof(RecordHeader), first, count, packed_stride(bytes));
  place = write_plain_header(source, first, count, chunk, place);
  return count;
}

std::size_t Channel::Room::fitting(std::uint64_t weight, std::size_t each, std::size_t most) const noexcept {
  if (weight + each > bytes) return weight == 0 && takes(each) ? 1 : 0;
  return each == 0 ? most : std::min<std::uint64_t>(most, (bytes - weight) / each);
}

// Puts from `first` on what fits, and counts its bytes up. 0: there is no room, the first message is not plain, or the tail
// needs what put() does about it.
template <class Source>
std::size_t Channel::put_plain(const Source& source, std::size_t first, std::uint64_t& put_bytes) {
  const std::int64_t traced = tracer().begin(trace::Category::kMessages);
  const std::size_t longest = receipts_ ? kReceiptBody : kInlineBytes;
  const sync::LockGuard guard(row_.tail_mutex, [this] { table_.repair_tail(id_.index); });
  if (!guard.ok()) return 0;
  std::uint64_t word = row_.put_tail.load(std::memory_order_relaxed);
  if (word == 0) [[unlikely]] {
    if (row_.tail_state.load(std::memory_order_relaxed) != 0) return 0;
    word = row_.tail.load(std::memory_order_relaxed);
  }
  const Position tail = Position::unpack(word);
  const std::size_t wanted = std::min(source.size() - first, kMostTogether);
  const Room room = look_for_room(tail, wanted, true);
  const std::size_t most = std::min<std::size_t>(wanted, room.messages);
  const bool counts_bytes = row_.byte_capacity.load(std::memory_order_relaxed) != 0;

  Chunk* chunk = table_.chunks().chunk(tail.chunk());
  Position place = tail;
  Position last_place = tail;  // of the last record, with so many messages, each of so many bytes
  std::size_t in_last = 0;
  std::size_t bytes = 0;
  bool fits = true;
  std::uint64_t weight = 0;
  std::size_t count = 0;
  while (count < most) {
    const Outgoing& message = source.at(first + count);
    if (!message.leases.empty() || message.bytes.size() > longest) break;
    std::size_t now = most - count;
    if (counts_bytes && (now = room.fitting(weight, message.bytes.size(), now)) == 0) break;
    if (count == 0 && (chunk == nullptr || tail.unit() + units_of(message.bytes.size(), 1) > kChunkUnits)) {
      fits = false;
      if (!start_chunk(place, chunk).ok()) return 0;
    }
    const Position before = place;
    const std::size_t written = write_plain(source, first + count, now, *chunk, place);
    if (written == 0) break;
    last_place = before;
    in_last = written;
    bytes = message.bytes.size();
    weight += written * bytes;
    count += written;
  }
  if (count == 0) return 0;
  if (counts_bytes && count % 2 == 0) {  // see commit_batch()
    --count;
    weight -= bytes;
    place = in_last == 1
                ? last_place
                : write_plain_header(source, first + count + 1 - in_last, in_last - 1, *chunk, last_place);
  }
  commit_batch(tail, place, weight, bytes);
  if (!fits) row_.spare.store(0, std::memory_order_relaxed);
  put_bytes += weight;
  exchange.note_put(put_bytes, row_.items.has_sleepers());
  trace_messages(trace::EventKind::kPut, traced, tail.sequence(), weight, count);
  return count;
}

template <class Source>
Status Channel::put_each(const Source& source, std::size_t& count, os::Deadline deadline, WaitHooks* hooks) {
  count = 0;
  std::uint64_t put_bytes = 0;
  if (!table_.domain().attached()) return table_.domain().not_attached();
  while (count < source.size()) {
    const std::size_t put_now = put_plain(source, count, put_bytes);
    if (put_now == 0) {
      if (Status status = put(source.at(count), deadline, hooks); !status) return status;
      ++count;
    } else {
      if (!source.at(count).quiet) row_.items.notify_after_unlock(static_cast<int>(put_now));
      count += put_now;
    }
  }
  return {};
}

Status Channel::put_many(std::span<const Outgoing> messages, std::size_t& count, os::Deadline deadline,
                         WaitHooks* hooks) {
  return put_each(Messages{messages}, count, deadline, hooks);
}

Status Channel::put_items(std::span<const std::byte> items, std::size_t item_bytes, const Outgoing& like,
                          std::size_t& count, os::Deadline deadline, WaitHooks* hooks) {
  Items all{items, like};
  all.like.bytes = items.first(std::min(item_bytes, items.size()));
  if (items.empty()) return {};
  return put_each(all, count, deadline, hooks);
}

// Head lock held. The chunk in which the first record lies, and in `head` where; none where something is wrong, which
// get() finds out and reports.
const Chunk* Channel::first_chunk(Position& head, Position tail) {
  // A putter may have set the first chunk of an empty channel since.
  if (head.chunk() == 0) head = Position::unpack(row_.head.load(std::memory_order_acquire));
  const Chunk* chunk = table_.chunks().chunk(head.chunk());
  if (chunk == nullptr) return nullptr;
  if (head.chunk() != tail.chunk() && head.unit() == chunk->end.load(std::memory_order_relaxed)) {
    if (!next_chunk(head).ok()) return nullptr;
    chunk = table_.chunks().chunk(head.chunk());
  }
  return head.unit() != 0 ? chunk : nullptr;
}

// 0: there is no message, the first one is not plain or not for `take`, or the head needs what get() does about it.
// `take(header, in, count)`: whether it takes so many messages, of which the first lies at `in` and the others behind
// it, packed_stride() apart.
template <class Take>
std::size_t Channel::take_plain(std::size_t most, Take&& take) {
  const std::int64_t traced = tracer().begin(trace::Category::kMessages);
  const sync::LockGuard guard(row_.head_mutex, [this] { table_.repair_head(id_.index); });
  if (!guard.ok() || row_.head_broken.load(std::memory_order_relaxed) != 0) return 0;
  Position head = Position::unpack(row_.head.load(std::memory_order_relaxed));
  Position tail = Position::unpack(row_.seen_tail.load(std::memory_order_relaxed));
  const auto there = [&] { return (tail.sequence() - head.sequence()) & kSequenceMask; };
  if (there() < most && !look_at_tail(head, tail)) return 0;
  const Chunk* chunk = first_chunk(head, tail);
  if (chunk == nullptr) return 0;

  const bool counts_bytes = row_.byte_capacity.load(std::memory_order_relaxed) != 0;
  const std::uint64_t end =
      head.chunk() == tail.chunk() ? kNoEnd : chunk->end.load(std::memory_order_relaxed);
  Walk walk{head, head};
  walk_plain(walk, *chunk, std::min<std::size_t>({most, there(), kMostTogether}), end, take);
  // Of head_bytes, the word that belongs to the committed head stays as it is until the new head commits: an odd number
  // of messages changes the other one only.
  if (counts_bytes && walk.count != 0 && walk.count % 2 == 0) {
    walk.head = walk.last;
    walk.weight -= walk.last_weight;
    --walk.count;
  }
  if (walk.count == 0) return 0;
  if (counts_bytes) {
    row_.head_bytes[walk.head.sequence() & 1].store(
        row_.head_bytes[head.sequence() & 1].load(std::memory_order_relaxed) + walk.weight,
        std::memory_order_relaxed);
  }
  note_cpu(row_.get_cpu);
  sync::crash_fence();
  row_.head.store(walk.head.pack(), std::memory_order_release);
  sync::crash_fence();
  // What comes next was written by another processor: it arrives while these messages are used.
  const std::uint32_t next = walk.head.unit();
  for (std::uint32_t unit = next; there() > walk.count && unit < next + kUnitsAhead && unit < kChunkUnits;
       ++unit)
    sync::fetch_to_read(unit_address(*chunk, unit));
  trace_messages(trace::EventKind::kGet, traced, head.sequence(), walk.weight, walk.count);
  return walk.count;
}

template <class TakePlain>
Status Channel::get_each(Incoming& single, std::size_t& count, os::Deadline deadline, WaitHooks* hooks,
                         TakePlain&& take_plain) {
  count = 0;
  if (!table_.domain().attached() || receipts_) return get(single, deadline, hooks);  // which says why not
  single.clear();
  for (;;) {
    if (size() != 0) {
      count = take_plain();
      if (count != 0) {
        tell_room(static_cast<int>(count));
        message_descriptor_.settle();
        return {};
      }
      bool done = false;
      Status got = take(single, &done, are_traced());
      if (!got || done) return got;
    }
    if (Status status = wait_for_next(deadline, hooks); !status) return status;
  }
}

Status Channel::get_many(Batch& batch, Incoming& single, std::size_t most, os::Deadline deadline,
                         WaitHooks* hooks) {
  batch.clear();
  batch.make_room();
  std::size_t count = 0;
  return get_each(single, count, deadline, hooks, [&] {
    const std::size_t taken =
        take_plain(most, [&](const RecordHeader& header, const std::byte* in, std::size_t now) {
          for (; now != 0; --now, in += packed_stride(header.bytes)) batch.add(header, in);
          return true;
        });
    batch.keep(taken);
    return taken;
  });
}

Status Channel::get_items(std::span<std::byte> items, std::size_t item_bytes, const Outgoing& like,
                          std::size_t& count, Incoming& single, os::Deadline deadline, WaitHooks* hooks) {
  return get_each(single, count, deadline, hooks, [&] {
    std::byte* out = items.data();
    return take_plain(
        items.size() / item_bytes, [&](const RecordHeader& header, const std::byte* in, std::size_t now) {
          if (header.bytes != item_bytes || header.codec != like.codec || header.tag != like.tag)
            return false;
          const std::size_t stride = packed_stride(item_bytes);
          if (stride == item_bytes) {
            sync::copy_bytes(out, in, now * item_bytes);
            out += now * item_bytes;
          } else {
            for (; now != 0; --now, in += stride, out += item_bytes) std::memcpy(out, in, item_bytes);
          }
          return true;
        });
  });
}

}  // namespace forklift::inline abi_0_1::channel
