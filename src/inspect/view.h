// Another process's domain, seen from outside: its control segment, mapped to be read only.
//
//   Result<std::vector<View>> views = views_of(pid);      // of each domain that the process is in
//   const Header& header = views->front().header();
//
// The one who looks is no member of the domain: it takes no slot, no lock and no right, and stores nothing, but for the
// switch of traces where that was asked for. Everything that it reads may change meanwhile, and may be wrong where a
// process is being killed; what it says is checked before it is used.
//
// Ownership: a view keeps the segment's memory. Thread safety: any number of threads may read.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "domain/domain.h"
#include "os/fd.h"
#include "os/mapping.h"

namespace forklift::inline abi_0_1::inspect {

inline std::uint64_t load(const sync::Word& word) noexcept { return word.load(std::memory_order_acquire); }

// What a view's mapping allows. Writing is for the switch of traces and for giving the memory of rings back.
enum class Access : bool {
  kRead,
  kWrite
};

class View {
 public:
  // Of a domain that this process is in. It must outlive the view.
  explicit View(const domain::Domain& domain) noexcept;

  const domain::Header& header() const noexcept { return *reinterpret_cast<const domain::Header*>(base_); }
  std::span<const std::byte> region(domain::Region region) const noexcept;
  // The same as rows of one type, behind a table of another one.
  template <class Row, class Table>
  std::span<const Row> rows(domain::Region region) const noexcept {
    const std::span<const std::byte> all = this->region(region);
    if (all.size() < sizeof(Table)) return {};
    return {reinterpret_cast<const Row*>(all.data() + sizeof(Table)),
            (all.size() - sizeof(Table)) / sizeof(Row)};
  }
  std::span<const domain::Slot> slots() const noexcept;
  // The rings of traces. Nothing may be stored in them.
  trace::Region traces() const noexcept;
  // nullptr: the view is for reading only.
  trace::Tracer::Switch* trace_switch() const noexcept;
  // What lies at this offset of the segment, relative to the beginning of a region; nullopt: it is not in it.
  std::optional<std::uint64_t> within(domain::Region region, std::uint64_t offset) const noexcept;

 private:
  friend Result<View> view_of(const os::Fd& control, const std::string& owner, Access access);
  View(os::Mapping mapping, Access access);

  std::shared_ptr<const os::Mapping> mapping_;
  std::byte* base_;
  Access access_ = Access::kWrite;
};

// Of the domain whose control segment this is; `owner` names it in errors. kVersion, kCorrupt, kSystem.
Result<View> view_of(const os::Fd& control, const std::string& owner, Access access = Access::kRead);
// kInvalid: there is no such process, it has ended, or it is in no domain. kRefused: it may not be looked at. kVersion: it
// runs another version of this library. kCorrupt, kSystem.
Result<std::vector<View>> views_of(pid_t pid, Access access = Access::kRead);

}  // namespace forklift::inline abi_0_1::inspect
