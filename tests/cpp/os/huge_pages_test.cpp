#include "os/huge_pages.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "os/mapping.h"
#include "os/memfd.h"
#include "support/huge_pages.h"
#include "support/status_check.h"

namespace forklift::os {
namespace {

constexpr std::uint64_t kTerabyte = std::uint64_t{1} << 40;

class HugePageSettings : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/forklift-thp-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    std::filesystem::create_directory(folder_ / "hugepages-2048kB");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& file, const std::string& text) {
    std::ofstream(folder_ / file) << text << '\n';
  }
  // `all`: shmem_enabled; `ours`: that of 2 MiB, which older kernels have not.
  HugePages given(const std::string& all, const std::string& ours = "") {
    write("hpage_pmd_size", "2097152");
    write("shmem_enabled", all);
    const std::string file = "hugepages-2048kB/shmem_enabled";
    std::filesystem::remove(folder_ / file);
    if (!ours.empty()) write(file, ours);
    return huge_pages_of_shared_memory(folder_.string());
  }
  std::filesystem::path folder_;
};

TEST_F(HugePageSettings, AreTheKernelsWords) {
  EXPECT_EQ(given("always within_size advise [never] deny force"), HugePages::kOnRequest);
  EXPECT_EQ(given("always within_size [advise] never deny force"), HugePages::kOnAdvice);
  EXPECT_EQ(given("always [within_size] advise never deny force"), HugePages::kOnAdvice);
  EXPECT_EQ(given("[always] within_size advise never deny force"), HugePages::kOnAdvice);
  EXPECT_EQ(given("always within_size advise never deny [force]"), HugePages::kOnAdvice);
  EXPECT_EQ(given("always within_size advise never [deny] force"), HugePages::kNone);
}

TEST_F(HugePageSettings, OfTheSizeGoBeforeThoseOfAll) {
  const std::string advise = "always within_size [advise] never deny force";
  const std::string never = "always within_size advise [never] deny force";
  EXPECT_EQ(given(advise, "always [inherit] within_size advise never"), HugePages::kOnAdvice);
  EXPECT_EQ(given(never, "always [inherit] within_size advise never"), HugePages::kOnRequest);
  EXPECT_EQ(given(advise, "always inherit within_size advise [never]"), HugePages::kOnRequest);
  EXPECT_EQ(given(never, "always inherit within_size [advise] never"), HugePages::kOnAdvice);
}

TEST_F(HugePageSettings, AreMissingOrOfAnotherSize) {
  EXPECT_EQ(huge_pages_of_shared_memory(folder_.string()), HugePages::kNone);
  (void)given("always within_size [advise] never deny force");
  write("hpage_pmd_size", "536870912");
  EXPECT_EQ(huge_pages_of_shared_memory(folder_.string()), HugePages::kNone);
  write("hpage_pmd_size", "2097152");
  write("shmem_enabled", "no brackets");
  EXPECT_EQ(huge_pages_of_shared_memory(folder_.string()), HugePages::kNone);
}

TEST_F(HugePageSettings, SmapsIsReadWhereTheKernelCannotScan) {
  write("smaps",
        "10000000-10400000 rw-s 00000000 00:01 7 /memfd:a (deleted)\n"
        "Rss:                4096 kB\nShmemPmdMapped:     4096 kB\nFilePmdMapped:         0 kB\n"
        "20000000-20400000 rw-s 00000000 00:01 8 /memfd:b (deleted)\n"
        "ShmemPmdMapped:     2048 kB\n");
  const auto huge = [&](std::uintptr_t begin, std::size_t bytes) {
    return detail::huge_bytes_in((folder_ / "smaps").string(), reinterpret_cast<const void*>(begin), bytes);
  };
  EXPECT_EQ(huge(0x10000000, 0x400000), 4 * kHugePage / 2);
  EXPECT_EQ(huge(0x20000000, 0x400000), kHugePage);
  EXPECT_EQ(huge(0x10000000, 0x20000000), 3 * kHugePage);
  EXPECT_EQ(huge(0x10400000, 0x1000), 0U);
  EXPECT_EQ(detail::huge_bytes_in("/nowhere", nullptr, 4096), 0U);
}

TEST(HugePages, AreMadeThroughAWindowAndMappedAsAWhole) {
  if (!test::huge_pages_can_be_had()) GTEST_SKIP() << test::kNoHugePages;
  const HugePages given = huge_pages_of_shared_memory();
  ASSERT_NE(given, HugePages::kNone);
  Result<Fd> file = create_memfd("huge", kTerabyte);
  ASSERT_OK(file);
  Result<Mapping> memory = Mapping::shared(*file, 0, kTerabyte);
  ASSERT_OK(memory);
  constexpr std::uint64_t kAt = std::uint64_t{1} << 30;
  constexpr std::uint64_t kBytes = 4 * kHugePage;
  memory->data()[kAt + 5] = std::byte{7};  // a small page, whose contents stay
  make_huge_pages(*file, kAt, kBytes, given);
  struct stat info{};
  ASSERT_EQ(::fstat(file->get(), &info), 0);
  EXPECT_LE(static_cast<std::uint64_t>(info.st_blocks) * 512, kBytes);
  EXPECT_EQ(memory->data()[kAt + 5], std::byte{7});
  EXPECT_EQ(memory->data()[kAt + kBytes - 1], std::byte{0});
  populate_write(memory->data() + kAt, kBytes);
  const std::uint64_t huge = huge_bytes_mapped(memory->data(), memory->size());
  EXPECT_EQ(huge, detail::huge_bytes_in("/proc/self/smaps", memory->data(), memory->size()));
  EXPECT_GT(huge, 0U);
  EXPECT_LE(huge, kBytes);
  EXPECT_EQ(huge % kHugePage, 0U);
  EXPECT_EQ(huge_bytes_mapped(memory->data(), kAt), 0U);
  ASSERT_OK(punch_hole(*file, kAt, kBytes));
  ASSERT_EQ(::fstat(file->get(), &info), 0);
  EXPECT_EQ(info.st_blocks, 0);
}

TEST(HugePages, MappingsSuitThem) {
  Result<Fd> file = create_memfd("huge", std::uint64_t{1} << 30);
  ASSERT_OK(file);
  for (const std::uint64_t offset : {std::uint64_t{0}, kHugePage, kHugePage + 4096}) {
    Result<Mapping> memory = Mapping::shared(*file, offset, std::size_t{64} << 20);
    ASSERT_OK(memory);
    EXPECT_EQ((reinterpret_cast<std::uintptr_t>(memory->data()) - offset) % kHugePage, 0U) << offset;
    memory->data()[0] = std::byte{1};
    memory->data()[memory->size() - 1] = std::byte{2};
  }
}

}  // namespace
}  // namespace forklift::os
