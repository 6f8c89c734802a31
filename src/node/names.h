// Names of objects within a domain: what one process publishes, another opens.
//
//   Status told = node.names().publish(
//       "frames", {.object = {ObjectKind::kChannel, id.index}, .generation = id.generation});
//   Result<Published> found = node.names().find("frames");
//   Status gone = node.names().unpublish("frames");
//
// A name is a holder like a process or a message: a row of the ledger keeps the object for as long as the
// name is there, whoever published it and whatever became of that process. The row and the name change in one
// transaction, so a death in between leaves both or neither, and there is nothing to repair.
//
// Thread and process safety: all functions may be called from any thread of any process.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "arena/arena.h"

namespace forklift::inline abi_0_1::node {

using sync::Word;

inline constexpr std::size_t kNameBytes = 64;

struct NameRow {
  Word meta;        // 1 in use
  Word object;      // as in a lease row
  Word generation;  // of the object
  Word lease;       // the row of the ledger
  Word kind;        // what sort of queue, lock, ... it is (node/published.h)
  Word reserved[3];
  Word name[kNameBytes / sizeof(Word)];  // padded with zeros
};
static_assert(sizeof(NameRow) == 128);

struct NameTable {
  Word used;  // no row at or above it was ever in use
  Word unused[15];
};
static_assert(sizeof(NameTable) == sizeof(NameRow));

struct Published {
  arena::Object object{};
  std::uint32_t generation = 0;
  std::uint64_t kind = 0;
  std::string name;
};

// Is it 1 to 64 letters, digits, '.', '_' or '-', and does not begin with a dot? kInvalid says what is wrong.
// The error says: "frames" as the name of `what`: ...
Status check_name(std::string_view name, std::string_view what);

class Names {
 public:
  explicit Names(arena::Arena& arena);
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  // The object must be held by this process meanwhile. kExists, kInvalid (no name), kNoSpace, kStalled.
  Status publish(std::string_view name, const Published& what);
  Result<Published> find(std::string_view name);  // kNotFound
  // The object goes with its last holder. kNotFound.
  Status unpublish(std::string_view name);
  Result<std::vector<Published>> list();

  // N1 of docs/layout.md, in words.
  std::vector<std::string> audit();
  std::uint64_t count();
  std::uint64_t capacity() const noexcept { return capacity_; }

 private:
  using Packed = std::array<std::uint64_t, kNameBytes / sizeof(Word)>;
  static Packed pack(std::string_view name) noexcept;
  static Published read(const NameRow& row);
  // With the ledger's lock held. `capacity_`: there is none.
  std::uint64_t row_of(const Packed& name) const noexcept;
  std::uint64_t free_row() const noexcept;
  std::uint64_t used() const noexcept;

  arena::Arena& arena_;
  NameTable* table_;
  NameRow* rows_;
  std::uint64_t capacity_;
};

}  // namespace forklift::inline abi_0_1::node
