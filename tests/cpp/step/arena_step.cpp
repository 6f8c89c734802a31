// A process is killed after every instruction of getting memory, sharing it and giving it back.
#include <memory>

#include "step/world.h"

namespace forklift::test {
namespace {

class ArenaOperation : public Operation {
 public:
  void check(const Death& death, Findings& found) override {
    // Half of the survivors use the arena first, half reap first.
    if (death.point % 2 == 0) world_.expect_goes_on(found);
    kept_.clear();
    world_.expect_marked(found);
    world_.expect_goes_on(found);
    world_.expect_marked(found);
  }

 protected:
  Node& node() { return world_.node(); }
  arena::Arena& arena() { return node().arena(); }
  LeasePtr allocate(std::size_t bytes, Kind kind = Kind::kShare) {
    return must(arena().allocate(kind, bytes));
  }
  World world_;
  std::vector<LeasePtr> kept_;  // by the parent, and so by the child, until the death
};

class Allocate : public ArenaOperation {
 public:
  Allocate(Kind kind, std::size_t bytes, bool zeroed = false) : kind_(kind), bytes_(bytes), zeroed_(zeroed) {}
  void prepare() override {
    allocate(bytes_, kind_).reset();
    (void)arena().trim(~std::uint64_t{0});  // from magazine and depot to the ledger, still warm
  }
  void act() override { lease_ = must(arena().allocate(kind_, bytes_, zeroed_)); }

