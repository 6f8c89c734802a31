// The parts of Broadcast<T> and Latest<T> that are no templates.
#include "channel/board.h"

#include <string>

#include "channel/hub.h"
#include "channel/stop.h"
#include "forklift/latest.h"

namespace forklift::detail {
namespace {

static_assert(static_cast<int>(WhenSlow::kDropOldest) == static_cast<int>(channel::WhenSlow::kDropOldest));
static_assert(static_cast<int>(WhenSlow::kWait) == static_cast<int>(channel::WhenSlow::kWait));
static_assert(static_cast<int>(WhenSlow::kDisconnect) == static_cast<int>(channel::WhenSlow::kDisconnect));

constexpr std::uint64_t kLatestFlag = 2;

std::uint64_t flags_for(const BoardKind& kind) {
  return (kind.type == 0 ? std::uint64_t{channel::kPortable} : kind.type & ~std::uint64_t{0xffff}) |
         (kind.latest ? kLatestFlag : 0);
}

channel::Board& opened(const BoardPtr& board) {
  if (!board) throw Error({Code::kClosed, "this Broadcast or Latest is closed, or was moved from"});
  return *board;
}
channel::Reader& opened(const ReaderPtr& reader) {
  if (!reader) throw Error({Code::kClosed, "this subscription was moved from"});
  return *reader;
}

}  // namespace

BoardPtr make_board(const BoardKind& kind, const BroadcastOptions& options) {
  return need(channel::Board::create(*need(channel::Hub::current()),
                                     {.capacity = options.capacity,
                                      .slot_bytes = kind.slot_bytes,
                                      .keep = options.keep,
                                      .when_slow = static_cast<channel::WhenSlow>(options.when_slow),
                                      .flags = flags_for(kind)}));
}

BoardPtr board_of_kind(const BoardRef& board, const BoardKind& kind) {
  const std::uint64_t flags = opened(board.get()).flags();
  if (flags == flags_for(kind)) return board.get();
  if (((flags ^ flags_for(kind)) & kLatestFlag) != 0)
    throw TypeMismatch({Code::kInvalid, "a Latest where a Broadcast was expected, or the reverse"});
  throw TypeMismatch({Code::kInvalid, "a Broadcast or Latest of values of another type"});
}

ReaderPtr subscribe(const BoardPtr& board, bool from_oldest) {
  return need(opened(board).subscribe(from_oldest));
}

bool wait_for_readers(const BoardPtr& board, std::uint32_t count, Limit limit) {
  channel::Board& there = opened(board);
  const os::Deadline deadline =
      limit.ns == kForever ? os::Deadline::never() : os::Deadline::after_ns(limit.ns);
  const Status status = channel::wait_stoppable(
      limit.stop, [&](channel::WaitHooks* hooks) { return there.wait_readers(count, deadline, hooks); },
      [&] { there.wake_all(); });
  if (status.code() == Code::kTimeout || status.code() == Code::kInterrupted) return false;
  check(status);
  return true;
}

std::uint32_t count_readers(const BoardPtr& board) { return opened(board).readers(); }
void finish_board(const BoardPtr& board) { check(opened(board).finish()); }
bool board_finished(const BoardPtr& board) { return opened(board).finished(); }
std::uint64_t board_number(const BoardPtr& board) { return opened(board).number(); }

void unsubscribe(const ReaderPtr& reader) noexcept {
  if (reader) reader->leave();
}
std::uint64_t missed_by(const ReaderPtr& reader) { return opened(reader).missed(); }
std::uint64_t behind_of(const ReaderPtr& reader) { return opened(reader).behind(); }
std::uint64_t seen_by(const ReaderPtr& reader) { return opened(reader).seen(); }

ReaderPtr look_at(const BoardPtr& board) { return opened(board).newest(); }
bool looks_here(const ReaderPtr& reader) noexcept { return reader && reader->mine(); }

}  // namespace forklift::detail
