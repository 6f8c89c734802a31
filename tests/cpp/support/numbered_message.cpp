#include "support/numbered_message.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace forklift::test {

void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "a test cannot go on: %s\n", status.to_string().c_str());
  std::abort();
}

void fill_pattern(std::byte* data, std::size_t size, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (std::size_t i = 0; i < size; ++i) {
    if (i % 8 == 0) state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    data[i] = static_cast<std::byte>(state >> (8 * (i % 8)));
  }
}

bool is_pattern(const std::byte* data, std::size_t size, std::uint64_t seed) {
  std::vector<std::byte> wanted(size);
  fill_pattern(wanted.data(), size, seed);
  return size == 0 || std::memcmp(data, wanted.data(), size) == 0;
}

Message::Message(Node& node, const Shape& shape, std::uint64_t number) : bytes_(shape.bytes) {
  const std::uint64_t head[2] = {number, shape.bytes};
  std::memcpy(bytes_.data(), head, sizeof head);
  fill_pattern(bytes_.data() + sizeof head, shape.bytes - sizeof head, number);
  for (std::size_t i = 0; i < shape.blocks.size(); ++i) {
    leases_.push_back(must(node.arena().allocate(shape.kind, shape.blocks[i])));
    fill_pattern(leases_.back()->data(), shape.blocks[i], number * 31 + i);
  }
}

Status Message::put(channel::Channel& channel, os::Deadline deadline) {
  return channel.put(outgoing(), deadline);
}

Status Message::put(topic::Topic& topic, os::Deadline deadline) { return topic.put(outgoing(), deadline); }

std::uint64_t read_message(Incoming& message, const Shape& shape, Findings& found) {
  std::uint64_t head[2] = {};
  if (message.bytes().size() < sizeof head) {
    found.add("a message of " + std::to_string(message.bytes().size()) + " bytes");
    return 0;
  }
  std::memcpy(head, message.bytes().data(), sizeof head);
  const std::string name = "message " + std::to_string(head[0]);
  if (message.codec() != 7 || message.tag() != 42) found.add(name + " has another header");
  if (head[1] != message.bytes().size() ||
      !is_pattern(message.bytes().data() + sizeof head, message.bytes().size() - sizeof head, head[0]))
    found.add(name + " has other bytes");
  if (message.bytes().size() != shape.bytes) return head[0];  // of another shape: no leases
  if (message.leases().size() != shape.blocks.size()) {
    found.add(name + " has " + std::to_string(message.leases().size()) + " leases");
    return head[0];
  }
  for (std::size_t i = 0; i < shape.blocks.size(); ++i) {
    const LeasePtr& lease = message.leases()[i];
    if (lease->size() != shape.blocks[i] || !is_pattern(lease->data(), lease->size(), head[0] * 31 + i))
      found.add(name + " has other contents in lease " + std::to_string(i));
  }
  return head[0];
}

std::unique_ptr<Incoming> used_before(Node& node) {
  auto message = std::make_unique<Incoming>();
  const ChannelPtr scratch = must(channel::Channel::create(node.channels(), {}));
  must(Message(node, {}, 1).put(*scratch));
  must(scratch->get(*message, os::Deadline::after_seconds(2)));
  message->clear();
  return message;
}

}  // namespace forklift::test
