// Several Python objects through a channel: encoded into one buffer and put in one step, taken in one step and decoded
// into a list.
//
//   BatchPut batch(*channel, format, deadline, orphan_fd);
//   SendResult result;
//   while (result.sent == Sent::kDone && (object = PyIter_Next(iterator))) result = batch.add(object);
//   if (result.sent == Sent::kDone) result = batch.flush();
//   report(batch.put(), batch.left());
//
// All functions need the interpreter lock and release it while they wait.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/message/transfer.h"
#include "channel/batch.h"

namespace forklift::py {

class BatchPut {
 public:
  BatchPut(channel::Channel& channel, Format format, os::Deadline deadline, int orphan_fd)
      : channel_(channel), format_(format), deadline_(deadline), orphan_fd_(orphan_fd) {}
  ~BatchPut();
  BatchPut(const BatchPut&) = delete;
  BatchPut& operator=(const BatchPut&) = delete;

  // Steals the object. It may be put at once or later, with others; so a failure may be one of objects before it.
  // kUnpicklable: all objects before it are put.
  SendResult add(PyObject* object);
  // Puts what was added and is not put yet.
  SendResult flush();
  std::size_t put() const noexcept { return put_; }
  // A list of the objects that were added and not put. New reference, or nullptr with an exception set.
  PyObject* left() const;
  // Forgets the newest object that was added: the caller has dealt with it.
  void drop_newest();

 private:
  struct Message {
    std::size_t begin;  // in the writer's bytes
    std::uint8_t codec;
  };
  bool encode_small(PyObject* object);
  SendResult add_encoded(MessageWriter& writer);
  SendResult flush_before_error();
  SendResult note(std::size_t begin, std::uint8_t codec);
  // Of the oldest objects: they are put.
  void forget(std::size_t count);

  channel::Channel& channel_;
  Format format_;
  os::Deadline deadline_;
  int orphan_fd_;
  std::size_t put_ = 0;
  std::vector<PyObject*> objects_;  // references of ours; the first ones are those of `messages_`
  const WriterLoan writer_;         // its bytes are the messages', one behind the other
  std::vector<Message> messages_;
  std::vector<channel::Outgoing> outgoing_;
};

// Takes messages and appends their objects to `list`, at most `most`, waiting for the first only. `status`: why it took
// none, or took no more although it was to. False where an exception is set, which is that of a message that could not
// be decoded; the list has the others.
bool receive_many(channel::Channel& channel, Format format, std::size_t most, os::Deadline deadline,
                  int orphan_fd, const Delivery& delivery, PyObject* list, Status& status);

}  // namespace forklift::py
