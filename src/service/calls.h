// The table of calls and servers as one process sees it.
//
//   Result<std::uint32_t> row = calls.claim(Role::kServer, requests->id(), "Resize -> Image");
//   bool any = calls.served(requests->id());
//   calls.release(*row);
//
// Thread and process safety: all functions may be called from any thread of any process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "channel/channel.h"
#include "service/tables.h"

namespace forklift::inline abi_0_1::service {

inline std::uint64_t owner_word(domain::SlotRef process) noexcept {
  return (std::uint64_t{process.generation} << 32) | (std::uint64_t{process.index} + 1);
}
inline domain::SlotRef owner_of(std::uint64_t word) noexcept {
  return {static_cast<std::uint32_t>(word) - 1, static_cast<std::uint32_t>(word >> 32)};
}
inline std::uint64_t channel_word(channel::ChannelId id) noexcept {
  return (std::uint64_t{id.generation} << 32) | id.index;
}
inline channel::ChannelId channel_of(std::uint64_t word) noexcept {
  return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
}

class Calls {
 public:
  // Registers what the reaper calls; the object must live as long as the domain.
  explicit Calls(channel::Channels& channels);
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  channel::Channels& channels() const noexcept { return channels_; }
  domain::Domain& domain() const noexcept { return channels_.domain(); }

  // A row of this process's. kNoSpace, kNotAttached.
  Result<std::uint32_t> claim(Role role, channel::ChannelId channel, std::string_view text = {});
  // Does nothing where the row is not this process's, as in a forked child.
  void release(std::uint32_t index) noexcept;
  Row& operator[](std::uint32_t index) const noexcept { return rows_[index]; }
  // Rows that were ever in use. Other processes write the word, so the table's end bounds it.
  std::uint64_t used() const noexcept;

  // Does a process live that serves these requests?
  bool served(channel::ChannelId requests) const;
  // How many servers there are, and what one of them says of its types; empty: there is none.
  unsigned servers(channel::ChannelId requests) const;
  std::string types(channel::ChannelId requests) const;

  // Makes the client of a row look at its state.
  void tell(std::uint32_t index) noexcept;

  // V1 of service/tables.h, in words.
  std::vector<std::string> audit() const;
  std::uint64_t live() const noexcept;

 private:
  void clear(Row& row) noexcept;
  bool reap(domain::SlotRef slot) noexcept;
  // Calls use(row) for each live server of these requests until it returns true.
  template <class Use>
  void each_server(channel::ChannelId requests, Use&& use) const;

  channel::Channels& channels_;
  Table* table_;
  Row* rows_;
  std::uint64_t capacity_;
};

}  // namespace forklift::inline abi_0_1::service