 private:
  Kind kind_;
  std::size_t bytes_;
  bool zeroed_;
  LeasePtr lease_;
};

TEST(ArenaStep, AllocateWarm) {
  Allocate operation(Kind::kShare, 1000);
  EXPECT_TRUE(survives_every_kill("allocate, warm", operation));
}
TEST(ArenaStep, AllocateLarge) {
  Allocate operation(Kind::kPrivate, 100'000);
  EXPECT_TRUE(survives_every_kill("allocate, pages mapped in bulk", operation));
}
TEST(ArenaStep, AllocateZeroed) {
  Allocate operation(Kind::kShare, 300, true);
  EXPECT_TRUE(survives_every_kill("allocate, zeroed", operation));
}

// Every run in a new domain, so that the block must be split off the largest.
class InNewDomain : public Operation {
 public:
  explicit InNewDomain(std::uint64_t address_space = 0) : address_space_(address_space) {}
  void prepare() override { world_ = std::make_unique<World>(address_space_); }
  void check(const Death& death, Findings& found) override {
    if (death.point % 2 == 0) world_->expect_goes_on(found);
    kept_.clear();
    world_->expect_marked(found);
    world_->expect_goes_on(found);
    world_.reset();
  }

 protected:
  arena::Arena& arena() { return world_->node().arena(); }
  std::uint64_t address_space_;
  std::unique_ptr<World> world_;
  std::vector<LeasePtr> kept_;
};

class AllocateSplit : public InNewDomain {
 public:
  void act() override { lease_ = must(arena().allocate(Kind::kShare, 70'000)); }

 private:
  LeasePtr lease_;
};

TEST(ArenaStep, AllocateSplit) {
  AllocateSplit operation;
  EXPECT_TRUE(survives_every_kill("allocate, split off the largest block", operation, {.most_points = 3000}));
}

// The smallest domain, cut into small blocks: only merging them makes room for a large one.
class AllocateMerge : public InNewDomain {
 public:
  AllocateMerge() : InNewDomain(std::uint64_t{1} << 28) {}
  void prepare() override {
    InNewDomain::prepare();
    half_ = world_->node().domain().data_bytes() / 2;
    (void)must(arena().allocate(Kind::kPrivate, half_ / 64));
  }
  void act() override { lease_ = must(arena().allocate(Kind::kPrivate, half_)); }

 private:
  std::size_t half_ = 0;
  LeasePtr lease_;
};

TEST(ArenaStep, AllocateMerge) {
  AllocateMerge operation;
  EXPECT_TRUE(survives_every_kill("allocate, merge buddies", operation, {.most_points = 3000}));
}

// Another right, which is nobody else's affair until it is to be passed on; then its row is made.
class Another : public ArenaOperation {
 public:
  void prepare() override { kept_ = {allocate(1000)}; }
  void act() override {
    second_ = must(arena().another(kept_[0]));
    must(arena().separate(second_));
  }

 private:
  LeasePtr second_;
};

TEST(ArenaStep, Another) {
  Another operation;
  EXPECT_TRUE(survives_every_kill("reference, with a row of its own", operation));
}

// Of two that share a row, the one that was there first gets another and is passed on; the other one stays.
class SendShared : public ArenaOperation {
 public:
  void prepare() override {
    channel_ = must(channel::Channel::create(node().channels(), {}));
    kept_ = {allocate(1000)};
  }
  void enter() override {
    first_ = allocate(1000);
    second_ = must(arena().another(first_));
  }
  void act() override {
    must(channel_->put({.leases = {&first_, 1}}, os::Deadline::after_seconds(2)));
    second_.reset();
  }
  void check(const Death& death, Findings& found) override {
    channel_.reset();
    ArenaOperation::check(death, found);
  }

 private:
  ChannelPtr channel_;
  LeasePtr first_;
  LeasePtr second_;
};

TEST(ArenaStep, SendShared) {
  SendShared operation;
  EXPECT_TRUE(survives_every_kill("put of a lease that shares its row", operation));
}

class Release : public ArenaOperation {
 public:
  enum Others {
    kNone,
    kApart,   // with a row of its own
    kSharing  // on the same row
  };
  Release(std::size_t bytes, Others others) : bytes_(bytes), others_(others) {}
  void prepare() override {
    // Neighbours in the free list before and behind.
    {
      const std::vector<LeasePtr> neighbours = {allocate(bytes_), allocate(bytes_)};
    }
    (void)arena().trim(~std::uint64_t{0});
  }
  void enter() override {
    lease_ = allocate(bytes_);
    if (others_ != kNone) other_ = must(arena().another(lease_));
    if (others_ == kApart) must(arena().separate(other_));
  }
  void act() override { lease_.reset(); }

 private:
  std::size_t bytes_;
  Others others_;
  LeasePtr lease_;
  LeasePtr other_;
};

TEST(ArenaStep, ReleaseLast) {
  Release operation(1000, Release::kNone);
  EXPECT_TRUE(survives_every_kill("release, last", operation));
}
TEST(ArenaStep, ReleaseNotLast) {
  Release operation(1000, Release::kApart);
  EXPECT_TRUE(survives_every_kill("release, not last", operation));
}
TEST(ArenaStep, ReleaseSharing) {
  Release operation(1000, Release::kSharing);
  EXPECT_TRUE(survives_every_kill("release, others share the row", operation));
}

// A class in steady use, so that its blocks are kept.
class KeptOperation : public ArenaOperation {
 protected:
  static constexpr std::size_t kBytes = 1000;
  static constexpr std::size_t kBatch = arena::Magazine::batch(10);
  void warm_up() {
    for (int i = 0; i < 40; ++i) allocate(kBytes).reset();
  }
  std::vector<LeasePtr> many(std::size_t count) {
    std::vector<LeasePtr> blocks;
    for (std::size_t i = 0; i < count; ++i) blocks.push_back(allocate(kBytes));
    return blocks;
  }
};

class Keep : public KeptOperation {
 public:
  // How many blocks are on the magazine before; a full one passes half of itself on.
  explicit Keep(std::size_t kept) : count_(kept) {}
  void prepare() override { (void)arena().trim(~std::uint64_t{0}); }
  void enter() override {
    warm_up();
    std::vector<LeasePtr> blocks = many(count_ + 1);
    lease_ = std::move(blocks.back());
    blocks.pop_back();
  }
  void act() override { lease_.reset(); }

 private:
  std::size_t count_;
  LeasePtr lease_;
};

TEST(ArenaStep, Keep) {
  Keep operation(1);
  EXPECT_TRUE(survives_every_kill("release, kept", operation));
}
TEST(ArenaStep, KeepPassesOn) {
  Keep operation(2 * arena::Magazine::batch(10));
  EXPECT_TRUE(survives_every_kill("release, kept, a full magazine passed on", operation));
}

class Reuse : public KeptOperation {
 public:
  void enter() override { warm_up(); }
  void act() override { lease_ = allocate(kBytes); }

 private:
  LeasePtr lease_;
};

TEST(ArenaStep, Reuse) {
  Reuse operation;
  EXPECT_TRUE(survives_every_kill("allocate, a kept block", operation));
}

class ReuseFromDepot : public KeptOperation {
 public:
  void prepare() override {
    warm_up();
    many(4 * kBatch).clear();
  }
  void act() override { lease_ = allocate(kBytes); }

 private:
  LeasePtr lease_;
};

TEST(ArenaStep, ReuseFromDepot) {
  ReuseFromDepot operation;
  EXPECT_TRUE(survives_every_kill("allocate, from the depot", operation));
}

class GiveUpKept : public KeptOperation {
 public:
  void prepare() override {
    warm_up();
    many(3 * kBatch).clear();
  }
  void enter() override {
    warm_up();
    many(2).clear();
  }
  void act() override { (void)arena().trim(~std::uint64_t{0}); }
};

TEST(ArenaStep, GiveUpKept) {
  GiveUpKept operation;
  EXPECT_TRUE(survives_every_kill("trim, kept blocks given back", operation, {.most_points = 2500}));
}

class Trim : public ArenaOperation {
 public:
  void prepare() override {
    {
      const std::vector<LeasePtr> two = {allocate(5000), allocate(9000)};
    }
    (void)arena().trim(~std::uint64_t{0});
  }
  void act() override { (void)arena().trim(0); }
};

TEST(ArenaStep, Trim) {
  Trim operation;
  EXPECT_TRUE(survives_every_kill("trim, two blocks punched", operation));
}

}  // namespace
}  // namespace forklift::test
