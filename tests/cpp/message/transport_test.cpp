// Values and tensors through a channel: what travels as a handle, what is copied, what is shared.
#include "message/transport.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "channel/channel.h"
#include "node/node.h"
#include "tensor/arena_storage.h"

namespace forklift::tensor {
namespace {

class Transport : public testing::Test {
 protected:
  // The view for private payloads is mapped once a process and stays.
  static void SetUpTestSuite() {
    const Result<node::Node*> node = node::Node::current();
    ASSERT_TRUE(node.ok()) << node.status().to_string();
    const Result<arena::LeasePtr> lease = (*node)->arena().allocate(arena::Kind::kPrivate, kHeapCopyBytes);
    ASSERT_TRUE(lease.ok() && (*node)->arena().privatise(**lease).ok());
  }

  void SetUp() override {
    const Result<node::Node*> node = node::Node::current();
    ASSERT_TRUE(node.ok()) << node.status().to_string();
    node_ = *node;
    Result<channel::ChannelPtr> made = channel::Channel::create(node_->channels(), {});
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    channel_ = *std::move(made);
    blocks_before_ = node_->arena().stats().held_blocks;
  }
  void TearDown() override {
    channel_.reset();
    EXPECT_EQ(node_->arena().stats().held_blocks, blocks_before_);
    EXPECT_TRUE(node_->audit().empty());
  }

  std::uint64_t blocks() { return node_->arena().stats().held_blocks - blocks_before_; }

  Result<Value> pass(const Value& value, arena::Kind copies = arena::Kind::kShare) {
    message::MessageBuilder builder(node_->arena(), copies);
    if (Status status = builder.add(value); !status) return status;
    if (Status status = channel_->put(builder.message(), os::Deadline::never()); !status) return status;
    if (Status status = channel_->get(incoming_, os::Deadline::after_seconds(5)); !status) return status;
    EXPECT_EQ(incoming_.codec(), message::kPortableCodec);
    return message::unpack(incoming_);
  }

  static Tensor numbers(Tensor tensor) {
    float next = 0;
    for (float& x : tensor.span<float>()) x = next++;
    return tensor;
  }

