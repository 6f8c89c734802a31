// A process that enters or leaves a memory pool, or shares, sends, receives or drops a piece, or looks which came
// back, is killed after every instruction: no row is left that nobody has, and none goes that somebody has. The
// broker of the pools' descriptors runs meanwhile.
#include <sys/wait.h>

#include <memory>
#include <optional>

#include "step/world.h"
#include "support/pool_fixture.h"

namespace forklift::test {
namespace {

using arena::LeasePtr;
using memory_pool::PoolRef;

constexpr memory_pool::OriginHandle kOrigin{std::byte{7}};

// The survivor has a pool, and where `shared` a piece of it. The broker's processes are children of this process
// in the end, since a World adopts orphans.
class PoolOperation : public Operation {
 public:
  explicit PoolOperation(bool shared) : world_(std::make_unique<World>()), shared_(shared) {
    token_ = world_->node().domain().header().domain_id;
    own_ = enter_pool(world_->node());
    if (!own_) std::abort();
    (void)wait_for_brokers(token_);
    world_->mark();
  }
  ~PoolOperation() override {
    must(pools().leave(own_->ref));
    own_.reset();
    world_.reset();
    expect_no_broker(token_);
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }
  PoolOperation(const PoolOperation&) = delete;
  PoolOperation& operator=(const PoolOperation&) = delete;

  void prepare() override {
    if (shared_) lease_ = must(pools().share(own_->ref, 4096, 100));
  }

  void check(const Death& death, Findings& found) override {
    if (death.point % 2 == 1) world_->expect_goes_on(found);
    world_->node().domain().reap();
    look(death, found);
    expect_pieces(lease_ ? 1 : 0, found);
    const bool shared = lease_ != nullptr;
    lease_.reset();
    const std::size_t back =
        must(pools().visit_returned(own_->ref, [&](std::uint64_t offset, std::uint64_t bytes) {
          if (offset != 4096 || bytes != 100) found.add("another piece came back");
        }));
    if (back != (shared ? 1U : 0U)) found.add(std::to_string(back) + " pieces came back");
    expect_pieces(0, found);
    if (pools().live_pools() != 1) found.add(std::to_string(pools().live_pools()) + " pools are there");
    if (pools().bytes() != kPoolBytes) found.add("the table counts bytes of a pool that is gone");
    world_->expect_marked(found);
  }

 protected:
  virtual void look(const Death&, Findings&) {}
  void expect_pieces(std::uint64_t expected, Findings& found) {
    if (pools().live_pieces() != expected)
      found.add(std::to_string(pools().live_pieces()) + " pieces are there, " + std::to_string(expected) +
                " should be");
  }
  memory_pool::Pools& pools() { return world_->node().memory_pools(); }

  std::unique_ptr<World> world_;
  std::uint64_t token_ = 0;
  std::optional<TestPool> own_;
  bool shared_;
  LeasePtr lease_;
};

// --- the owner dies

class Enter : public PoolOperation {
 public:
  Enter() : PoolOperation(false) {}
  void enter() override { file_ = must(os::create_memfd("forklift-test-pool", 4096)); }
  void act() override { made_ = must(pools().enter(std::move(file_), 4096, kDevice, nullptr)); }

 private:
  os::Fd file_;
  PoolRef made_;
};

class EnterOrigin : public PoolOperation {
 public:
  EnterOrigin() : PoolOperation(false) {}
  void act() override { made_ = must(pools().enter_origin(kOrigin, 4096, kDevice, nullptr)); }

 private:
  PoolRef made_;
};

class ByOwner : public PoolOperation {
 public:
  ByOwner() : PoolOperation(false) {}
  void enter() override {
    mine_ = must(pools().enter(must(os::create_memfd("forklift-test-pool", 4096)), 4096, kDevice, nullptr));
  }

 protected:
  LeasePtr share(std::uint64_t offset) { return must(pools().share(mine_, offset, 16)); }
  PoolRef mine_;
};

class Share : public ByOwner {
 public:
  void act() override { piece_ = share(64); }

 private:
  LeasePtr piece_;
};

// A piece that is in the list, and one that somebody has.
class ShareAgain : public ByOwner {
 public:
  void enter() override {
    ByOwner::enter();
    (void)share(64);
    held_ = share(128);
  }
  void act() override {
    piece_ = share(64);
    other_ = share(128);
  }

 private:
  LeasePtr held_, piece_, other_;
};

class DropLast : public ByOwner {
 public:
  void enter() override {
    ByOwner::enter();
    piece_ = share(64);
  }
  void act() override { piece_.reset(); }

 private:
  LeasePtr piece_;
};

class Visit : public ByOwner {
 public:
  void enter() override {
    ByOwner::enter();
    for (std::uint64_t i = 0; i < 3; ++i) (void)share(i * 64);
    again_ = share(64);
  }
  void act() override {
    must(pools().visit_returned(mine_, [](std::uint64_t, std::uint64_t) {}).status());
  }

 private:
  LeasePtr again_;
};

// With a piece in the list, and one that keeps the pool.
class Leave : public ByOwner {
 public:
  explicit Leave(bool kept) : kept_(kept) {}
  void enter() override {
    ByOwner::enter();
    (void)share(64);
    if (kept_) piece_ = share(128);
  }
  void act() override {
    must(pools().leave(mine_));
    piece_.reset();  // the pool goes with it
  }

