// A table of another room's objects (channels, topics) in a region of the control segment: a header, then
// rows.
//
//   ObjectTable<ChannelTable, ChannelRow> rows(arena, ObjectKind::kChannel, domain::Region::kChannels);
//   rows.connect([this](std::uint32_t index) { return empty(index); });
//   ...
//   Result<std::uint32_t> index = rows.claim(change, "channels", prepare);      // in Arena::hold_new
//   Result<LeasePtr> hold = rows.take_up(id.index, id.generation, "channel");   // in another process
//
// Rights to an object are leases in the ledger, so forked children inherit them, spawned ones are offered
// them, and the row is free when the last one has gone.
//
// Row has, beside what RowTable needs, the word count (of lease rows).
//
// Thread and process safety: all functions but connect may be called from any thread of any process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "arena/arena.h"
#include "arena/row_table.h"

namespace forklift::inline abi_0_1::arena {

template <class Header, class Row>
class ObjectTable : public RowTable<Header, Row> {
 public:
  ObjectTable(Arena& arena, ObjectKind kind, domain::Region region)
      : RowTable<Header, Row>(arena.domain(), region), arena_(arena), kind_(kind) {}
  using RowTable<Header, Row>::exists;

  // Tells the ledger how it counts, empties and frees the objects; see ObjectHooks. Once, before anybody else
  // uses the arena; the table must live as long as the arena.
  void connect(std::function<bool(std::uint32_t)> empty,
               std::function<std::uint64_t(std::uint64_t)> trim = nullptr) {
    arena_.ledger().set_object_hooks(
        kind_, {[this](std::uint32_t index) -> Word& { return (*this)[index].count; },
                std::move(empty),
                [this](sync::Transaction& change, std::uint32_t index) { this->free(change, index); },
                std::move(trim),
                [](const Handle&) { return false; },
                {},
                [this](sync::Transaction& change, std::uint32_t index) {
                  (void)this->begin_generation(change, index);
                }});
  }
  // The same for objects that travel in messages. `free_more` adds words to the transaction that frees a row.
  void connect_travelling(std::function<bool(std::uint32_t)> empty,
                          std::function<bool(const Handle&)> matches,
                          std::function<void(sync::Transaction&, std::uint32_t)> free_more) {
    const auto free_row = [this, free_more = std::move(free_more)](sync::Transaction& change,
                                                                   std::uint32_t index) {
      free_more(change, index);
      this->free(change, index);
    };
    arena_.ledger().set_object_hooks(
        kind_, {[this](std::uint32_t index) -> Word& { return (*this)[index].count; }, std::move(empty),
                free_row, nullptr, std::move(matches)});
  }

  // A lease on an existing object: the one that a parent entered for this process, or, where this process has
  // the object already, another one. kInvalid: it does not exist (any more), in words `what`.
  Result<LeasePtr> take_up(std::uint32_t index, std::uint32_t generation, std::string_view what) {
    if (!exists(index, generation)) return gone(index, generation, what);
    const Object object{kind_, index};
    Result<LeasePtr> hold = arena_.claim_row_for_self(object);
    if (!hold && hold.code() == Code::kInvalid) hold = arena_.hold(object);
    if (!hold) return hold.status();
    // In between, the last holder may have left and another process may have made a new object in this row.
    if (!exists(index, generation)) return gone(index, generation, what);
    return hold;
  }
  // Enters a child as a holder, so that the object lives until the child has taken it up.
  Status offer(std::uint32_t index, domain::SlotRef child) {
    if (Status status = arena_.check_child(); !status) return status;
    return arena_.ledger().hold_for({kind_, index}, Holder::process(child));
  }

 private:
  static Status gone(std::uint32_t index, std::uint32_t generation, std::string_view what) {
    return {Code::kInvalid, std::string(what) + " " + std::to_string(index) + " of generation " +
                                std::to_string(generation) + " does not exist (any more)"};
  }

  Arena& arena_;
  ObjectKind kind_;
};

}  // namespace forklift::inline abi_0_1::arena
