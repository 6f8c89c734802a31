// Named segments in one domain: making, sending, finding, and what is wrong with the folder or the manager.
#include "segment/segments.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <vector>

#include "forklift/value_traits.h"
#include "message/message_builder.h"
#include "message/transport.h"
#include "support/segment_fixture.h"
#include "tensor/arena_storage.h"
#include "tensor/operations.h"
#include "topic/topic.h"

namespace forklift::test {
namespace {

using arena::Handle;
using arena::Holder;
using arena::LeasePtr;
using channel::Incoming;
using os::Deadline;
using segment::FileKind;
using segment::FileName;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class SegmentTest : public SegmentFixture {};

// What a program that knows nothing of Forklift does.
class Foreign {
 public:
  explicit Foreign(const std::string& name) {
    const os::Fd file(::shm_open(name.c_str(), O_RDWR, 0));
    struct stat info{};
    if (!file.valid() || ::fstat(file.get(), &info) != 0) return;
    size_ = static_cast<std::size_t>(info.st_size);
    data_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  }
  ~Foreign() {
    if (data_ != MAP_FAILED) ::munmap(data_, size_);
  }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;
  std::size_t size() const { return data_ == MAP_FAILED ? 0 : size_; }
  char* bytes() const { return static_cast<char*>(data_); }