 private:
  bool kept_;
  LeasePtr piece_;
};

// A message carries a piece of memory that ends with its owner, who moves it to a pool that does not.
class Relocate : public PoolOperation {
 public:
  Relocate() : PoolOperation(false) {}
  void prepare() override {
    PoolOperation::prepare();
    queue_ = must(channel::Channel::create(world_->node().channels(), {}));
  }
  void enter() override {
    origin_ = must(pools().enter_origin(kOrigin, 4096, kDevice, nullptr));
    const PoolRef target =
        must(pools().enter(must(os::create_memfd("forklift-test-pool", 4096)), 4096, kDevice, nullptr));
    LeasePtr piece = must(pools().share(origin_, 64, 16));
    must(queue_->put({.leases = {&piece, 1}}, os::Deadline::after_seconds(2)));
    copy_ = must(pools().share(target, 128, 16));
  }
  void act() override {
    must(pools().relocate(origin_, 64, 16, *copy_));
    copy_.reset();
  }

 protected:
  // Wherever the piece lies, the message has it.
  void look(const Death& death, Findings& found) override {
    Incoming message;
    must(queue_->get(message, os::Deadline::after_seconds(2)));
    const Result<memory_pool::PieceInfo> piece = pools().describe(*message.leases().at(0));
    if (!piece) return found.add("the message has lost its piece: " + piece.status().to_string());
    if (piece->offset != (piece->by_handle() ? 64U : 128U) || piece->bytes != 16)
      found.add("the piece is in one pool at the other's place");
    if (death.returned && piece->by_handle()) found.add("the piece was not moved");
    const Code alive = pools().check_origin(*message.leases().at(0)).code();
    if (alive != (piece->by_handle() ? Code::kPeerDied : Code::kOk))
      found.add("its origin's death is not told");
    message.clear();
    queue_.reset();
  }

 private:
  channel::ChannelPtr queue_;
  PoolRef origin_;
  LeasePtr copy_;
};

// --- another process dies

class DropOne : public PoolOperation {
 public:
  DropOne() : PoolOperation(true) {}
  void act() override { lease_.reset(); }
};

// A message that carries a right to the piece, beside the survivor's own. The receiver has inherited the pool, so
// that it opens it without the broker.
class InMessage : public PoolOperation {
 public:
  explicit InMessage(bool sends) : PoolOperation(true), sends_(sends) {}
  void prepare() override {
    PoolOperation::prepare();
    queue_ = must(channel::Channel::create(world_->node().channels(), {}));
    if (!sends_) put(must(world_->node().arena().another(lease_)));
  }
  void enter() override {
    if (sends_) mine_ = must(world_->node().arena().another(lease_));
    message_ = std::make_unique<Incoming>();
  }
  void act() override {
    if (sends_) return put(std::move(mine_));
    must(queue_->get(*message_, os::Deadline::after_seconds(2)));
    open(*message_);
    message_->clear();
  }

 protected:
  void look(const Death& death, Findings& found) override {
    Incoming message;
    const Status got = queue_->get(message, os::Deadline::after_ns(0));
    if (death.returned && got.ok() != sends_)
      found.add(sends_ ? "the message is lost" : "the message came twice");
    if (got) open(message);
    message.clear();
    queue_.reset();
  }

 private:
  void put(LeasePtr lease) { must(queue_->put({.leases = {&lease, 1}}, os::Deadline::after_seconds(2))); }
  void open(Incoming& message) {
    must(pools()
             .open(*message.leases().at(0),
                   [](const memory_pool::PieceInfo&, const os::Fd&) {
                     return Result<memory_pool::Pools::Memory>(
                         Status(Code::kInvalid, "the pool is open already"));
                   })
             .status());
  }

  bool sends_;
  channel::ChannelPtr queue_;
  LeasePtr mine_;
  std::unique_ptr<Incoming> message_;
};

// The descriptor comes from the broker: a fork's child has closed its copy.
class Ask : public PoolOperation {
 public:
  Ask() : PoolOperation(true) {}
  void act() override { file_ = must(pools().descriptor(*lease_)); }

 private:
  os::Fd file_;
};

template <class Operation, class... Arguments>
void step(const char* what, Arguments... arguments) {
  Operation operation(arguments...);
  EXPECT_TRUE(survives_every_kill(what, operation));
}

TEST(MemoryPoolStep, Enter) { step<Enter>("enter a memory pool"); }
TEST(MemoryPoolStep, EnterOrigin) { step<EnterOrigin>("enter memory of an origin"); }
TEST(MemoryPoolStep, Relocate) { step<Relocate>("move a piece to another pool"); }
TEST(MemoryPoolStep, Share) { step<Share>("share a piece of a memory pool"); }
TEST(MemoryPoolStep, ShareAgain) { step<ShareAgain>("share pieces of a memory pool again"); }
TEST(MemoryPoolStep, DropLast) { step<DropLast>("drop the last right to a piece"); }
TEST(MemoryPoolStep, Visit) { step<Visit>("visit the pieces that came back"); }
TEST(MemoryPoolStep, Leave) { step<Leave>("leave a memory pool", false); }
TEST(MemoryPoolStep, LeaveWhatIsHeld) { step<Leave>("leave a memory pool and drop its last piece", true); }
TEST(MemoryPoolStep, DropOne) { step<DropOne>("drop one right to a piece"); }
TEST(MemoryPoolStep, Send) { step<InMessage>("put a right to a piece", true); }
TEST(MemoryPoolStep, Receive) { step<InMessage>("get a right to a piece, open and drop it", false); }
TEST(MemoryPoolStep, Ask) { step<Ask>("ask the broker for a descriptor"); }

}  // namespace
}  // namespace forklift::test
