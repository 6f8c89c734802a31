// Joining a domain by its descriptors: what is checked first, and a program started anew that joins.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "node/node.h"
#include "os/mapping.h"
#include "os/memfd.h"
#include "support/node_fixture.h"

namespace forklift::domain {
namespace {

using node::Invitation;
using node::Node;
using test::Child;
using testing::HasSubstr;

class JoinTest : public test::NodeFixture {
 protected:
  Status join() {
    Result<os::Fd> control = domain().control_file().duplicate();
    Result<os::Fd> data = domain().data_file().duplicate();
    EXPECT_OK(control);
    EXPECT_OK(data);
    return Domain::attach(*std::move(control), *std::move(data), std::nullopt).status();
  }
  // Joining after somebody has changed the header; it is put right again.
  Status join_after(const std::function<void(Header&)>& spoil) {
    alignas(64) std::array<std::byte, sizeof(Header)> saved;
    std::memcpy(saved.data(), domain().base(), sizeof(Header));
    spoil(domain().header());
    Status status = join();
    std::memcpy(domain().base(), saved.data(), sizeof(Header));
    return status;
  }
};

TEST_F(JoinTest, WhatIsRightIsJoined) {
  EXPECT_OK(join());
  EXPECT_OK(join());
}

TEST_F(JoinTest, AnotherLayoutVersionIsNamed) {
  const Status status = join_after([](Header& header) { header.layout_version = kLayoutVersion + 7; });
  EXPECT_CODE(Code::kVersion, status);
  EXPECT_THAT(std::string(status.what()), HasSubstr("version " + std::to_string(kLayoutVersion + 7)));
  EXPECT_CODE(Code::kVersion, join_after([](Header& header) { header.mutex_bytes += 8; }));
  EXPECT_CODE(Code::kVersion, join_after([](Header& header) { header.page_bytes *= 2; }));
}

TEST_F(JoinTest, AnotherUserOrPidNamespaceIsRefused) {
  const Status user = join_after([](Header& header) { header.user = 4711; });
  EXPECT_CODE(Code::kRefused, user);
  EXPECT_THAT(std::string(user.what()), HasSubstr("4711"));
  EXPECT_CODE(Code::kRefused, join_after([](Header& header) { ++header.pid_namespace; }));
}

TEST_F(JoinTest, AWrongHeaderIsCorrupt) {
  EXPECT_CODE(Code::kCorrupt, join_after([](Header& header) { header.magic ^= 1; }));
  EXPECT_CODE(Code::kCorrupt, join_after([](Header& header) { header.ready = 0; }));
  EXPECT_CODE(Code::kCorrupt, join_after([](Header& header) { header.control_bytes += 4096; }));
  EXPECT_CODE(Code::kCorrupt, join_after([](Header& header) { header.control_bytes = 0; }));
  EXPECT_CODE(Code::kCorrupt, join_after([](Header& header) { header.data_bytes /= 2; }));
  for (std::size_t region = 0; region < kRegions; ++region) {
    EXPECT_CODE(Code::kCorrupt,
                join_after([&](Header& header) { header.regions[region].offset = header.control_bytes; }));
    EXPECT_CODE(Code::kCorrupt, join_after([&](Header& header) { header.regions[region].bytes = ~0ULL; }));
    EXPECT_CODE(Code::kCorrupt, join_after([&](Header& header) { header.regions[region].bytes = 64; }));
    EXPECT_CODE(Code::kCorrupt, join_after([&](Header& header) { header.regions[region].offset += 1; }));
    EXPECT_CODE(Code::kCorrupt, join_after([&](Header& header) { header.regions[region].offset = 0; }));
  }
}

TEST_F(JoinTest, FilesThatAreNoDomainAreRefused) {
  const auto attach = [](Result<os::Fd> control, Result<os::Fd> data) {
    EXPECT_OK(control);
    EXPECT_OK(data);
    return Domain::attach(*std::move(control), *std::move(data), std::nullopt).status();
  };
  const auto copy_of = [](const os::Fd& file) { return file.duplicate(); };
  EXPECT_CODE(Code::kCorrupt, attach(os::create_memfd("forklift-test", 0), copy_of(domain().data_file())));
  EXPECT_CODE(Code::kCorrupt, attach(os::create_memfd("forklift-test", 100), copy_of(domain().data_file())));
  EXPECT_CODE(Code::kCorrupt,
              attach(os::create_memfd("forklift-test", 1 << 20), copy_of(domain().data_file())));
  EXPECT_CODE(Code::kCorrupt, attach(copy_of(domain().data_file()), copy_of(domain().control_file())));
  EXPECT_CODE(Code::kCorrupt,
              attach(copy_of(domain().control_file()), os::create_memfd("forklift-test", 4096)));
  EXPECT_CODE(Code::kSystem, attach(os::Fd(), os::Fd()));
}

TEST_F(JoinTest, ASlotThatWasNotReservedIsNotTaken) {
  Result<Invitation> invitation = node().invite();
  ASSERT_OK(invitation);
  ChildSlot wrong{{invitation->child.slot.index, invitation->child.slot.generation + 1},
                  std::move(invitation->child.lock)};
  EXPECT_CODE(Code::kInvalid,
              Domain::attach(std::move(invitation->control), std::move(invitation->data), std::move(wrong)));
  Result<os::Fd> lock = domain().control_file().reopen();
  ASSERT_OK(lock);
  ChildSlot own{domain().self(), *std::move(lock)};
  Result<os::Fd> control = domain().control_file().duplicate();
  Result<os::Fd> data = domain().data_file().duplicate();
  EXPECT_CODE(Code::kInvalid, Domain::attach(*std::move(control), *std::move(data), std::move(own)));
  EXPECT_EQ(domain().reap(), 1U);
}

// Arguments: descriptors of control, data and slot lock, then the slot's index and generation.
int join_and_answer(const std::vector<std::string>& arguments) {
  const auto number = [&](std::size_t at) { return std::stoi(arguments.at(at)); };
  std::optional<ChildSlot> slot;
  if (arguments.size() == 5) {
    slot.emplace(ChildSlot{{static_cast<std::uint32_t>(number(3)), static_cast<std::uint32_t>(number(4))},
                           os::Fd(number(2))});
  }
  Result<Node*> joined = Node::join(os::Fd(number(0)), os::Fd(number(1)), std::move(slot));
  if (!joined) {
    std::fprintf(stderr, "%s\n", joined.status().to_string().c_str());
    return 2;
  }
  Node& node = **joined;
  if (arguments.size() == 5 && node.domain().self().index != static_cast<std::uint32_t>(number(3))) return 3;
  if (Node::existing() != &node) return 4;
  // What was inherited must not leak into programs started from here.
  for (std::size_t at = 0; at < arguments.size() && at < 3; ++at) {
    if ((::fcntl(number(at), F_GETFD) & FD_CLOEXEC) == 0) return 5;
  }
  Result<arena::LeasePtr> block = node.arena().allocate(arena::Kind::kShare, 5000);
  if (!block) return 6;
  if (!node.audit().empty()) return 7;
  return ::getppid() > 0 ? 0 : 8;
}
const bool kHelper = test::add_helper("join", join_and_answer);

TEST_F(JoinTest, AProgramStartedAnewJoinsWithTheSlotReservedForIt) {
  ASSERT_TRUE(kHelper);
  Result<Invitation> invitation = node().invite();
  ASSERT_OK(invitation);
  const int control = invitation->control.get();
  const int data = invitation->data.get();
  const int lock = invitation->child.lock.get();
  const SlotRef slot = invitation->child.slot;
  Child child = test::start_helper("join",
                                   {std::to_string(control), std::to_string(data), std::to_string(lock),
                                    std::to_string(slot.index), std::to_string(slot.generation)},
                                   std::array{control, data, lock});
  invitation->child.lock.close();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(domain().is_dead(slot));
  EXPECT_GE(domain().reap(), 1U);
  EXPECT_EQ(domain().live_slots(), 1U);
}

TEST_F(JoinTest, AProgramStartedAnewJoinsWithASlotOfItsOwn) {
  const int control = domain().control_file().get();
  const int data = domain().data_file().get();
  Child child =
      test::start_helper("join", {std::to_string(control), std::to_string(data)}, std::array{control, data});
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(test::eventually([&] { return domain().reap(), domain().live_slots() == 1; }));
}

TEST_F(JoinTest, AnInvitationThatNobodyTookUpIsFreeAgain) {
  {
    Result<Invitation> invitation = node().invite();
    ASSERT_OK(invitation);
    EXPECT_EQ(domain().live_slots(), 2U);
  }
  EXPECT_EQ(domain().reap(), 1U);
}

}  // namespace
}  // namespace forklift::domain
