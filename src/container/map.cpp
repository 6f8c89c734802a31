#include "container/map.h"

#include <bit>
#include <string>
#include <type_traits>

#include "container/hash.h"

namespace forklift::inline abi_0_1::container {

namespace {

std::uint64_t bucket_count(std::uint64_t capacity) noexcept {
  return std::bit_ceil(capacity < 4 ? std::uint64_t{4} : capacity);
}
// One more than the capacity: a value is replaced by a new node even where the map is full.
std::uint64_t node_count(const Shape& shape) noexcept { return shape.capacity + 1; }
std::uint64_t node_bytes(const Shape& shape) noexcept {
  return sizeof(Word) + padded(shape.key_bytes) + padded(shape.item_bytes);
}

// The parts of a block. Copies of what the block says of them: a read is too short to ask again for each node.
class Nodes {
 public:
  explicit Nodes(const Block& block)
      : buckets_(bucket_count(block.shape().capacity)),
        count_(node_count(block.shape())),
        stride_(node_bytes(block.shape())),
        key_bytes_(block.shape().key_bytes),
        buckets_at_(block.items()),
        nodes_at_(buckets_at_ + buckets_ * sizeof(Word)) {}

  Word& bucket(std::uint64_t index) const noexcept { return *(word_at(buckets_at_) + index); }
  std::uint64_t buckets() const noexcept { return buckets_; }
  Word& next(std::uint64_t node) const noexcept { return *word_at(at(node)); }
  std::byte* key(std::uint64_t node) const noexcept { return at(node) + sizeof(Word); }
  std::byte* value(std::uint64_t node) const noexcept { return key(node) + padded(key_bytes_); }
  std::uint64_t count() const noexcept { return count_; }

  // The word that refers to the key's node, or the last one of its chain. Null: the chain is no chain.
  Word* find(const void* key, std::uint64_t& node) const noexcept {
    constexpr std::integral_constant<std::uint64_t, sizeof(Word)> kOneWord;  // as most keys are
    return key_bytes_ == kOneWord ? find_key_of(kOneWord, key, node) : find_key_of(key_bytes_, key, node);
  }

 private:
  template <class Bytes>
  Word* find_key_of(Bytes bytes, const void* key, std::uint64_t& node) const noexcept {
    Word* link = &bucket(hash_of(key, bytes) & (buckets_ - 1));
    for (std::uint64_t steps = 0; steps <= count_; ++steps) {
      const std::uint64_t to = link->load(std::memory_order_relaxed);
      node = to;
      if (to == 0) return link;
      if (to > count_) return nullptr;
      if (equals(this->key(to - 1), key, bytes)) return link;
      link = &next(to - 1);
    }
    return nullptr;
  }

  std::byte* at(std::uint64_t node) const noexcept { return nodes_at_ + node * stride_; }
  const std::uint64_t buckets_;
  const std::uint64_t count_;
  const std::uint64_t stride_;
  const std::uint64_t key_bytes_;
  std::byte* const buckets_at_;
  std::byte* const nodes_at_;
};

Status corrupt() { return {Code::kCorrupt, "a SharedMap whose chains lead nowhere"}; }

// One change of several words.
class Change {
 public:
  explicit Change(Writer& writer)
      : writer_(writer), words_(writer.header().redo, reinterpret_cast<std::byte*>(&writer.header())) {}
  void set(Word& word, std::uint64_t value) noexcept { words_.set(word, value); }
  void commit() noexcept {
    writer_.begin();
    words_.commit();
    writer_.end();
  }

