// The state of an interprocess event, in a page that the processes share.
//
//   std::shared_ptr<EventPage> page = EventPage::create();
//   std::uint32_t number = page->record();      // cuEventRecord
//   page->finish(number);                       // the device has come to it
//   page->wait(number, slice);                  // in another process
//
// Thread safety: all functions, also between processes. A process that ends before its work is done leaves its
// record unfinished for ever; the driver's documentation does not say what happens then.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace forklift::inline abi_0_1::device::cuda::fake {

class EventPage {
 public:
  static std::shared_ptr<EventPage> create();
  // Of another process; null: `fd` is no event's, or there is no memory. The descriptor is taken over.
  static std::shared_ptr<EventPage> adopt(int fd, const std::string& token);
  ~EventPage();
  EventPage(const EventPage&) = delete;
  EventPage& operator=(const EventPage&) = delete;

  int fd() const { return fd_; }
  const std::string& token() const { return token_; }

  std::uint32_t record();          // the number of a new record
  std::uint32_t recorded() const;  // the last one; 0: none
  void finish(std::uint32_t number);
  bool is_done(std::uint32_t number) const;
  void wait(std::uint32_t number, std::chrono::milliseconds slice) const;

  // In lazy mode the process that made a record does its work when another one asks for it.
  void ask_for(std::uint32_t number);
  std::uint32_t asked_for() const;
  // Waits until the bell has rung more often than `heard`, and returns how often. Each new question rings it.
  std::uint32_t listen(std::uint32_t heard) const;
  void ring();

 private:
  struct Shared;
  EventPage(int fd, std::string token, Shared* shared);

  int fd_;
  std::string token_;
  Shared* shared_;
};

}  // namespace forklift::inline abi_0_1::device::cuda::fake
