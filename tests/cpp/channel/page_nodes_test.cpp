// On which memory node a put's fresh pages are to lie: what is asked of the kernel, on a machine that has two nodes by its
// files, and what the kernel makes of it on this one.
#include "arena/page_nodes.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "channel/channel.h"
#include "support/memory_nodes.h"
#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

using arena::Kind;
using arena::LeasePtr;
using os::Deadline;
using os::kAnyNode;
using test::Child;
using test::Gate;
using test::kOtherCpu;
using test::PageNodeLog;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kPage = 4096;
using Asked = std::vector<PageNodeLog::Asked>;

// Another process that has the channel, and takes messages when it is told to.
class Peer {
 public:
  explicit Peer(const ChannelPtr& channel)
      : child_([&] {
          Incoming message;
          while (go_.wait()) {
            if (!channel->get(message, Deadline::after_seconds(10))) break;
            message.clear();
            done_.open();
          }
        }) {}
  void take() {
    go_.open();
    ASSERT_TRUE(done_.wait());
  }

 private:
  Gate go_;
  Gate done_;
  Child child_;  // killed at the end
};

class PageNodesTest : public test::NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    channel_ = make_channel();
    use(test::nodes_with_all_cpus_on(0));
  }
  void TearDown() override {
    channel_.reset();
    EXPECT_TRUE(test::eventually([&] { return domain().reap(), domain().live_slots() == 1; }));
    NodeFixture::TearDown();
  }
  void use(os::MemoryNodes nodes) {
    arena().page_nodes().use(std::move(nodes), std::make_unique<test::LoggedPageNodes>(log_));
  }
  ChannelRow& row() { return node().channels().unchecked_row(channel_->id().index); }
  // As if the process that took the last message had run there.
  void reader_ran_on(int cpu) { row().get_cpu.store(static_cast<std::uint64_t>(cpu) + 1); }
  Status put(std::size_t bytes) {
    const std::string text(bytes, 'x');
    return test::put_text(*channel_, text);
  }
  const Asked& asked() const { return log_->asked; }

  std::shared_ptr<PageNodeLog> log_ = std::make_shared<PageNodeLog>();
  ChannelPtr channel_;
};

TEST_F(PageNodesTest, IsAtTheReader) {
  Peer reader(channel_);
  ASSERT_OK(put(10));
  reader.take();
  EXPECT_EQ(row().count.load(), 2U);
  reader_ran_on(kOtherCpu);
  ASSERT_OK(put(kMiB));
  // The block: its header, and the message.
  ASSERT_EQ(asked().size(), 2U);
  EXPECT_EQ(asked()[0].node, 1);
  EXPECT_EQ(asked()[0].bytes, kMiB + kPage);
  EXPECT_EQ(asked()[0].offset % kPage, 0U);
  EXPECT_EQ(asked()[1], (PageNodeLog::Asked{asked()[0].offset, kMiB + kPage, kAnyNode}));
  reader.take();
}

TEST_F(PageNodesTest, FollowsAReaderThatRunsElsewhere) {
  const auto cpus = test::two_cpus();
  if (!cpus) GTEST_SKIP() << "this test needs two processors";
  const test::NodeFolder folder({std::to_string(cpus->first), std::to_string(cpus->second)});
  use(os::MemoryNodes::of_machine(folder.path()));
  Gate took;
  Gate go;
  Child reader([&] {
    Incoming message;
    for (const int cpu : {cpus->second, cpus->first}) {
      const test::Pinned pinned(cpu);
      ASSERT_OK(channel_->get(message, Deadline::after_seconds(10)));
      message.clear();
      took.open();
      ASSERT_TRUE(go.wait());
    }
    ASSERT_OK(channel_->get(message, Deadline::after_seconds(10)));
    EXPECT_EQ(test::text_of(message), std::string(kMiB, 'x'));
    ASSERT_OK(channel_->get(message, Deadline::after_seconds(10)));
    EXPECT_EQ(test::text_of(message), std::string(2 * kMiB, 'x'));
  });
  const test::Pinned pinned(cpus->first);
  ASSERT_OK(put(10));
  ASSERT_TRUE(took.wait());
  EXPECT_EQ(channel_->reader_node(), 1);
  go.open();
  ASSERT_OK(put(10));
  ASSERT_TRUE(took.wait());
  EXPECT_EQ(channel_->reader_node(), kAnyNode);
  ASSERT_OK(put(kMiB));
  EXPECT_EQ(asked(), Asked());
  reader_ran_on(cpus->second);
  ASSERT_OK(put(2 * kMiB));
  EXPECT_EQ(asked().size(), 2U);
  go.open();
  EXPECT_EQ(reader.wait(), 0);
}

