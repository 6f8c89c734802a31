// Shared containers: a writer is killed after every instruction; each change has happened or has not, and all of the
// container can be used afterwards.
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "container/map.h"
#include "container/vector.h"
#include "step/lock_operation.h"

namespace forklift::test {
namespace {

using container::Block;
using container::BlockPtr;
using container::If;
using container::Shape;
using container::Writer;

// Two words and a half, whose parts belong together.
struct Item {
  std::array<std::uint32_t, 5> parts{};
  static Item of(std::uint32_t number) {
    Item made;
    made.parts.fill(number);
    return made;
  }
  bool operator==(const Item&) const = default;
};

class OnContainer : public LockOperation {
 public:
  void prepare() override {
    std::memset(memory_->data(), 0, memory_->size());
    block_ = must(Block::make({memory_->data(), memory_->size()}, nullptr, shape_, world_.node().domain()));
    fill();
  }

 protected:
  explicit OnContainer(const Shape& shape) : shape_(shape) {
    memory_ = must(world_.node().arena().allocate(Kind::kShare, must(container::bytes_for(shape)), true));
    world_.mark();
  }
  virtual void fill() = 0;
  // What is there now; the next writer completes what was begun.
  virtual std::string now(Findings& found) = 0;
  virtual void use_all(Findings& found) = 0;

  void survive(const Death& death, Findings& found) override {
    {
      const Writer writer(*block_);
      if (!writer.ok()) found.add("no writer gets the lock: " + writer.status().to_string());
    }
    const std::string there = now(found);
    if (there != before_ && there != after_) found.add("there is " + there);
    if (death.returned && there != after_) found.add("a change that had returned is lost");
    if ((block_->header().version.load() & 1) != 0) found.add("the version is odd");
    saw(there == after_);
    use_all(found);
  }
  void drop() override { block_.reset(); }

  const Shape shape_;
  LeasePtr memory_;
  BlockPtr block_;
  std::string before_, after_;
};

class OnVector : public OnContainer {
 public:
  using Change = void (*)(Writer& writer);
  OnVector(Change change, std::string after)
      : OnContainer({container::Kind::kVector, 1, 4, 0, sizeof(Item)}), change_(change) {
    before_ = "1 2 3 ";
    after_ = std::move(after);
  }
  void act() override {
    Writer writer(*block_);
    must(writer.status());
    change_(writer);
  }

 protected:
  void fill() override {
    Writer writer(*block_);
    for (const std::uint32_t i : {1U, 2U, 3U}) {
      const Item item = Item::of(i);
      must(container::push_back(writer, &item));
    }
  }
  std::string now(Findings& found) override {
    std::vector<Item> items;
    must(container::copy_all(
        *block_,
        [](void* into, std::uint64_t size) -> void* {
          static_cast<std::vector<Item>*>(into)->resize(size);
          return static_cast<std::vector<Item>*>(into)->data();
        },
        &items));
    std::string text;
    for (const Item& item : items) {
      if (item != Item::of(item.parts[0])) found.add("half an item");
      text += std::to_string(item.parts[0]) + " ";
    }
    return text;
  }
  void use_all(Findings& found) override {
    Writer writer(*block_);
    const Item item = Item::of(9);
    while (block_->size() < 4) must(container::push_back(writer, &item));
    for (std::uint64_t i = 0; i < 4; ++i)
      if (!container::replace(writer, i, &item)) found.add("an item is not there");
  }

