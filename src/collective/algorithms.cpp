#include "collective/algorithms.h"

#include <algorithm>
#include <vector>

#include "collective/combine.h"
#include "sync/past_caches.h"

namespace forklift::inline abi_0_1::collective {
namespace {

// Copies [begin, begin + bytes) of a rank's memory.
Status copy_from(const Exchange& exchange, int rank, std::size_t begin, std::size_t bytes, std::byte* out) {
  if (bytes == 0) return {};
  const Result<const std::byte*> theirs = exchange.transport.peek(rank, begin, bytes);
  if (!theirs) return theirs.status();
  if (*theirs != out) sync::copy_large(out, *theirs, bytes);
  return {};
}

}  // namespace

Status reduce_range(const Exchange& exchange, Op op, std::size_t begin, std::size_t count, std::byte* out) {
  const std::size_t item = item_size(exchange.dtype);
  const std::size_t piece = kPieceBytes / item;
  std::vector<const std::byte*> sources(static_cast<std::size_t>(exchange.transport.size()));
  for (std::size_t done = 0; done < count; done += piece) {
    const std::size_t here = std::min(piece, count - done);
    for (int rank = 0; rank < exchange.transport.size(); ++rank) {
      Result<const std::byte*> theirs = exchange.transport.peek(rank, (begin + done) * item, here * item);
      if (!theirs) return theirs.status();
      sources[static_cast<std::size_t>(rank)] = *theirs;
    }
    combine(op, exchange.dtype, sources, out + done * item, here);
  }
  return {};
}

Status broadcast(const Exchange& exchange, int root, std::byte* out) {
  const bool is_root = exchange.transport.rank() == root;
  if (!is_root) {
    if (Status status = copy_from(exchange, root, 0, exchange.bytes(), out); !status) return status;
  }
  return exchange.transport.finish(is_root ? Transport::kEveryRank : Transport::kNoRank, exchange.limits);
}

Status reduce(const Exchange& exchange, Op op, int root, std::byte* out) {
  if (exchange.transport.rank() != root) return exchange.transport.finish(root, exchange.limits);
  if (Status status = reduce_range(exchange, op, 0, exchange.count, out); !status) return status;
  return exchange.transport.finish(Transport::kNoRank, exchange.limits);
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
  if (Status status = reduce_range(exchange, op, begin, exchange.count, out); !status) return status;
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
