// What docs/layout.md says about offsets and sizes, said to the compiler. A change here is a change of the
// shared layout: raise kLayoutVersion and the document with it.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <limits>

#include "arena/arena.h"
#include "arena/tables.h"
#include "channel/receipts.h"
#include "channel/tables.h"
#include "domain/layout.h"
#include "domain/wait_records.h"
#include "locks/tables.h"
#include "memory_pool/protocol.h"
#include "memory_pool/tables.h"
#include "message/wire.h"
#include "node/names.h"
#include "rendezvous/handshake.h"
#include "segment/tables.h"
#include "service/tables.h"
#include "shm_manager/clients.h"
#include "topic/tables.h"
#include "watch/tables.h"
#include "workers/worker_table.h"

namespace forklift {
namespace {

using arena::ArenaState;
using arena::BlockRow;
using arena::LeaseRow;
using channel::ChannelRow;
using channel::ChannelTable;
using channel::Chunk;
using channel::ChunkPoolState;
using channel::RecordHeader;
using domain::Header;
using domain::Slot;
using locks::Cell;
using locks::LockRow;
using locks::LockTable;
using sync::RedoRecord;
using topic::ReaderPlace;
using topic::SlotHeader;
using topic::TopicRow;
using topic::TopicTable;

static_assert(domain::kLayoutVersion == 21);

static_assert(offsetof(Header, magic) == 0 && offsetof(Header, layout_version) == 8);
static_assert(offsetof(Header, mutex_bytes) == 12 && offsetof(Header, domain_id) == 16);
static_assert(offsetof(Header, control_bytes) == 24 && offsetof(Header, data_bytes) == 32);
static_assert(offsetof(Header, page_bytes) == 40 && offsetof(Header, pid_namespace) == 48);
static_assert(offsetof(Header, user) == 56 && offsetof(Header, regions) == 64);
static_assert(offsetof(Header, ready) == 336 && offsetof(Header, slots_used) == 344);
static_assert(offsetof(Header, budget) == 352 && offsetof(Header, huge_pages) == 360 &&
              offsetof(Header, trace) == 368 && offsetof(Header, reap_mutex) == 384 &&
              offsetof(Header, prefault) == 424);
static_assert(offsetof(trace::Tracer::Switch, categories) == 0 &&
              offsetof(trace::Tracer::Switch, until) == 8);
static_assert(domain::kRegions == 17 && sizeof(domain::Extent) == 16 && domain::kSlotCount == 4096);

static_assert(sizeof(domain::WaitTable) == 512 && sizeof(domain::WaitRow) == 512);
static_assert(offsetof(domain::WaitRow, owner) == 0 && offsetof(domain::WaitRow, what) == 8);
static_assert(offsetof(domain::WaitRow, since) == 16 && offsetof(domain::WaitRow, until) == 24);
static_assert(offsetof(domain::WaitRow, described) == 32 && offsetof(domain::WaitRow, more) == 40);
static_assert(offsetof(domain::WaitRow, call_site) == 64);

static_assert(sizeof(trace::Table) == 64 && sizeof(trace::NameRow) == 64 && sizeof(trace::RingRow) == 64 &&
              sizeof(trace::Cell) == 32);
static_assert(offsetof(trace::Table, rings_used) == 0 && offsetof(trace::Table, dropped) == 8);
static_assert(offsetof(trace::NameRow, state) == 0 && offsetof(trace::NameRow, text) == 8);
static_assert(offsetof(trace::RingRow, owner) == 0 && offsetof(trace::RingRow, written) == 8);
static_assert(static_cast<int>(trace::EventKind::kRange) == 8 &&
              static_cast<int>(trace::EventKind::kCounter) == 43);

static_assert(sizeof(Slot) == 64 && offsetof(Slot, state) == 0 && offsetof(Slot, pid) == 8);
static_assert(offsetof(Slot, joined) == 16 && offsetof(Slot, service) == 24 && offsetof(Slot, name) == 32);

static_assert(sizeof(RedoRecord) == 704 && RedoRecord::kCapacity == 40);
static_assert(offsetof(RedoRecord, count) == 0 && offsetof(RedoRecord, entries) == 8);
static_assert(sizeof(RedoRecord::Entry) == 16 && offsetof(RedoRecord::Entry, value) == 8);

static_assert(offsetof(ArenaState, mutex) == 0 && offsetof(ArenaState, redo) == 64);
static_assert(arena::kRedoRecords == 16 && offsetof(ArenaState, blocks_used) == 11328);
static_assert(offsetof(ArenaState, block_rows_free) == 11336 && offsetof(ArenaState, leases_used) == 11344);
static_assert(offsetof(ArenaState, lease_rows_free) == 11352 && offsetof(ArenaState, committed) == 11360);
static_assert(offsetof(ArenaState, cached) == 11368 && offsetof(ArenaState, chunk_bytes) == 11376);
static_assert(offsetof(ArenaState, warm) == 11384 && offsetof(ArenaState, cold) == 12040);
static_assert(offsetof(ArenaState, depots) == 12736 && arena::kKeptClasses == 17 &&
              sizeof(arena::Depot) == 192);
static_assert(offsetof(ArenaState, punches) == 19264 && offsetof(ArenaState, punched) == 19272 &&
              arena::kPunchesKept == 256);
static_assert(offsetof(arena::Depot, cells) == 64 && arena::Depot::kCells == 16);
static_assert(static_cast<int>(arena::BlockState::kKept) == 3);
static_assert(arena::kKinds == 2 && arena::kClasses == 41 && arena::kSmallestClass == 6);

static_assert(sizeof(BlockRow) == 64 && offsetof(BlockRow, offset) == 0 && offsetof(BlockRow, meta) == 8);
static_assert(offsetof(BlockRow, count) == 16 && offsetof(BlockRow, next) == 24);
static_assert(offsetof(BlockRow, prev) == 32 && offsetof(BlockRow, committed) == 40);
static_assert(offsetof(BlockRow, length) == 48 && offsetof(BlockRow, start) == 56);
static_assert(sizeof(LeaseRow) == 32 && offsetof(LeaseRow, object) == 0 && offsetof(LeaseRow, holder) == 8);
static_assert(offsetof(LeaseRow, next) == 16);

static_assert(sizeof(LockTable) == 512 && offsetof(LockTable, rows_used) == 0);
static_assert(offsetof(LockTable, rows_free) == 8 && offsetof(LockTable, cells_used) == 16);
static_assert(offsetof(LockTable, cells_free) == 24 && offsetof(LockTable, sequence) == 32);
static_assert(sizeof(Cell) == 64 && offsetof(Cell, owner) == 0 && offsetof(Cell, object) == 8);
static_assert(offsetof(Cell, next) == 16 && offsetof(Cell, units) == 24);
static_assert(offsetof(Cell, ticket) == 32 && offsetof(Cell, bell) == 40);
static_assert(sizeof(LockRow) == 192 && offsetof(LockRow, label) == 128 && offsetof(LockRow, meta) == 0 &&
              offsetof(LockRow, count) == 8);
static_assert(offsetof(LockRow, next) == 16 && offsetof(LockRow, most) == 24);
static_assert(offsetof(LockRow, state) == 64 && offsetof(LockRow, depth) == 72);
static_assert(offsetof(LockRow, strayed) == 80 && offsetof(LockRow, inside) == 88);
static_assert(offsetof(LockRow, event) == 96 && offsetof(LockRow, spinner) == 112);
static_assert(locks::cells_in(std::uint64_t{96} << 20) == 98'304);
static_assert(locks::rows_in(std::uint64_t{96} << 20) == 491'517);

static_assert(sizeof(ChannelTable) == 512 && offsetof(ChannelTable, rows_free) == 8);
static_assert(sizeof(ChannelRow) == 512 && offsetof(ChannelRow, label) == 448 &&
              offsetof(ChannelRow, meta) == 0);
static_assert(offsetof(ChannelRow, count) == 8 && offsetof(ChannelRow, next) == 16);
static_assert(offsetof(ChannelRow, capacity) == 24 && offsetof(ChannelRow, byte_capacity) == 32);
static_assert(offsetof(ChannelRow, first) == 56);
static_assert(offsetof(ChannelRow, flags) == 40 && offsetof(ChannelRow, drain_mark) == 48 &&
              offsetof(ChannelRow, tail_mutex) == 64);
static_assert(offsetof(ChannelRow, tail) == 128 && offsetof(ChannelRow, spare) == 136);
static_assert(offsetof(ChannelRow, tail_bytes) == 144 && offsetof(ChannelRow, put_cpu) == 160);
static_assert(offsetof(ChannelRow, put_tail) == 112 && offsetof(ChannelRow, seen_head) == 120);
static_assert(offsetof(ChannelRow, space_spinner) == 168 && offsetof(ChannelRow, tail_state) == 176 &&
              offsetof(ChannelRow, head_broken) == 312);
static_assert(offsetof(ChannelRow, head_mutex) == 192 && offsetof(ChannelRow, head) == 256);
static_assert(offsetof(ChannelRow, dying) == 264 && offsetof(ChannelRow, head_bytes) == 272);
static_assert(offsetof(ChannelRow, get_cpu) == 288 && offsetof(ChannelRow, seen_tail) == 296);
static_assert(offsetof(ChannelRow, item_spinner) == 304 && offsetof(ChannelRow, items) == 320);
static_assert(offsetof(ChannelRow, space) == 336 && offsetof(ChannelRow, done) == 384);
static_assert(offsetof(ChannelRow, tokens_sent) == 352 && offsetof(ChannelRow, tokens_read) == 360 &&
              offsetof(ChannelRow, selectable) == 368);
static_assert(offsetof(ChannelRow, all_done) == 392 && sizeof(sync::EventCount) == 16);
static_assert(offsetof(ChannelRow, receipts) == 408 && offsetof(ChannelRow, receipts_offset) == 416);
static_assert(offsetof(ChannelRow, deaths) == 376 && offsetof(ChannelRow, sent_again) == 440);
static_assert(offsetof(ChannelRow, receipts_block) == 424 && offsetof(ChannelRow, receipts_lease) == 432);

static_assert(sizeof(channel::ReceiptsHeader) == 192 && sizeof(channel::ReceiptRow) == 256);
static_assert(offsetof(channel::ReceiptsHeader, tries_limit) == 0);
static_assert(offsetof(channel::ReceiptsHeader, dead_letters) == 8);
static_assert(offsetof(channel::ReceiptsHeader, in_flight) == 64 &&
              offsetof(channel::ReceiptsHeader, used) == 72);
static_assert(offsetof(channel::ReceiptsHeader, returned) == 80);
static_assert(offsetof(channel::ReceiptsHeader, dropped) == 128);
static_assert(offsetof(channel::ReceiptRow, state) == 0 && offsetof(channel::ReceiptRow, header) == 8);
static_assert(offsetof(channel::ReceiptRow, body) == 40);

static_assert(sizeof(node::NameTable) == 128 && sizeof(node::NameRow) == 128);
static_assert(offsetof(node::NameRow, object) == 8 && offsetof(node::NameRow, generation) == 16);
static_assert(offsetof(node::NameRow, lease) == 24 && offsetof(node::NameRow, kind) == 32);
static_assert(offsetof(node::NameRow, name) == 64 && node::kNameBytes == 64);

static_assert(sizeof(watch::SetTable) == 64 && sizeof(watch::SetRow) == 640);
static_assert(offsetof(watch::SetRow, owner) == 16 && offsetof(watch::SetRow, address) == 24);
static_assert(offsetof(watch::SetRow, armed) == 32 && offsetof(watch::SetRow, undelivered) == 40);
static_assert(offsetof(watch::SetRow, event) == 48 && offsetof(watch::SetRow, spinner) == 64);
static_assert(offsetof(watch::SetRow, summary) == 72 && offsetof(watch::SetRow, marks) == 128);
static_assert(sizeof(watch::WatchTable) == 32'832 && offsetof(watch::WatchTable, buckets) == 64);
static_assert(sizeof(watch::WatchRow) == 64 && offsetof(watch::WatchRow, link) == 16);
static_assert(offsetof(watch::WatchRow, event) == 24 && offsetof(watch::WatchRow, target) == 32);

static_assert(sizeof(segment::SegmentTable) == 256 && offsetof(segment::SegmentTable, rows_free) == 8);
static_assert(offsetof(segment::SegmentTable, bytes) == 16 && offsetof(segment::SegmentTable, folder) == 24);
static_assert(segment::kFolderBytes == 128 && sizeof(segment::SegmentRow) == 64);
static_assert(offsetof(segment::SegmentRow, meta) == 0 && offsetof(segment::SegmentRow, count) == 8);
static_assert(offsetof(segment::SegmentRow, next) == 16 && offsetof(segment::SegmentRow, bytes) == 24);
static_assert(offsetof(segment::SegmentRow, head) == 32 && offsetof(segment::SegmentRow, file) == 40);
static_assert(offsetof(segment::SegmentRow, handed) == 48 &&
              offsetof(segment::SegmentRow, handed_lease) == 56);
static_assert(sizeof(memory_pool::PoolTable) == 64 && offsetof(memory_pool::PoolTable, rows_free) == 8);
static_assert(offsetof(memory_pool::PoolTable, bytes) == 16 &&
              offsetof(memory_pool::PoolTable, broker) == 24);
static_assert(sizeof(memory_pool::PoolRow) == 128 && offsetof(memory_pool::PoolRow, meta) == 0);
static_assert(offsetof(memory_pool::PoolRow, pieces) == 8 && offsetof(memory_pool::PoolRow, next) == 16);
static_assert(offsetof(memory_pool::PoolRow, bytes) == 24 && offsetof(memory_pool::PoolRow, device) == 32);
static_assert(offsetof(memory_pool::PoolRow, owner) == 48 && offsetof(memory_pool::PoolRow, returned) == 56);
static_assert(offsetof(memory_pool::PoolRow, handle) == 64);
static_assert(sizeof(memory_pool::PieceTable) == 64 && offsetof(memory_pool::PieceTable, rows_free) == 8);
static_assert(sizeof(memory_pool::PieceRow) == 64 && offsetof(memory_pool::PieceRow, meta) == 0);
static_assert(offsetof(memory_pool::PieceRow, count) == 8 && offsetof(memory_pool::PieceRow, next) == 16);
static_assert(offsetof(memory_pool::PieceRow, pool) == 24 && offsetof(memory_pool::PieceRow, offset) == 32);
static_assert(sizeof(service::Table) == 256 && sizeof(service::Row) == 256);
static_assert(offsetof(service::Row, owner) == 0 && offsetof(service::Row, role) == 8);
static_assert(offsetof(service::Row, channel) == 16 && offsetof(service::Row, serial) == 24);
static_assert(offsetof(service::Row, state) == 32 && offsetof(service::Row, news) == 64);
static_assert(offsetof(service::Row, left) == 40 && offsetof(service::Row, server_pid) == 48);
static_assert(offsetof(service::Row, text) == 128 && service::kTextBytes == 128);
static_assert(service::State::kRefused == 1ULL << 38);
static_assert(service::State::kOver == 1ULL << 39);
static_assert(offsetof(memory_pool::PieceRow, bytes) == 40 && offsetof(memory_pool::PieceRow, listed) == 48);
static_assert(sizeof(memory_pool::BrokerRequest) == 16 && offsetof(memory_pool::BrokerRequest, pool) == 4);
static_assert(sizeof(memory_pool::BrokerAnswer) == 4);
static_assert(sizeof(shm_manager::Request) == 68 && offsetof(shm_manager::Request, name) == 5);

static_assert(offsetof(ChunkPoolState, mutex) == 0 && offsetof(ChunkPoolState, redo) == 64);
static_assert(offsetof(ChunkPoolState, used) == 768 && offsetof(ChunkPoolState, warm) == 776);
static_assert(offsetof(ChunkPoolState, cold) == 784 && offsetof(ChunkPoolState, warm_count) == 792);
static_assert(sizeof(Chunk) == 32 * 1024 && channel::kChunkUnits == 512 && channel::kUnitBytes == 64);
static_assert(offsetof(Chunk, next) == 0 && offsetof(Chunk, end) == 8 && offsetof(Chunk, units) == 64);
static_assert(channel::kInlineBytes == 8 * 1024 && channel::kNoEnd == 0xffff);

static_assert(sizeof(RecordHeader) == 32 && offsetof(RecordHeader, units) == 0);
static_assert(offsetof(RecordHeader, sequence) == 4 && offsetof(RecordHeader, bytes) == 8);
static_assert(offsetof(RecordHeader, handles) == 12 && offsetof(RecordHeader, codec) == 14);
static_assert(offsetof(RecordHeader, spilled) == 15 && offsetof(RecordHeader, weight) == 16);
static_assert(offsetof(RecordHeader, tag) == 24 && sizeof(channel::SpillHeader) == 16);
static_assert(channel::kPacked == 2);

using workers::WorkerRow;
using workers::WorkerTableHeader;
static_assert(sizeof(WorkerTableHeader) == 16384 && offsetof(WorkerTableHeader, answers_wanted) == 0);
static_assert(offsetof(WorkerTableHeader, cancelled) == 8 &&
              offsetof(WorkerTableHeader, shall_not_begin) == 64);
static_assert(workers::kCancelPlaces == 130'560 && workers::kPlaceBits == 26);
static_assert(sizeof(WorkerRow) == 128 && offsetof(WorkerRow, claim) == 0 &&
              offsetof(channel::Claim, tag) == 8);
static_assert(offsetof(WorkerRow, began) == 16 && offsetof(WorkerRow, fate) == 24);
static_assert(offsetof(WorkerRow, state) == 32 && offsetof(WorkerRow, done) == 40);
static_assert(offsetof(WorkerRow, gate) == 64 && offsetof(WorkerRow, bell) == 72);
static_assert(workers::kTaskBits == 56 && workers::kTimedTask == std::uint64_t{1} << 56);
static_assert(workers::kRetainedTask == std::uint64_t{1} << 57 && workers::kStopTask == std::uint64_t{1}
                                                                                            << 58);

static_assert(sizeof(arena::Handle) == 32 && offsetof(arena::Handle, segment) == 0);
static_assert(offsetof(arena::Handle, block) == 4 && offsetof(arena::Handle, generation) == 8);
static_assert(offsetof(arena::Handle, lease) == 12 && offsetof(arena::Handle, offset) == 16);
static_assert(offsetof(arena::Handle, length) == 24);

static_assert(sizeof(TopicTable) == 512 && offsetof(TopicTable, rows_free) == 8);
static_assert(sizeof(TopicRow) == 8576 && offsetof(TopicRow, label) == 320 && offsetof(TopicRow, meta) == 0 &&
              offsetof(TopicRow, count) == 8);
static_assert(offsetof(TopicRow, next) == 16 && offsetof(TopicRow, capacity) == 24);
static_assert(offsetof(TopicRow, slot_bytes) == 32 && offsetof(TopicRow, keep) == 40);
static_assert(offsetof(TopicRow, flags) == 48 && offsetof(TopicRow, when_slow) == 56);
static_assert(offsetof(TopicRow, ring_offset) == 64 && offsetof(TopicRow, ring_block) == 72);
static_assert(offsetof(TopicRow, ring_lease) == 80 && offsetof(TopicRow, finished) == 88);
static_assert(offsetof(TopicRow, readers_used) == 96 && offsetof(TopicRow, broken) == 104);
static_assert(offsetof(TopicRow, mutex) == 128 && offsetof(TopicRow, tail) == 192);
static_assert(offsetof(TopicRow, oldest) == 200 && offsetof(TopicRow, put_cpu) == 208);
static_assert(offsetof(TopicRow, items) == 256 && offsetof(TopicRow, item_spinner) == 272);
static_assert(offsetof(TopicRow, space) == 288 && offsetof(TopicRow, space_spinner) == 304);
static_assert(offsetof(TopicRow, readers) == 384 && topic::kMostReaders == 128);
static_assert(sizeof(ReaderPlace) == 64 && offsetof(ReaderPlace, owner) == 0);
static_assert(offsetof(ReaderPlace, position) == 8);
static_assert(sizeof(SlotHeader) == 32 && offsetof(SlotHeader, sequence) == 0);
static_assert(offsetof(SlotHeader, bytes) == 8 && offsetof(SlotHeader, handles) == 12);
static_assert(offsetof(SlotHeader, codec) == 14 && offsetof(SlotHeader, spilled) == 15);
static_assert(offsetof(SlotHeader, tag) == 16);

static_assert(wire::meta_bytes(3) == 16 + 2 * 3 * 8);

TEST(Layout, BitFieldsOfWords) {
  EXPECT_EQ((arena::BlockMeta{0x01020304, 21, arena::Kind::kPrivate, arena::BlockState::kHeld, true}.pack()),
            0x0102030415010201U);
  EXPECT_EQ((arena::Object{arena::ObjectKind::kChannel, 0x01020304}.pack()), 0x0102030402U);
  EXPECT_EQ(arena::Holder::process({5, 7}).word, (1ULL << 62) | (5ULL << 32) | 7);
  EXPECT_EQ(arena::Holder::message(5, 7).word, (2ULL << 62) | (5ULL << 30) | 7);
  EXPECT_EQ(arena::Holder::topic(5, (1ULL << 30) + 7).word, (13ULL << 60) | (5ULL << 30) | 7);
  EXPECT_EQ(arena::Holder::ring(5).word, (14ULL << 60) | (5ULL << 30));
  EXPECT_EQ(arena::Holder::receipt(5, 7).word, (1ULL << 60) | (5ULL << 30) | 7);
  EXPECT_EQ(arena::Holder::receipts(5).word, (1ULL << 60) | (5ULL << 30) | 0x3fffffffU);
  EXPECT_EQ((channel::ReceiptState::claimed({5, 7}, 9).pack()),
            (1ULL << 62) | (9ULL << 50) | (5ULL << 32) | 7);
  EXPECT_EQ((channel::ReceiptState::returned(9).pack()), (2ULL << 62) | (9ULL << 50));
  EXPECT_EQ((channel::ReceiptState::ending({5, 7}).pack()), (3ULL << 62) | (5ULL << 32) | 7);
  EXPECT_EQ(arena::Holder::name(7).word, (15ULL << 60) | 7);
  EXPECT_EQ((channel::Position{3, 5, 7}.pack()), (3ULL << 40) | (5ULL << 30) | 7);
}

static_assert(sizeof(rendezvous::Handshake) == 192 && offsetof(rendezvous::Handshake, protocol) == 8);
static_assert(offsetof(rendezvous::Handshake, type) == 12 &&
              offsetof(rendezvous::Handshake, layout_version) == 16);
static_assert(offsetof(rendezvous::Handshake, mutex_bytes) == 20 &&
              offsetof(rendezvous::Handshake, pid_namespace) == 24);
static_assert(offsetof(rendezvous::Handshake, domain_id) == 32 &&
              offsetof(rendezvous::Handshake, user) == 40);
static_assert(offsetof(rendezvous::Handshake, slot) == 44 &&
              offsetof(rendezvous::Handshake, generation) == 48);
static_assert(offsetof(rendezvous::Handshake, version) == 56 && offsetof(rendezvous::Handshake, text) == 72);

TEST(Layout, TheHandshakesFirstBytes) {
  const rendezvous::Handshake own = rendezvous::handshake(rendezvous::MessageType::kJoin, 3);
  EXPECT_EQ(std::memcmp(&own, "FLKJOIN1\1\0\0\0\1\0\0\0", 16), 0);
}

TEST(Layout, TheStateAndTagOfACall) {
  const service::State taken = service::State::open(0x5000007).taken_by({4095, 0x1000003});
  EXPECT_EQ(taken.word(), 0x7ULL << 40 | 0x3ULL << 13 | 4096);
  EXPECT_EQ((service::Tag{service::Kind::kFailure, 5, 9}.pack()), 4ULL << 61 | 5ULL << 41 | 9);
}

TEST(Layout, PlanWithoutALimit) {
  const domain::Plan plan = domain::make_plan({});
  const auto bytes = [&](domain::Region region) {
    return plan.regions[static_cast<std::size_t>(region)].bytes;
  };
  EXPECT_EQ(bytes(domain::Region::kSlots), 4096u * 64);
  EXPECT_EQ(bytes(domain::Region::kArena), 64u * 1024);
  EXPECT_EQ(bytes(domain::Region::kNames), 128u * 1024);
  EXPECT_EQ(plan.regions[0].offset, 4096u);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_EQ(plan.data_bytes, 1ULL << 40);
  EXPECT_EQ((bytes(domain::Region::kChannels) - sizeof(ChannelTable)) / sizeof(ChannelRow), 65535u);
  EXPECT_EQ(bytes(domain::Region::kBlocks) / sizeof(BlockRow), 4194304u);
  EXPECT_EQ(bytes(domain::Region::kLeases) / sizeof(LeaseRow), 8388608u);
  EXPECT_EQ(bytes(domain::Region::kChunks) / sizeof(Chunk) - 1, 1048575u);
  EXPECT_EQ((bytes(domain::Region::kTopics) - sizeof(TopicTable)) / sizeof(TopicRow), 3912u);
  EXPECT_EQ(bytes(domain::Region::kMemoryPools) / sizeof(memory_pool::PoolRow) - 1, 4095u);
  EXPECT_EQ(bytes(domain::Region::kPieces) / sizeof(memory_pool::PieceRow) - 1, 524287u);
  EXPECT_EQ(bytes(domain::Region::kServices) / sizeof(service::Row) - 1, 16383u);
  EXPECT_EQ(bytes(domain::Region::kWaits) / sizeof(domain::WaitRow) - 1, 4095u);
#endif
}

}  // namespace
}  // namespace forklift