TEST_F(PageNodesTest, IsNoQuestionOnTheReadersNode) {
  Peer reader(channel_);
  ASSERT_OK(put(10));
  reader.take();  // on a processor that exists, and so on node 0
  EXPECT_NE(row().get_cpu.load(), 0U);
  ASSERT_OK(put(kMiB));
  EXPECT_EQ(asked(), Asked());
  EXPECT_EQ(log_->policies_asked, 0);
  reader.take();
}

TEST_F(PageNodesTest, NeedsOneReader) {
  ASSERT_OK(put(10));
  ASSERT_OK(test::get_text(*channel_));
  reader_ran_on(kOtherCpu);
  EXPECT_EQ(channel_->reader_node(), kAnyNode);  // no process but this one
  {
    Peer one(channel_);
    EXPECT_EQ(channel_->reader_node(), 1);
    Peer two(channel_);
    ASSERT_OK(put(kMiB));
    EXPECT_EQ(channel_->reader_node(), kAnyNode);
    one.take();
  }
  EXPECT_EQ(asked(), Asked());
}

TEST_F(PageNodesTest, NeedsAReaderThatHasRun) {
  Peer reader(channel_);
  ASSERT_OK(put(kMiB));
  EXPECT_EQ(asked(), Asked());
  reader.take();
}

TEST_F(PageNodesTest, IsNotThatOfAnEarlierChannelsReader) {
  reader_ran_on(kOtherCpu);
  const std::uint32_t index = channel_->id().index;
  channel_.reset();
  channel_ = make_channel();
  ASSERT_EQ(channel_->id().index, index);
  const Peer reader(channel_);
  EXPECT_EQ(channel_->reader_node(), kAnyNode);
}

class PageNodesElsewhere : public PageNodesTest {
 protected:
  void SetUp() override {
    PageNodesTest::SetUp();
    reader_ = std::make_unique<Peer>(channel_);
    reader_ran_on(kOtherCpu);
  }
  void TearDown() override {
    reader_.reset();
    PageNodesTest::TearDown();
  }
  // Put, and taken: its block is free again.
  void pass(std::size_t bytes) {
    ASSERT_OK(put(bytes));
    reader_->take();
    reader_ran_on(kOtherCpu);
  }
  std::unique_ptr<Peer> reader_;
};

TEST_F(PageNodesElsewhere, IsForLargeMessagesOnly) {
  pass(arena::PageNodes::kFrom / 2);
  pass(arena::PageNodes::kFrom - 1 - 16);  // behind a SpillHeader
  EXPECT_EQ(asked(), Asked());
  EXPECT_EQ(log_->policies_asked, 0);
  pass(arena::PageNodes::kFrom);
  EXPECT_EQ(asked().size(), 2U);
}

TEST_F(PageNodesElsewhere, IsForPagesThatDoNotExistYet) {
  const std::size_t first = kMiB + kMiB / 4;
  ASSERT_TRUE(arena().allocate(Kind::kShare, first, false, 1).ok());
  ASSERT_EQ(asked().size(), 2U);
  const std::uint64_t offset = asked()[0].offset;
  log_->asked.clear();
  ASSERT_TRUE(arena().allocate(Kind::kShare, first, false, 1).ok());  // the same block
  EXPECT_EQ(asked(), Asked());
  EXPECT_EQ(log_->policies_asked, 1);
  (void)arena().trim(~std::uint64_t{0});  // out of the magazine
  const Result<LeasePtr> grown = arena().allocate(Kind::kShare, first + kMiB / 2, false, 1);
  ASSERT_OK(grown);
  ASSERT_EQ((*grown)->handle().offset, offset);
  EXPECT_EQ(asked(), (Asked{{offset + first, kMiB / 2, 1}, {offset + first, kMiB / 2, kAnyNode}}));
}

TEST_F(PageNodesElsewhere, IsAskedForOnceWhereTheKernelRefuses) {
  for (const int refusal : {EPERM, ENOSYS, EINVAL}) {
    log_->asked.clear();
    log_->answer = refusal;
    use(test::nodes_with_all_cpus_on(0));
    pass(kMiB);
    EXPECT_EQ(asked().size(), 1U) << refusal;
    EXPECT_FALSE(arena().page_nodes().active());
    (void)arena().trim(0);
    pass(kMiB);
    EXPECT_EQ(asked().size(), 1U) << refusal;
    (void)arena().trim(0);
  }
  EXPECT_EQ(log_->policies_asked, 3);
}

TEST_F(PageNodesElsewhere, IsRefusedByTheOtherCallAsWell) {
  log_->policy = -EPERM;
  pass(kMiB);
  EXPECT_EQ(log_->policies_asked, 1);
  EXPECT_EQ(asked(), Asked());
  EXPECT_FALSE(arena().page_nodes().active());
}

