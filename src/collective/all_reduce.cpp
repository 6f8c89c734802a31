// A large all_reduce, window by window: rank r reduces slice r of a window and then copies the window's other slices from
// their owners. So each element comes once from memory and goes there once, and what passes between ranks is in a cache.
#include <algorithm>
#include <vector>

#include "collective/algorithms.h"
#include "collective/combine.h"
#include "sync/past_caches.h"

namespace forklift::inline abi_0_1::collective {
namespace {

constexpr std::size_t kLine = 64;

// Bytes of a window of a group of that size: a piece for each rank, of whole cache lines.
std::size_t window_bytes(std::size_t piece, int size) {
  const std::size_t ranks = static_cast<std::size_t>(size);
  const std::size_t most = std::max(kWindowBytes / ranks, kLeastPieceBytes);
  return std::max(std::min(piece, most) / kLine, std::size_t{1}) * kLine * ranks;
}

// The elements [begin, end) of which a rank computes the result.
struct Slice {
  std::size_t begin;
  std::size_t end;
  std::size_t count() const { return end - begin; }
};

// The steps of one rank. Window w is staged (by a rank whose memory the others cannot read: copied into its ring),
// reduced and collected. Staging is one window ahead of reducing, and collecting one behind, so that a rank seldom waits:
//
//   staged(0); then for each w: reduced(w), staged(w + 1), collected(w - 1); at the end collected(last)
//
// Transport::publish() counts the first two. A rank reads another's window once it is staged there, and its result once it is
// reduced. It overwrites its own elements of another rank's slice when it collects: the slice's owner has read them then.
// A ring of four windows needs no wait of its own: before it stages window w a rank has reduced w - 1, for which all ranks
// had staged w - 1, and each of them had collected w - 4 before.
class Steps {
 public:
  Steps(const Exchange& exchange, Op op, const Posted& posted, std::byte* out)
      : exchange_(exchange),
        transport_(exchange.transport),
        op_(op),
        posted_(posted),
        out_(out),
        item_(item_size(exchange.dtype)),
        window_(window_bytes(exchange.piece, exchange.transport.size()) / item_),
        windows_((exchange.count + window_ - 1) / window_),
        sources_(static_cast<std::size_t>(exchange.transport.size())) {}

  Status run() {
    stage(0);
    for (std::size_t w = 0; w < windows_; ++w) {
      if (Status status = reduce(w); !status) return status;
      stage(w + 1);
      if (w != 0) {
        if (Status status = collect(w - 1); !status) return status;
      }
    }
    return collect(windows_ - 1);
  }

 private:
  static std::uint64_t staged(std::size_t w) { return 2 * w + 1; }
  static std::uint64_t reduced(std::size_t w) { return 2 * w + 2; }

  // Equal shares of a window; their borders fall on cache lines, so that no two ranks write to one line.
  Slice slice_of(std::size_t w, int rank) const {
    const std::size_t begin = w * window_;
    const std::size_t count = std::min(window_, exchange_.count - begin);
    const std::size_t line = kLine / item_;
    const std::size_t lines = (count + line - 1) / line;
    const auto border = [&](int of) {
      const std::size_t share =
          lines * static_cast<std::size_t>(of) / static_cast<std::size_t>(transport_.size());
      return begin + std::min(share * line, count);
    };
    return {border(rank), border(rank + 1)};
  }

  // The `step`th rank after this one: the ranks do not all read from the same one at a time.
  int other(int step) const { return (transport_.rank() + step) % transport_.size(); }

  Status await_all(std::uint64_t steps) const {
    for (int step = 1; step < transport_.size(); ++step) {
      if (Status status = transport_.await(other(step), steps, exchange_.limits); !status) return status;
    }
    return {};
  }

  void stage(std::size_t w) {
    if (posted_.ring != 0 && w < windows_) {
      for (int step = 1; step < transport_.size(); ++step) {
        const Slice slice = slice_of(w, other(step));
        const std::size_t begin = slice.begin * item_;
        if (slice.count() != 0) sync::copy_bytes(posted_.at(begin), out_ + begin, slice.count() * item_);
      }
    }
    transport_.publish(staged(w));
  }

  Status reduce(std::size_t w) {
    if (Status status = await_all(staged(w)); !status) return status;
    const Slice slice = slice_of(w, transport_.rank());
    const std::size_t begin = slice.begin * item_, bytes = slice.count() * item_;
    if (bytes == 0) {
      transport_.publish(reduced(w));
      return {};
    }
    for (int rank = 0; rank < transport_.size(); ++rank) {
      const Result<const std::byte*> theirs = transport_.peek(rank, begin, bytes);
      if (!theirs) return theirs.status();
      sources_[static_cast<std::size_t>(rank)] = *theirs;
    }
    if (posted_.ring != 0) sources_[static_cast<std::size_t>(transport_.rank())] = out_ + begin;
    std::byte* const result = posted_.at(begin);
    combine(op_, exchange_.dtype, sources_, result, slice.count());
    transport_.publish(reduced(w));
    if (result != out_ + begin) sync::copy_bytes(out_ + begin, result, bytes);
    return {};
  }

  Status collect(std::size_t w) {
    for (int step = 1; step < transport_.size(); ++step) {
      const Slice slice = slice_of(w, other(step));
      const std::size_t begin = slice.begin * item_, bytes = slice.count() * item_;
      if (bytes == 0) continue;
      if (Status status = transport_.await(other(step), reduced(w), exchange_.limits); !status) return status;
      const Result<const std::byte*> theirs = transport_.peek(other(step), begin, bytes);
      if (!theirs) return theirs.status();
      sync::copy_bytes(out_ + begin, *theirs, bytes);
    }
    return {};
  }

  const Exchange& exchange_;
  Transport& transport_;
  const Op op_;
  const Posted& posted_;
  std::byte* const out_;
  const std::size_t item_;
  const std::size_t window_;  // elements
  const std::size_t windows_;
  std::vector<const std::byte*> sources_;
};

}  // namespace

std::size_t ring_bytes(std::size_t bytes, std::size_t piece, int size) {
  const std::size_t window = window_bytes(piece, size);
  return std::min((bytes + window - 1) / window, kRingWindows) * window;
}

Status all_reduce(const Exchange& exchange, Op op, bool small, const Posted& posted, std::byte* out) {
  if (small || exchange.transport.size() == 1) {
    if (Status status = reduce_range(exchange, op, 0, exchange.count, out); !status) return status;
  } else if (Status status = Steps(exchange, op, posted, out).run(); !status) {
    return status;
  }
  return exchange.transport.finish(Transport::kEveryRank, exchange.limits);
}

}  // namespace forklift::inline abi_0_1::collective
