#include "ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace forklift::test {

Ledger::Ledger() {
  std::string name = (std::filesystem::temp_directory_path() / "forklift-storm-XXXXXX").string();
  file_ = os::Fd(::mkostemp(name.data(), O_APPEND | O_CLOEXEC));
  if (!file_.valid()) std::abort();
  ::unlink(name.c_str());
}

void Ledger::write(Event event, std::uint32_t channel, std::uint64_t worker, std::uint64_t message) const {
  const Record record{message, worker, event, channel, 0};
  if (::write(file_.get(), &record, sizeof record) != sizeof record) std::abort();
}

std::vector<Record> Ledger::read_new() {
  std::vector<Record> records;
  for (;;) {
    constexpr std::size_t kBatch = 4096;
    const std::size_t had = records.size();
    records.resize(had + kBatch);
    const ssize_t got =
        ::pread(file_.get(), records.data() + had, kBatch * sizeof(Record), static_cast<off_t>(read_));
    const std::size_t whole = got > 0 ? static_cast<std::size_t>(got) / sizeof(Record) : 0;
    records.resize(had + whole);
    read_ += whole * sizeof(Record);
    if (whole < kBatch) return records;
  }
}

void Account::find(std::string what) {
  if (wrong_.size() < 20) wrong_.push_back(std::move(what));
}

void Account::enter(const std::vector<Record>& records) {
  for (const Record& record : records) {
    State& state = messages_[record.message];
    const std::string name = "message " + std::to_string(record.message >> 24) + "." +
                             std::to_string(record.message & 0xffffff) + " of channel " +
                             std::to_string(record.channel);
    state.channel = static_cast<std::uint8_t>(record.channel);
    switch (record.event) {
      case Event::kAbout: ++state.about; break;
      case Event::kPut:
        ++state.put;
        ++sent_[record.channel];
        break;
      case Event::kRefused: ++state.refused; break;
      case Event::kBad: find(name + " came with other contents"); [[fallthrough]];
      case Event::kGot: {
        ++received_[record.channel];
        if (++state.got > 1) find(name + " came " + std::to_string(state.got) + " times");
        std::uint64_t& last = last_[{record.worker, record.message >> 24}];
        const std::uint64_t count = record.message & 0xffffff;
        if (count <= last) find(name + " came behind number " + std::to_string(last));
        last = count;
        break;
      }
      case Event::kError: find("a call failed for " + name); break;
    }
  }
}

std::vector<std::string> Account::close() {
  std::array<std::uint64_t, kMostChannels> lost{};
  for (const auto& [number, state] : messages_) {
    const std::string name =
        "message " + std::to_string(number >> 24) + "." + std::to_string(number & 0xffffff);
    if (state.got != 0 && state.about == 0) find(name + " came and was never sent");
    if (state.got != 0 && state.refused != 0) find(name + " came although its put was refused");
    if (state.put != 0 && state.got == 0) ++lost[state.channel];
  }
  for (std::size_t channel = 0; channel < kMostChannels; ++channel) {
    if (lost[channel] > killed_consumers_[channel]) {
      find(std::to_string(lost[channel]) + " messages of channel " + std::to_string(channel) +
           " were lost, and only " + std::to_string(killed_consumers_[channel]) +
           " of its consumers were killed");
    }
  }
  return wrong_;
}

}  // namespace forklift::test