TEST_F(PageNodesElsewhere, IsAskedForAgainAfterAShortage) {
  log_->answer = ENOMEM;
  pass(kMiB);
  EXPECT_EQ(asked().size(), 1U);
  (void)arena().trim(0);
  log_->answer = 0;
  pass(kMiB);
  EXPECT_EQ(asked().size(), 3U);
}

TEST_F(PageNodesElsewhere, IsWhatTheProgramHasChosen) {
  log_->policy = 1;
  pass(kMiB);
  EXPECT_EQ(asked(), Asked());
  (void)arena().trim(0);
  log_->policy = 0;
  pass(kMiB);
  EXPECT_EQ(asked().size(), 2U);
}

TEST_F(PageNodesElsewhere, IsNoQuestionOnOneNode) {
  const test::NodeFolder one({"0-7"});
  const test::NodeFolder broken({"0-3", "4-7"});
  broken.write("node1/cpulist", "4-");
  for (const os::MemoryNodes& nodes : {os::MemoryNodes(), os::MemoryNodes::of_machine(one.path()),
                                       os::MemoryNodes::of_machine(broken.path())}) {
    use(nodes);
    pass(kMiB);
    ASSERT_TRUE(arena().allocate(Kind::kShare, kMiB, false, 1).ok());
    (void)arena().trim(0);
  }
  EXPECT_EQ(asked(), Asked());
  EXPECT_EQ(log_->policies_asked, 0);
}

// On the one node of this machine, as if the writer were on another.
class PageNodesByTheKernel : public PageNodesTest {
 protected:
  // Asks the kernel, and what policy the pages have then for all who map them, and how many exist.
  class Looked : public arena::PageNodeCalls {
   public:
    Looked(std::shared_ptr<PageNodeLog> log, PageNodesByTheKernel& test)
        : log_(std::move(log)), test_(test) {}
    int prefer(void* window, std::uint64_t offset, std::uint64_t bytes, int node) noexcept override {
      log_->answer = PageNodeCalls::prefer(window, offset, bytes, node);
      test_.policies_.push_back(test_.ask(offset, MPOL_F_ADDR));
      test_.policies_.push_back(test_.ask(offset + bytes - 1, MPOL_F_ADDR));
      test_.stored_.push_back(test_.stored());
      log_->asked.push_back({offset, bytes, node});
      return log_->answer;
    }

   private:
    std::shared_ptr<PageNodeLog> log_;
    PageNodesByTheKernel& test_;
  };

  void SetUp() override {
    PageNodesTest::SetUp();
    if (const std::string why = test::why_no_preference(); !why.empty()) GTEST_SKIP() << why;
    arena().page_nodes().use(test::nodes_with_all_cpus_on(1), std::make_unique<Looked>(log_, *this));
  }
  int ask(std::uint64_t offset, unsigned what) {
    int answer = -1;
    EXPECT_EQ(::syscall(SYS_get_mempolicy, &answer, nullptr, 0UL, arena().share_half().data() + offset,
                        static_cast<unsigned long>(what)),
              0);
    return answer;
  }
  std::uint64_t stored() {
    struct stat info{};
    EXPECT_EQ(::fstat(domain().data_file().get(), &info), 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  std::vector<int> policies_;  // of the first and the last page, after each call
  std::vector<std::uint64_t> stored_;
};

TEST_F(PageNodesByTheKernel, IsAPreferenceWhileThePagesComeToExist) {
  Peer reader(channel_);
  reader_ran_on(kOtherCpu);
  const std::uint64_t before = stored();
  ASSERT_OK(put(kMiB));
  ASSERT_EQ(asked().size(), 2U);
  const auto [offset, bytes, node] = asked()[0];
  EXPECT_EQ(node, 0);
  EXPECT_EQ(log_->answer, 0);
  EXPECT_EQ(policies_, (std::vector<int>{MPOL_PREFERRED, MPOL_PREFERRED, MPOL_DEFAULT, MPOL_DEFAULT}));
  EXPECT_EQ(stored_, (std::vector<std::uint64_t>{before, before + bytes}));
  EXPECT_EQ(ask(offset, MPOL_F_NODE | MPOL_F_ADDR), 0);  // where the page lies
  reader.take();
  EXPECT_TRUE(arena().page_nodes().active());
}

TEST_F(PageNodesByTheKernel, IsRefusedForANodeThatIsNot) {
  constexpr int kNone = 1000;
  ASSERT_TRUE(arena().allocate(Kind::kShare, kMiB, false, kNone).ok());
  EXPECT_EQ(log_->answer, EINVAL);
  EXPECT_FALSE(arena().page_nodes().active());
  EXPECT_EQ(policies_, (std::vector<int>{MPOL_DEFAULT, MPOL_DEFAULT}));
}

}  // namespace
}  // namespace forklift::channel
