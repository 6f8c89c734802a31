#include "node/names.h"

#include <algorithm>
#include <cstring>

namespace forklift::inline abi_0_1::node {

namespace {

bool allowed(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '.' || letter == '_' || letter == '-';
}

std::string quoted(std::string_view name) {
  std::string text;
  text += '"';
  text += name.substr(0, kNameBytes);
  text += name.size() > kNameBytes ? "...\"" : "\"";
  return text;
}

Status not_published(std::string_view name) {
  return {Code::kNotFound, "nothing is published as " + quoted(name) + " in this domain"};
}

}  // namespace

Status check_name(std::string_view name, std::string_view what) {
  if (!name.empty() && name.size() <= kNameBytes && name.front() != '.' &&
      std::all_of(name.begin(), name.end(), allowed)) {
    return {};
  }
  return {Code::kInvalid, quoted(name).append(" as the name of ").append(what).append(": 1 to ") +
                              std::to_string(kNameBytes) +
                              " letters, digits, '.', '_' or '-', not beginning with a dot"};
}

Names::Names(arena::Arena& arena) : arena_(arena) {
  const std::span<std::byte> region = arena.domain().region(domain::Region::kNames);
  table_ = reinterpret_cast<NameTable*>(region.data());
  rows_ = reinterpret_cast<NameRow*>(region.data() + sizeof(NameTable));
  capacity_ = (region.size() - sizeof(NameTable)) / sizeof(NameRow);
}

Names::Packed Names::pack(std::string_view name) noexcept {
  Packed packed{};
  std::memcpy(packed.data(), name.data(), std::min(name.size(), kNameBytes));
  return packed;
}

Published Names::read(const NameRow& row) {
  std::array<char, kNameBytes> text{};
  for (std::size_t i = 0; i < kNameBytes / sizeof(Word); ++i) {
    const std::uint64_t word = row.name[i].load(std::memory_order_relaxed);
    std::memcpy(text.data() + i * sizeof word, &word, sizeof word);
  }
  return {arena::Object::unpack(row.object.load(std::memory_order_relaxed)),
          static_cast<std::uint32_t>(row.generation.load(std::memory_order_relaxed)),
          row.kind.load(std::memory_order_relaxed),
          std::string(text.data(), ::strnlen(text.data(), text.size()))};
}

std::uint64_t Names::used() const noexcept {
  return std::min(table_->used.load(std::memory_order_relaxed), capacity_);
}

std::uint64_t Names::row_of(const Packed& name) const noexcept {
  for (std::uint64_t index = 0; index < used(); ++index) {
    const NameRow& row = rows_[index];
    if (row.meta.load(std::memory_order_relaxed) == 0) continue;
    bool same = true;
    for (std::size_t i = 0; same && i < name.size(); ++i)
      same = row.name[i].load(std::memory_order_relaxed) == name[i];
    if (same) return index;
  }
  return capacity_;
}

std::uint64_t Names::free_row() const noexcept {
  for (std::uint64_t index = 0; index < used(); ++index) {
    if (rows_[index].meta.load(std::memory_order_relaxed) == 0) return index;
  }
  return used();
}

Status Names::publish(std::string_view name, const Published& what) {
  if (Status status = check_name(name, "a published object"); !status) return status;
  const Packed packed = pack(name);
  // The holder's word names the row, so the row is chosen before the transaction, and checked again inside
  // it.
  for (;;) {
    std::uint64_t index = capacity_;
    Status looked = arena_.ledger().change_objects([&](sync::Transaction&) -> Status {
      if (row_of(packed) != capacity_)
        return {Code::kExists, quoted(name) + " is published in this domain already"};
      index = free_row();
      if (index >= capacity_)
        return {Code::kNoSpace, "all " + std::to_string(capacity_) + " names of the domain are in use"};
      return {};
    });
    if (!looked) return looked;
    bool raced = false;
    Status done =
        arena_.ledger().hold_for(what.object, arena::Holder::name(static_cast<std::uint32_t>(index)),
                                 [&](sync::Transaction& change, std::uint32_t lease) -> Status {
                                   raced = row_of(packed) != capacity_ || free_row() != index;
                                   if (raced) return {Code::kExists, "another process was faster"};
                                   NameRow& row = rows_[index];
                                   if (index >= used()) change.set(table_->used, index + 1);
                                   change.set(row.meta, 1);
                                   change.set(row.object, what.object.pack());
                                   change.set(row.generation, what.generation);
                                   change.set(row.lease, lease);
                                   change.set(row.kind, what.kind);
                                   for (std::size_t i = 0; i < packed.size(); ++i)
                                     change.set(row.name[i], packed[i]);
                                   return {};
                                 });
    if (!raced) return done;
  }
}

Result<Published> Names::find(std::string_view name) {
  if (Status status = check_name(name, "a published object"); !status) return status;
  Published found;
  Status status = arena_.ledger().change_objects([&](sync::Transaction&) -> Status {
    const std::uint64_t index = row_of(pack(name));
    if (index == capacity_) return not_published(name);
    found = read(rows_[index]);
    return {};
  });
  if (!status) return status;
  return found;
}

Status Names::unpublish(std::string_view name) {
  if (Status status = check_name(name, "a published object"); !status) return status;
  for (;;) {
    std::uint64_t index = capacity_;
    Status looked = arena_.ledger().change_objects([&](sync::Transaction&) -> Status {
      index = row_of(pack(name));
      return index == capacity_ ? not_published(name) : Status();
    });
    if (!looked) return looked;
    bool raced = false;
    const Result<arena::LeasePtr> taken = arena_.take_over(
        arena::Holder::name(static_cast<std::uint32_t>(index)),
        [&](sync::Transaction& change) -> Result<std::uint32_t> {
          raced = row_of(pack(name)) != index;
          if (raced) return Status(Code::kNotFound, "another process was faster");
          change.set(rows_[index].meta, 0);
          return static_cast<std::uint32_t>(rows_[index].lease.load(std::memory_order_relaxed));
        });
    if (!raced) return taken.status();
  }
}

Result<std::vector<Published>> Names::list() {
  std::vector<Published> found;
  Status status = arena_.ledger().change_objects([&](sync::Transaction&) -> Status {
    for (std::uint64_t index = 0; index < used(); ++index) {
      if (rows_[index].meta.load(std::memory_order_relaxed) != 0) found.push_back(read(rows_[index]));
    }
    return {};
  });
  if (!status) return status;
  return found;
}

std::uint64_t Names::count() {
  const Result<std::vector<Published>> all = list();
  return all ? all->size() : 0;
}

std::vector<std::string> Names::audit() {
  std::vector<std::string> wrong;
  Status status = arena_.ledger().change_objects([&](sync::Transaction&) -> Status {
    for (std::uint64_t index = 0; index < used(); ++index) {
      if (rows_[index].meta.load(std::memory_order_relaxed) == 0) continue;
      const auto held_by = arena::Holder::name(static_cast<std::uint32_t>(index));
      const arena::Object object = arena::Object::unpack(rows_[index].object.load(std::memory_order_relaxed));
      const auto rows = arena_.ledger().rows_of(held_by, object.kind);
      if (rows.size() != 1 || rows.front().second.index != object.index ||
          rows.front().first != rows_[index].lease.load(std::memory_order_relaxed)) {
        wrong.push_back("N1: the name \"" + read(rows_[index]).name + "\" has " +
                        std::to_string(rows.size()) + " rows in the ledger");
      }
    }
    return {};
  });
  if (!status) wrong.push_back("N1: " + status.to_string());
  return wrong;
}

}  // namespace forklift::inline abi_0_1::node
