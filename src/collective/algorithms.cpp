#include "collective/algorithms.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "collective/combine.h"
#include "sync/past_caches.h"

namespace forklift::inline abi_0_1::collective {
namespace {

// The elements [begin, end) of which a rank computes the result.
struct Slice {
  std::size_t begin;
  std::size_t end;
};

// Equal shares; their borders fall on cache lines, so that no two ranks write to one line.
Slice slice_of(std::size_t count, std::size_t item, int rank, int size) {
  const std::size_t line = std::max<std::size_t>(64 / item, 1);
  const std::size_t lines = (count + line - 1) / line;
  const auto border = [&](int of) {
    return std::min(lines * static_cast<std::size_t>(of) / static_cast<std::size_t>(size) * line, count);
  };
  return {border(rank), border(rank + 1)};
}

std::size_t pieces_of(const Slice& slice, std::size_t piece) {
  return (slice.end - slice.begin + piece - 1) / piece;
}

// Copies [begin, begin + bytes) of a rank's memory.
Status copy_from(const Exchange& exchange, int rank, std::size_t begin, std::size_t bytes, std::byte* out) {
  if (bytes == 0) return {};
  const Result<const std::byte*> theirs = exchange.transport.peek(rank, begin, bytes);
  if (!theirs) return theirs.status();
  if (*theirs != out) sync::copy_large(out, *theirs, bytes);
  return {};
}

// Reduces `count` elements of each rank's memory, from element `begin` on, piece by piece.
template <class Publish>
Status reduce_range(const Exchange& exchange, Op op, std::size_t begin, std::size_t count, std::byte* out,
                    Publish&& publish) {
  const std::size_t item = item_size(exchange.dtype);
  const std::size_t piece = kPieceBytes / item;
  std::vector<const std::byte*> sources(static_cast<std::size_t>(exchange.transport.size()));
  std::uint64_t pieces = 0;
  for (std::size_t done = 0; done < count; done += piece) {
    const std::size_t here = std::min(piece, count - done);
    for (int rank = 0; rank < exchange.transport.size(); ++rank) {
      Result<const std::byte*> theirs = exchange.transport.peek(rank, (begin + done) * item, here * item);
      if (!theirs) return theirs.status();
      sources[static_cast<std::size_t>(rank)] = *theirs;
    }
    combine(op, exchange.dtype, sources, out + done * item, here);
    publish(++pieces);
  }
  return {};
}
constexpr auto kUnpublished = [](std::uint64_t) {};

// The finished slices of the other ranks, as they get ready.
Status collect_slices(const Exchange& exchange, std::byte* out) {
  const int size = exchange.transport.size();
  const std::size_t item = item_size(exchange.dtype);
  const std::size_t piece = kPieceBytes / item;
  for (int step = 1; step < size; ++step) {
    const int owner = (exchange.transport.rank() + step) % size;
    const Slice slice = slice_of(exchange.count, item, owner, size);
    const std::size_t pieces = pieces_of(slice, piece);
    for (std::size_t i = 0; i < pieces; ++i) {
      if (Status status = exchange.transport.await(owner, i + 1, exchange.limits); !status) return status;
      const std::size_t from = slice.begin + i * piece;
      const std::size_t count = std::min(piece, slice.end - from);
      if (Status status = copy_from(exchange, owner, from * item, count * item, out + from * item); !status)
        return status;
    }
  }
  return {};
}

}  // namespace

Status broadcast(const Exchange& exchange, int root, std::byte* out) {
  const bool is_root = exchange.transport.rank() == root;
  if (!is_root) {
    if (Status status = copy_from(exchange, root, 0, exchange.bytes(), out); !status) return status;
  }
  return exchange.transport.finish(is_root ? Transport::kEveryRank : Transport::kNoRank, exchange.limits);
}

Status reduce(const Exchange& exchange, Op op, int root, std::byte* out) {
  if (exchange.transport.rank() != root) return exchange.transport.finish(root, exchange.limits);
  if (Status status = reduce_range(exchange, op, 0, exchange.count, out, kUnpublished); !status)
    return status;
  return exchange.transport.finish(Transport::kNoRank, exchange.limits);
}

// Each rank reduces its slice in the memory that it has posted, and then copies the other slices from their owners. It
// may overwrite its own elements of another rank's slice then: the owner has read them before it published the piece.
Status all_reduce(const Exchange& exchange, Op op, bool small, std::byte* posted, std::byte* out) {
  Transport& transport = exchange.transport;
  if (small || transport.size() == 1) {
    if (Status status = reduce_range(exchange, op, 0, exchange.count, out, kUnpublished); !status)
      return status;
    return transport.finish(Transport::kEveryRank, exchange.limits);
  }
  const std::size_t item = item_size(exchange.dtype);
  const Slice mine = slice_of(exchange.count, item, transport.rank(), transport.size());
  const std::size_t count = mine.end - mine.begin;
  std::byte* const result = posted + mine.begin * item;
  Status status = reduce_range(exchange, op, mine.begin, count, result,
                               [&](std::uint64_t pieces) { transport.publish(pieces); });
  if (!status) return status;
  if (out != posted) std::memcpy(out + mine.begin * item, result, count * item);
  if (status = collect_slices(exchange, out); !status) return status;
  return transport.finish(Transport::kEveryRank, exchange.limits);
}

Status gather(const Exchange& exchange, int root, std::byte* out) {
  Transport& transport = exchange.transport;
  if (transport.rank() != root) return transport.finish(root, exchange.limits);
  for (int rank = 0; rank < transport.size(); ++rank) {
    std::byte* const part = out + static_cast<std::size_t>(rank) * exchange.bytes();
    if (Status status = copy_from(exchange, rank, 0, exchange.bytes(), part); !status) return status;
  }
  return transport.finish(Transport::kNoRank, exchange.limits);
}

Status all_gather(const Exchange& exchange, std::byte* out) {
  Transport& transport = exchange.transport;
  for (int step = 0; step < transport.size(); ++step) {
    const int rank = (transport.rank() + step) % transport.size();
    std::byte* const part = out + static_cast<std::size_t>(rank) * exchange.bytes();
    if (Status status = copy_from(exchange, rank, 0, exchange.bytes(), part); !status) return status;
  }
  return transport.finish(Transport::kEveryRank, exchange.limits);
}

Status scatter(const Exchange& exchange, int root, std::byte* out) {
  Transport& transport = exchange.transport;
  const std::size_t begin = static_cast<std::size_t>(transport.rank()) * exchange.bytes();
  if (Status status = copy_from(exchange, root, begin, exchange.bytes(), out); !status) return status;
  return transport.finish(transport.rank() == root ? Transport::kEveryRank : Transport::kNoRank,
                          exchange.limits);
}

Status reduce_scatter(const Exchange& exchange, Op op, std::byte* out) {
  const std::size_t begin = static_cast<std::size_t>(exchange.transport.rank()) * exchange.count;
  if (Status status = reduce_range(exchange, op, begin, exchange.count, out, kUnpublished); !status)
    return status;
  return exchange.transport.finish(Transport::kEveryRank, exchange.limits);
}

Status all_to_all(const Exchange& exchange, std::byte* out) {
  Transport& transport = exchange.transport;
  const std::size_t begin = static_cast<std::size_t>(transport.rank()) * exchange.bytes();
  for (int step = 0; step < transport.size(); ++step) {
    const int rank = (transport.rank() + step) % transport.size();
    std::byte* const part = out + static_cast<std::size_t>(rank) * exchange.bytes();
    if (Status status = copy_from(exchange, rank, begin, exchange.bytes(), part); !status) return status;
  }
  return transport.finish(Transport::kEveryRank, exchange.limits);
}

}  // namespace forklift::inline abi_0_1::collective