  node::Node* node_ = nullptr;
  channel::ChannelPtr channel_;
  channel::Incoming incoming_;
  std::uint64_t blocks_before_ = 0;
};

TEST_F(Transport, ValuesWithoutTensorsArriveEqual) {
  const Value value =
      Value::Map{{"n", 3}, {"x", 0.5}, {"list", Value::List{1, "two", nullptr}}, {"b", Value::Bytes(9)}};
  const Result<Value> back = pass(value);
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(*back, value);
}

TEST_F(Transport, ALongValueLiesInABlockOnTheWay) {
  const Value value = Value::List{std::string(100'000, 'x'), 1};
  const Result<Value> back = pass(value);
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(*back, value);
  incoming_.clear();
}

TEST_F(Transport, ATensorInTheArenaIsTheSameMemoryAtBothEnds) {
  const Tensor sent = numbers(Tensor::zeros({4, 8}, DType::kFloat32));
  const Result<Value> back = pass(sent);
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  const Tensor got = back->as<Tensor>();
  EXPECT_TRUE(got.same_elements(sent));
  sent.at<float>({1, 2}) = 99;
  EXPECT_EQ(got.at<float>({1, 2}), 99);
  EXPECT_EQ(blocks(), 1U);
}

TEST_F(Transport, AViewTravelsWithItsStridesAndWithoutACopy) {
  const Tensor whole = numbers(Tensor::empty({4, 8}, DType::kFloat32));
  const Tensor view = whole.transpose(0, 1).slice(0, 6, 1, -2);
  const Result<Value> back = pass(view.as_readonly());
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  const Tensor got = back->as<Tensor>();
  EXPECT_TRUE(got.same_elements(view));
  EXPECT_TRUE(got.readonly());
  EXPECT_EQ(got.strides(), view.strides());
  EXPECT_EQ(blocks(), 1U);
}

TEST_F(Transport, TensorsOfOneBlockShareOneLease) {
  const Tensor whole = numbers(Tensor::empty({4, 8}, DType::kFloat32));
  message::MessageBuilder builder(node_->arena());
  ASSERT_TRUE(builder.add(Value(Value::List{whole, whole.select(0, 1), whole.narrow(1, 2, 3)})).ok());
  EXPECT_EQ(builder.leases().size(), 1U);
  ASSERT_TRUE(channel_->put(builder.message(), os::Deadline::never()).ok());
  ASSERT_TRUE(channel_->get(incoming_, os::Deadline::never()).ok());
  const Result<Value> back = message::unpack(incoming_);
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  const auto got = back->as<std::vector<Tensor>>();
  EXPECT_EQ(got[0].storage(), got[2].storage());
  EXPECT_TRUE(got[1].same_elements(whole.select(0, 1)));
}

TEST_F(Transport, OtherMemoryIsCopiedInTheOrderThatItHas) {
  const Tensor heap = numbers(Tensor::wrap(Storage::heap(32 * sizeof(float)), DType::kFloat32, {4, 8}));
  const Tensor fortran = heap.transpose(0, 1);
  const Result<Value> back = pass(Value::List{heap, fortran, heap.slice(1, 1, 7, 3)});
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  const auto got = back->as<std::vector<Tensor>>();
  EXPECT_TRUE(got[0].same_elements(heap));
  EXPECT_TRUE(got[1].same_elements(fortran));
  EXPECT_TRUE(got[1].is_contiguous(Order::kF));
  EXPECT_TRUE(got[2].is_contiguous());
  EXPECT_NE(got[0].storage()->arena_lease(), nullptr);
  heap.at<float>({0, 0}) = -1;
  EXPECT_EQ(got[0].at<float>({0, 0}), 0);
}

TEST_F(Transport, PrivateCopiesShowNoLease) {
  for (const std::int64_t count : {100, 100'000}) {
    const Tensor heap = Tensor::wrap(Storage::heap(static_cast<std::size_t>(count)), DType::kUInt8, {count});
    Tensor(heap).fill<std::uint8_t>(7);
    const Result<Value> back = pass(heap, arena::Kind::kPrivate);
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    const Tensor got = back->as<Tensor>();
    EXPECT_TRUE(got.same_elements(heap));
    EXPECT_EQ(got.storage()->arena_lease(), nullptr);
    EXPECT_EQ(blocks(), count == 100 ? 0U : 1U);
    EXPECT_TRUE(pass(got).ok());  // and is copied when it is sent again
  }
}

TEST_F(Transport, EmptyTensorsAndScalarsTravel) {
  const Tensor none = Tensor::empty({0, 5}, DType::kInt64);
  EXPECT_EQ(none.storage(), nullptr);
  const Tensor one = Tensor::zeros({}, DType::kComplex128);
  const Result<Value> back = pass(Value::List{none, one, Tensor()});
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  const auto got = back->as<std::vector<Tensor>>();
  EXPECT_EQ(got[0].to_string(), none.to_string());
  EXPECT_TRUE(got[1].same_elements(one));
  EXPECT_EQ(got[2].numel(), 0);
}

TEST_F(Transport, TheLastUserPassesItsOwnLeaseOn) {
  Tensor tensor = Tensor::zeros({16}, DType::kInt32);
  const std::uint64_t leases = node_->arena().stats().leases;
  {
    const message::LastUse last(tensor, node_->arena());
    ASSERT_TRUE(last);
    EXPECT_EQ(node_->arena().stats().leases, leases);
    ASSERT_TRUE(channel_->put(last.message(), os::Deadline::never()).ok());
  }
  tensor = Tensor();
  EXPECT_EQ(node_->arena().stats().leases, leases);
  ASSERT_TRUE(channel_->get(incoming_, os::Deadline::never()).ok());
  const Result<Tensor> got = message::unpack_tensor(incoming_);
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_EQ(got->to_string(), "int32(16,)");
}

TEST_F(Transport, OnlyTheOnlyUserHasALastUse) {
  const Tensor tensor = Tensor::zeros({4, 4}, DType::kInt32);
  EXPECT_TRUE(message::LastUse(tensor, node_->arena()));
  {
    const Tensor view = tensor.narrow(0, 1, 2);
    EXPECT_FALSE(message::LastUse(tensor, node_->arena()));
    EXPECT_FALSE(message::LastUse(view, node_->arena()));
  }
  EXPECT_TRUE(message::LastUse(tensor, node_->arena()));
  EXPECT_FALSE(message::LastUse(Tensor(), node_->arena()));
  EXPECT_FALSE(message::LastUse(Tensor::zeros({0, 4}, DType::kInt32), node_->arena()));
  std::vector<float> numbers(8);
  const Tensor elsewhere = Tensor::wrap(Storage::borrow(numbers.data(), 32), DType::kFloat32, {8});
  EXPECT_FALSE(message::LastUse(elsewhere, node_->arena()));
}

TEST_F(Transport, AFullChannelLeavesTheTensorUsable) {
  Result<channel::ChannelPtr> small = channel::Channel::create(node_->channels(), {.capacity = 1});
  ASSERT_TRUE(small.ok());
  ASSERT_TRUE((*small)->put({}, os::Deadline::never()).ok());
  const Tensor tensor = Tensor::zeros({16}, DType::kInt32);
  const message::LastUse last(tensor, node_->arena());
  ASSERT_TRUE(last);
  EXPECT_EQ((*small)->put(last.message(), os::Deadline::after_ns(0)).code(), Code::kTimeout);
  EXPECT_TRUE(pass(tensor).ok());
  ASSERT_TRUE(channel_->put(last.message(), os::Deadline::never()).ok());
  // That put passed the lease on: to send the tensor again is an error, not a crash.
  EXPECT_EQ(pass(tensor).code(), Code::kInvalid);
}

TEST_F(Transport, ManyTensorsSpillTheirHandles) {
  std::vector<Value> list;
  for (int i = 0; i < 400; ++i) {
    Tensor one = Tensor::empty({1}, DType::kInt32);
    *one.data<std::int32_t>() = i;
    list.emplace_back(std::move(one));
  }
  const Result<Value> back = pass(Value(Value::List(list)));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  const auto got = back->as<std::vector<Tensor>>();
  for (int i = 0; i < 400; ++i) EXPECT_EQ(*got[static_cast<std::size_t>(i)].data<std::int32_t>(), i);
  incoming_.clear();
}

TEST_F(Transport, WhatIsNoTensorMessageIsSaidSo) {
  const auto send = [&](std::vector<std::byte> bytes) {
    ASSERT_TRUE(channel_->put({bytes, {}, message::kPortableCodec, 0}, os::Deadline::never()).ok());
    ASSERT_TRUE(channel_->get(incoming_, os::Deadline::never()).ok());
  };
  message::MessageBuilder builder(node_->arena());
  ASSERT_TRUE(builder.add(Value("text")).ok());
  send(builder.bytes());
  EXPECT_EQ(message::unpack_tensor(incoming_).code(), Code::kInvalid);
  builder.clear();
  ASSERT_TRUE(builder.add(Tensor::zeros({16}, DType::kInt32)).ok());
  send(builder.bytes());  // without its lease
  EXPECT_EQ(message::unpack_tensor(incoming_).code(), Code::kCorrupt);
  send({builder.bytes().begin(), builder.bytes().end() - 1});
  EXPECT_EQ(message::unpack_tensor(incoming_).code(), Code::kCorrupt);
  send({});
  EXPECT_EQ(message::unpack_tensor(incoming_).code(), Code::kCorrupt);
  EXPECT_EQ(message::unpack(incoming_).code(), Code::kCorrupt);
}

}  // namespace
}  // namespace forklift::tensor