 private:
  Change change_;
};

const Item kSeven = Item::of(7);

TEST(ContainerStep, PushBack) {
  kill_lock("shared vector, push_back",
            OnVector([](Writer& writer) { must(container::push_back(writer, &kSeven)); }, "1 2 3 7 "));
}
TEST(ContainerStep, PopBack) {
  const auto pop = [](Writer& writer) {
    Item item;
    (void)container::pop_back(writer, &item);
  };
  kill_lock("shared vector, pop_back", OnVector(pop, "1 2 "));
}
TEST(ContainerStep, Replace) {
  kill_lock("shared vector, set",
            OnVector([](Writer& writer) { (void)container::replace(writer, 1, &kSeven); }, "1 7 3 "));
}

class OnMap : public OnContainer {
 public:
  using Change = void (*)(Writer& writer);
  OnMap(Change change, std::string after)
      : OnContainer({container::Kind::kMap, 1, 4, sizeof(std::uint64_t), sizeof(Item)}), change_(change) {
    before_ = "1:1 2:2 3:3 ";
    after_ = std::move(after);
  }
  void act() override {
    Writer writer(*block_);
    must(writer.status());
    change_(writer);
  }

 protected:
  static constexpr std::size_t kElement = sizeof(std::uint64_t) + sizeof(Item);

  static Status try_put(Writer& writer, std::uint64_t key, std::uint32_t number) {
    bool was_there = false;
    const Item item = Item::of(number);
    return container::assign(writer, &key, &item, If::kAny, was_there);
  }
  static void put(Writer& writer, std::uint64_t key, std::uint32_t number) {
    must(try_put(writer, key, number));
  }
  void fill() override {
    Writer writer(*block_);
    // A node comes from the list of free ones, the next from those that were never used.
    put(writer, 4, 4);
    for (std::uint32_t i = 1; i < 4; ++i) put(writer, i, i);
    bool was_there = false;
    const std::uint64_t four = 4;
    must(container::erase(writer, &four, was_there));
  }
  std::string now(Findings& found) override {
    std::vector<std::byte> bytes;
    const Status copied = container::copy_elements(
        *block_,
        [](void* into, std::uint64_t size) -> void* {
          static_cast<std::vector<std::byte>*>(into)->resize(size * kElement);
          return static_cast<std::vector<std::byte>*>(into)->data();
        },
        &bytes);
    if (!copied) found.add("there is no sound chain: " + copied.to_string());
    std::map<std::uint64_t, std::uint32_t> all;
    for (std::size_t at = 0; at < bytes.size(); at += kElement) {
      std::uint64_t key = 0;
      Item item;
      std::memcpy(&key, bytes.data() + at, sizeof key);
      std::memcpy(&item, bytes.data() + at + sizeof key, sizeof item);
      if (item != Item::of(item.parts[0])) found.add("half a value");
      if (!all.emplace(key, item.parts[0]).second) found.add("a key that is there twice");
    }
    if (all.size() != block_->size()) found.add("the size is " + std::to_string(block_->size()));
    std::string text;
    for (const auto& [key, number] : all) text += std::to_string(key) + ":" + std::to_string(number) + " ";
    return text;
  }
  void use_all(Findings& found) override {
    Writer writer(*block_);
    Status status = container::clear_map(writer);
    for (std::uint32_t i = 10; i < 14 && status; ++i) status = try_put(writer, i, i);
    for (std::uint32_t i = 10; i < 14 && status; ++i) status = try_put(writer, i, i + 1);
    if (!status || block_->size() != 4) found.add("there is no use of all nodes: " + status.to_string());
  }

 private:
  Change change_;
};

class Puts : public OnMap {
 public:
  Puts(Change change, std::string after) : OnMap(change, std::move(after)) {}
  using OnMap::put;
};

TEST(ContainerStep, Insert) {
  kill_lock("shared map, insert",
            OnMap([](Writer& writer) { Puts::put(writer, 17, 17); }, "1:1 2:2 3:3 17:17 "));
}
TEST(ContainerStep, Assign) {
  kill_lock("shared map, assign", OnMap([](Writer& writer) { Puts::put(writer, 2, 7); }, "1:1 2:7 3:3 "));
}
TEST(ContainerStep, Erase) {
  const auto erase = [](Writer& writer) {
    bool was_there = false;
    const std::uint64_t two = 2;
    must(container::erase(writer, &two, was_there));
  };
  kill_lock("shared map, erase", OnMap(erase, "1:1 3:3 "));
}

}  // namespace
}  // namespace forklift::test