 private:
  Writer& writer_;
  sync::Transaction words_;
};

// A node that nobody can reach, which `change` takes from the list of free ones; nothing: there is none.
std::uint64_t take_node(Writer& writer, const Nodes& nodes, Change& change, std::uint64_t& free_after) {
  Header& header = writer.header();
  free_after = header.free_nodes.load(std::memory_order_relaxed);
  if (free_after != 0 && free_after <= nodes.count()) {
    const std::uint64_t node = free_after;
    free_after = nodes.next(node - 1).load(std::memory_order_relaxed);
    return node;
  }
  free_after = 0;
  const std::uint64_t used = header.used.load(std::memory_order_relaxed);
  if (used >= nodes.count()) return 0;
  change.set(header.used, used + 1);
  return used + 1;
}

// Takes the node that `link` refers to out of its chain, and frees it.
void unlink(Writer& writer, const Nodes& nodes, Word& link, std::uint64_t node) noexcept {
  Header& header = writer.header();
  Change change(writer);
  change.set(link, nodes.next(node - 1).load(std::memory_order_relaxed));
  change.set(nodes.next(node - 1), header.free_nodes.load(std::memory_order_relaxed));
  change.set(header.free_nodes, node);
  change.set(header.size, header.size.load(std::memory_order_relaxed) - 1);
  change.commit();
}

}  // namespace

bool map_bytes(const Shape& shape, std::uint64_t& bytes) noexcept {
  if (shape.capacity >= std::uint64_t{1} << 56) return false;
  return !__builtin_mul_overflow(node_count(shape), node_bytes(shape), &bytes) &&
         !__builtin_add_overflow(bytes, bucket_count(shape.capacity) * sizeof(Word), &bytes);
}

Status assign(Writer& writer, const void* key, const void* value, If when, bool& was_there) {
  const Block& block = writer.block();
  const Nodes nodes(block);
  Header& header = writer.header();
  std::uint64_t old = 0;
  Word* const link = nodes.find(key, old);
  if (link == nullptr) return corrupt();
  was_there = old != 0;
  if ((was_there && when == If::kAbsent) || (!was_there && when == If::kPresent)) return {};
  const std::uint64_t size = header.size.load(std::memory_order_relaxed);
  if (!was_there && size >= block.shape().capacity)
    return {Code::kNoSpace, "a SharedMap of " + std::to_string(block.shape().capacity) + " elements is full"};

  Change change(writer);
  std::uint64_t free = 0;
  const std::uint64_t node = take_node(writer, nodes, change, free);
  if (node == 0) return corrupt();
  copy_in(nodes.key(node - 1), key, block.shape().key_bytes);
  copy_in(nodes.value(node - 1), value, block.shape().item_bytes);
  if (was_there) {
    change.set(nodes.next(node - 1), nodes.next(old - 1).load(std::memory_order_relaxed));
    change.set(nodes.next(old - 1), free);
    change.set(header.free_nodes, old);
  } else {
    change.set(nodes.next(node - 1), 0);
    change.set(header.free_nodes, free);
    change.set(header.size, size + 1);
  }
  change.set(*link, node);
  change.commit();
  return {};
}

Status erase(Writer& writer, const void* key, bool& was_there) {
  const Nodes nodes(writer.block());
  std::uint64_t node = 0;
  Word* const link = nodes.find(key, node);
  if (link == nullptr) return corrupt();
  was_there = node != 0;
  if (was_there) unlink(writer, nodes, *link, node);
  return {};
}

Status clear_map(Writer& writer) {
  const Nodes nodes(writer.block());
  for (std::uint64_t i = 0; i < nodes.buckets(); ++i) {
    Word& bucket = nodes.bucket(i);
    while (const std::uint64_t node = bucket.load(std::memory_order_relaxed)) {
      if (node > nodes.count()) return corrupt();
      unlink(writer, nodes, bucket, node);
    }
  }
  return {};
}

Status find_locked(Writer& writer, const void* key, void* value, bool& found) {
  const Nodes nodes(writer.block());
  std::uint64_t node = 0;
  if (nodes.find(key, node) == nullptr) return corrupt();
  found = node != 0;
  if (found) copy_out(value, nodes.value(node - 1), writer.block().shape().item_bytes);
  return {};
}

Status find(Block& block, const void* key, void* value, bool& found) {
  const Nodes nodes(block);
  bool sound = true;
  Status status = block.read([&] {
    std::uint64_t node = 0;
    sound = nodes.find(key, node) != nullptr;
    found = sound && node != 0;
    if (found && value != nullptr) copy_out(value, nodes.value(node - 1), block.shape().item_bytes);
  });
  if (!status) return status;
  return sound ? Status() : corrupt();
}

Status copy_elements(Block& block, MakeRoom make_room, void* context) {
  const Nodes nodes(block);
  const std::uint64_t key_bytes = block.shape().key_bytes;
  const std::uint64_t item_bytes = block.shape().item_bytes;
  for (;;) {
    const std::uint64_t room = block.size();
    auto* const to = static_cast<std::byte*>(make_room(context, room));
    std::uint64_t size = 0;
    bool sound = true;
    Status status = block.read([&] {
      size = 0;
      sound = true;
      for (std::uint64_t i = 0; i < nodes.buckets() && sound; ++i) {
        std::uint64_t node = nodes.bucket(i).load(std::memory_order_relaxed);
        for (; node != 0 && sound; node = nodes.next(node - 1).load(std::memory_order_relaxed)) {
          sound = node <= nodes.count() && size < nodes.count();
          if (sound && size < room) {
            std::byte* const element = to + size * (key_bytes + item_bytes);
            copy_out(element, nodes.key(node - 1), key_bytes);
            copy_out(element + key_bytes, nodes.value(node - 1), item_bytes);
          }
          if (!sound) break;
          ++size;
        }
      }
    });
    if (!status) return status;
    if (!sound) return corrupt();
    if (size <= room) {
      (void)make_room(context, size);
      return {};
    }
  }
}

}  // namespace forklift::inline abi_0_1::container