 private:
  void* data_ = MAP_FAILED;
  std::size_t size_ = 0;
};

TEST(SegmentNames, ReadAsTheyAreWritten) {
  const FileName segment{FileKind::kSegment, 0x0123456789abcdef, segment::number_of(5, 7)};
  EXPECT_EQ(segment.text(), "forklift-0123456789abcdef-7000005");
  const auto read = FileName::parse(segment.text());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->number, segment.number);
  EXPECT_EQ(segment::index_of(read->number), 5U);
  EXPECT_EQ(segment::generation_of(read->number), 7U);
  const FileName for_torch{FileKind::kSegment, 0x0123456789abcdef, segment::number_of(5, 7), 4711};
  EXPECT_EQ(for_torch.text(), "torch_4711_0123456789abcdef-7000005");
  const auto torchs = FileName::parse(for_torch.text());
  ASSERT_TRUE(torchs);
  EXPECT_EQ(torchs->pid, 4711U);
  EXPECT_EQ(torchs->number, segment.number);
  EXPECT_EQ(FileName::parse("forklift-0123456789abcdef.lock")->kind, FileKind::kLock);
  EXPECT_EQ(FileName::parse("forklift-0123456789abcdef.sock")->kind, FileKind::kSocket);
  for (const char* other :
       {"", "forklift-", "forklift-0123456789abcdef", "forklift-0123456789abcdef-", "torch_1_2", "torch_",
        "torch_1_2859411742_0", "torch_01_0123456789abcdef-1", "torch__0123456789abcdef-1",
        "torch_1x_0123456789abcdef-1", "torch_99999999999_0123456789abcdef-1",
        "torch_1_0123456789abcdef.lock", "forklift-0123456789abcdeg-1", "forklift-0123456789abcdef-01",
        "forklift-0000000000000000-1", "forklift-0123456789ABCDEF-1", "forklift-0123456789abcdef-1/..",
        "forklift-0123456789abcdef.lock2"})
    EXPECT_FALSE(FileName::parse(other)) << other;
}

TEST_F(SegmentTest, AFileOfExactlyItsSizeThatAnyProgramOpens) {
  LeasePtr lease = create(5000);
  ASSERT_TRUE(lease);
  ASSERT_EQ(lease->size(), 5000U);
  EXPECT_EQ(lease->data()[4999], std::byte{0});
  std::memcpy(lease->data(), "from the domain", 16);
  const std::string name = segments().name_of(*lease);
  const Foreign other(name);
  ASSERT_EQ(other.size(), 5000U);
  EXPECT_STREQ(other.bytes(), "from the domain");
  std::strcpy(other.bytes(), "from outside");
  EXPECT_STREQ(reinterpret_cast<const char*>(lease->data()), "from outside");
  struct stat info{};
  ASSERT_EQ(::stat(path_of(*lease).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  EXPECT_EQ(segments().bytes(), 5000U);

  lease.reset();
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_EQ(segments().bytes(), 0U);
  EXPECT_STREQ(other.bytes(), "from outside");  // its own mapping stays
}

TEST_F(SegmentTest, AHeadBeforeTheData) {
  const LeasePtr lease = create(100, 64);
  ASSERT_TRUE(lease);
  std::memcpy(lease->data(), "data", 5);
  const Foreign other(segments().name_of(*lease));
  ASSERT_EQ(other.size(), 164U);
  EXPECT_STREQ(other.bytes() + 64, "data");
  EXPECT_EQ(segments().head_of(*lease), 64U);
}

TEST_F(SegmentTest, AHollowOneIsWrittenWhole) {
  Result<segment::Segments::Hollow> made = segments().create_hollow(300'000, 64);
  ASSERT_OK(made);
  struct stat info{};
  ASSERT_EQ(::stat(path_of(*made->lease).c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 300'064);
  EXPECT_EQ(info.st_blocks, 0);
  const std::vector<std::byte> head(64, std::byte{1});
  std::vector<std::byte> data(300'000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i % 251);
  EXPECT_EQ(segments().write(*made->lease, made->file, {}, data).code(), Code::kInvalid);
  for (int time = 0; time < 2; ++time) {
    ASSERT_OK(segments().write(*made->lease, made->file, head, data));
    EXPECT_EQ(std::memcmp(made->lease->data(), data.data(), data.size()), 0);
    EXPECT_EQ(std::memcmp(made->lease->data() - 64, head.data(), 64), 0);
    data[299'999] = std::byte{99};
  }
  made->lease.reset();
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(SegmentTest, ANameAsTorchsOwn) {
  LeasePtr lease = *segments().create(100, 64, 4711);
  const std::string name = segments().name_of(*lease);
  EXPECT_EQ(name.rfind("/torch_4711_", 0), 0U) << name;
  EXPECT_EQ(Foreign(name).size(), 164U);
  EXPECT_EQ(segments().bytes(), 164U);
  EXPECT_OK(segments().find(name, 100));
  const std::size_t digits = name.find("4711");
  EXPECT_EQ(segments().find(std::string(name).replace(digits, 4, "4712"), 100).code(), Code::kNotFound);
  EXPECT_EQ(segments().find("/forklift-" + name.substr(digits + 5), 100).code(), Code::kNotFound);
  lease.reset();
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(SegmentTest, RefusesWhatCanNeverBe) {
  EXPECT_EQ(segments().create(0).code(), Code::kInvalid);
  EXPECT_EQ(segments().create(std::uint64_t{1} << 60).code(), Code::kInvalid);
  EXPECT_EQ(segments().create(64, 63).code(), Code::kInvalid);
  EXPECT_EQ(segments().create(64, std::uint64_t{1} << 31).code(), Code::kInvalid);
  EXPECT_THAT(shm_files(token_), IsEmpty());
}

TEST_F(SegmentTest, TravelsInMessagesAndIsMappedOnce) {
  const channel::ChannelPtr queue = make_channel();
  const LeasePtr lease = create(10'000);
  ASSERT_TRUE(lease);
  std::vector<Incoming> received(2);
  for (Incoming& message : received) {
    LeasePtr sent = *arena().another(lease);
    ASSERT_OK(queue->put({.bytes = bytes_of("x"), .leases = {&sent, 1}}, Deadline::after_seconds(10)));
    ASSERT_OK(queue->get(message, Deadline::after_seconds(10)));
    ASSERT_THAT(message.leases(), SizeIs(1));
    EXPECT_EQ(message.leases()[0]->data(), nullptr);
    ASSERT_OK(arena().open_memory(*message.leases()[0]));
    EXPECT_EQ(message.leases()[0]->data(), lease->data());
    EXPECT_EQ(message.leases()[0]->size(), 10'000U);
  }
  EXPECT_THAT(files(), SizeIs(1));
}

TEST_F(SegmentTest, TravelsInAMessageThatIsSpilled) {
  const channel::ChannelPtr queue = make_channel();
  LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  const std::byte* const at = lease->data();
  ASSERT_OK(queue->put({.bytes = bytes_of(std::string(20'000, 'x')), .leases = {&lease, 1}},
                       Deadline::after_seconds(10)));
  EXPECT_FALSE(lease->held());
  lease.reset();
  EXPECT_THAT(files(), SizeIs(1));  // the message has it
  Incoming message;
  ASSERT_OK(queue->get(message, Deadline::after_seconds(10)));
  ASSERT_THAT(message.leases(), SizeIs(1));
  ASSERT_OK(arena().open_memory(*message.leases()[0]));
  EXPECT_NE(message.leases()[0]->data(), nullptr);
  (void)at;
}

TEST_F(SegmentTest, ATopicsReadersShareIt) {
  const auto topic = topic::Topic::create(node_->topics(), {.capacity = 4});
  ASSERT_OK(topic);
  const auto reader = (*topic)->subscribe();
  ASSERT_OK(reader);
  LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  std::byte* const at = lease->data();
  LeasePtr sent = *arena().another(lease);
  ASSERT_OK((*topic)->put({.leases = {&sent, 1}}, Deadline::after_seconds(10)));
  Incoming message;
  ASSERT_OK((*reader)->get(message, Deadline::after_seconds(10)));
  ASSERT_THAT(message.leases(), SizeIs(1));
  ASSERT_OK(arena().open_memory(*message.leases()[0]));
  EXPECT_EQ(message.leases()[0]->data(), at);
}

TEST_F(SegmentTest, TensorsOverSeveralOfThemInOneMessage) {
  std::vector<LeasePtr> leases{create(400), create(400)};
  Value::List sent;
  for (const LeasePtr& lease : leases) {
    Result<Tensor> tensor =
        tensor::wrap(tensor::storage_over(*arena().another(lease)), DType::kFloat32, {100});
    ASSERT_OK(tensor);
    sent.emplace_back(*tensor);
    sent.emplace_back(*std::move(tensor));
  }
  message::MessageBuilder builder(arena());
  ASSERT_OK(builder.add(Value(std::move(sent))));
  EXPECT_THAT(builder.leases(), SizeIs(2));
  const channel::ChannelPtr queue = make_channel();
  ASSERT_OK(queue->put(builder.message(), Deadline::after_seconds(10)));
  builder.clear();
  Incoming incoming;
  ASSERT_OK(queue->get(incoming, Deadline::after_seconds(10)));
  const Result<Value> got = message::unpack(incoming);
  ASSERT_OK(got);
  const std::vector<Tensor> tensors = got->as<std::vector<Tensor>>();
  ASSERT_THAT(tensors, SizeIs(4));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    EXPECT_EQ(static_cast<const void*>(tensors[i].data<float>()), leases[i / 2]->data()) << i;
}

TEST_F(SegmentTest, AForgottenMessageGivesItBack) {
  channel::ChannelPtr queue = make_channel();
  LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  ASSERT_OK(queue->put({.leases = {&lease, 1}}, Deadline::after_seconds(10)));
  EXPECT_THAT(files(), SizeIs(1));
  queue.reset();
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(SegmentTest, AForkedChildHasItsParents) {
  LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  Gate dropped;
  Gate written;
  Child child([&] {
    EXPECT_TRUE(dropped.wait());
    EXPECT_THAT(files(), SizeIs(1));
    lease->data()[0] = std::byte{7};
    const Result<LeasePtr> same = segments().find(segments().name_of(*lease), 100);
    ASSERT_OK(same);
    EXPECT_EQ((*same)->data(), lease->data());
    LeasePtr own = *segments().create(200);
    EXPECT_THAT(files(), SizeIs(2));
  });
  lease.reset();
  dropped.open();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(eventually([&] { return files().empty(); }, 2000));
}

TEST_F(SegmentTest, AChildOfferedIt) {
  LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  const Result<Handle> handle = arena().offer(lease, domain().self());
  ASSERT_OK(handle);
  lease.reset();
  EXPECT_THAT(files(), SizeIs(1));
  Result<LeasePtr> claimed = arena().claim(*handle);
  ASSERT_OK(claimed);
  ASSERT_OK(arena().open_memory(**claimed));
  EXPECT_EQ(arena().claim(*handle).code(), Code::kInvalid);
}

TEST_F(SegmentTest, IsFoundByItsName) {
  LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  const std::string name = segments().name_of(*lease);
  const Result<LeasePtr> found = segments().find(name, 100);
  ASSERT_OK(found);
  EXPECT_EQ((*found)->data(), lease->data());
  EXPECT_OK(segments().find(name.substr(1), 100));
  EXPECT_EQ(segments().find(name, 101).code(), Code::kCorrupt);
  EXPECT_EQ(segments().find(name + "0", 100).code(), Code::kNotFound);
  EXPECT_EQ(segments().find("/torch_1_2", 100).code(), Code::kInvalid);
  const FileName elsewhere{FileKind::kSegment, token_ + 1, segment::number_of(0, 1)};
  EXPECT_EQ(segments().find("/" + elsewhere.text(), 100).code(), Code::kInvalid);
}

TEST_F(SegmentTest, AFileOfAnotherSizeIsRefused) {
  const channel::ChannelPtr queue = make_channel();
  LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  const std::string path = path_of(*lease);
  ASSERT_OK(queue->put({.leases = {&lease, 1}}, Deadline::after_seconds(10)));
  lease.reset();
  ASSERT_EQ(::truncate(path.c_str(), 50), 0);
  Incoming message;
  ASSERT_OK(queue->get(message, Deadline::after_seconds(10)));
  EXPECT_EQ(arena().open_memory(*message.leases()[0]).code(), Code::kCorrupt);
  EXPECT_EQ(message.leases()[0]->data(), nullptr);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_EQ(arena().open_memory(*message.leases()[0]).code(), Code::kNotFound);
}

TEST_F(SegmentTest, HandlesThatAreWrong) {
  const LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  const Holder self = Holder::process(domain().self());
  EXPECT_OK(arena().ledger().check(lease->handle(), self));
  for (const auto& damage : std::vector<void (*)(Handle&)>{
           [](Handle& handle) { handle.segment = 2; }, [](Handle& handle) { handle.block = 99; },
           [](Handle& handle) { handle.block = 0xffffffff; }, [](Handle& handle) { ++handle.generation; },
           [](Handle& handle) { ++handle.length; }, [](Handle& handle) { handle.offset = 64; },
           [](Handle& handle) { handle.lease = 12345; }, [](Handle& handle) { handle.segment = 0; }}) {
    Handle handle = lease->handle();
    damage(handle);
    EXPECT_EQ(arena().ledger().check(handle, self).code(), Code::kCorrupt);
  }
}

TEST_F(SegmentTest, ManyComeAndGo) {
  std::vector<LeasePtr> all;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i) all.push_back(create(64));
    EXPECT_THAT(files(), SizeIs(100));
    all.clear();
    EXPECT_THAT(files(), IsEmpty());
  }
}

// --- what is wrong outside

TEST_F(SegmentTest, ANameThatExistsAlreadyIsPassedOver) {
  const std::string taken =
      FileName{FileKind::kSegment, token_, segment::number_of(0, 1)}.in(segments().folder());
  std::ofstream(taken) << "mine";
  const LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  EXPECT_NE(path_of(*lease), taken);
  std::ifstream still(taken);
  std::string text;
  still >> text;
  EXPECT_EQ(text, "mine");
  ASSERT_EQ(::unlink(taken.c_str()), 0);
}

TEST_F(SegmentTest, ALimitOfFileSizes) {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  Child child([&] {
    const rlimit small{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const Result<LeasePtr> made = segments().create(8192);
    EXPECT_EQ(made.code(), Code::kNoSpace);
    EXPECT_THAT(made.status().to_string(), HasSubstr("RLIMIT_FSIZE"));
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(SegmentTest, TheBudgetHolds) {
  domain().set_budget(std::uint64_t{1} << 20);
  const LeasePtr lease = create(700'000);
  ASSERT_TRUE(lease);
  const Result<LeasePtr> more = segments().create(700'000);
  EXPECT_EQ(more.code(), Code::kOverBudget);
  EXPECT_THAT(more.status().to_string(), HasSubstr("700000 bytes asked"));
  EXPECT_THAT(files(), SizeIs(1));
  domain().set_budget(0);
  EXPECT_EQ(segments().create(std::uint64_t{1} << 45).code(), Code::kOverBudget);
}

TEST_F(SegmentTest, WithoutAManagerThereIsAClearError) {
  {
    const Variable nowhere("FORKLIFT_SHM_MANAGER", "/nowhere/forklift-shm-manager");
    const Result<LeasePtr> made = segments().create(100);
    EXPECT_EQ(made.code(), Code::kNotFound);
    EXPECT_THAT(made.status().to_string(), HasSubstr("FORKLIFT_SHM_MANAGER"));
    EXPECT_THAT(shm_files(token_), IsEmpty());
  }
  {
    const Variable another("FORKLIFT_SHM_MANAGER", "/bin/true");
    const Result<LeasePtr> made = segments().create(100);
    EXPECT_EQ(made.code(), Code::kPeerDied);
    EXPECT_THAT(made.status().to_string(), HasSubstr("ended without a word"));
    EXPECT_THAT(shm_files(token_), IsEmpty());
  }
  EXPECT_TRUE(create(100));
}

}  // namespace
}  // namespace forklift::test
