#include "bindings/message/batch.h"

#include <utility>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/core/stats.h"
#include "bindings/message/encoder.h"
#include "bindings/message/object.h"
#include "message/message_builder.h"
#include "node/memory_wait.h"

namespace forklift::py {

namespace {

// A batch that grows beyond it is put. About half a chunk, so that most batches are one step.
constexpr std::size_t kMostBytes = 16 * 1024;
// Longer text is looked at by the codec as any other object is.
constexpr Py_ssize_t kSmallText = 256;

// Is it of a type whose encoding refers to no memory and runs no code?
bool is_small(PyObject* object) noexcept {
  PyTypeObject* const type = Py_TYPE(object);
  if (type == &PyLong_Type || type == &PyFloat_Type || object == Py_None || type == &PyBool_Type) return true;
  if (type == &PyUnicode_Type) return PyUnicode_GET_LENGTH(object) <= kSmallText;
  return type == &PyBytes_Type && PyBytes_GET_SIZE(object) <= kSmallText;
}

bool is_plain(MessageWriter& writer) noexcept {
  return !writer.message.noted() && writer.message.leases().empty() && writer.moves.empty() &&
         writer.owners.empty() && writer.views.empty() &&
         writer.message.bytes().size() <= channel::kInlineBytes;
}

// Lends a batch that nobody uses, so that its memory is reused. Under the interpreter lock.
class BatchLoan {
 public:
  BatchLoan() : batch_(std::exchange(idle(), nullptr)) {
    if (!batch_) batch_ = std::make_unique<channel::Batch>();
  }
  ~BatchLoan() { idle() = std::move(batch_); }
  BatchLoan(const BatchLoan&) = delete;
  BatchLoan& operator=(const BatchLoan&) = delete;
  channel::Batch& operator*() const noexcept { return *batch_; }

 private:
  static std::unique_ptr<channel::Batch>& idle() {
    static auto* const one = new std::unique_ptr<channel::Batch>;
    return *one;
  }
  std::unique_ptr<channel::Batch> batch_;
};

}  // namespace

BatchPut::~BatchPut() {
  for (PyObject* object : objects_) Py_DECREF(object);
}

void BatchPut::forget(std::size_t count) {
  put_ += count;
  const std::vector<PyObject*> done(objects_.begin(), objects_.begin() + static_cast<std::ptrdiff_t>(count));
  objects_.erase(objects_.begin(), objects_.begin() + static_cast<std::ptrdiff_t>(count));
  for (PyObject* object : done) Py_DECREF(object);
}

void BatchPut::drop_newest() {
  PyObject* newest = objects_.back();
  objects_.pop_back();
  Py_DECREF(newest);
}

PyObject* BatchPut::left() const {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(objects_.size()));
  for (std::size_t i = 0; list && i < objects_.size(); ++i)
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), Py_NewRef(objects_[i]));
  return list;
}

bool BatchPut::encode_small(PyObject* object) {
  if (!is_small(object)) return false;
  std::vector<std::byte>& bytes = writer_->message.bytes();
  const std::size_t begin = bytes.size();
  Encoder encoder(*writer_);
  if (encoder.encode(object, 0) == Encoded::kDone) return true;
  bytes.resize(begin);  // an int that is too large, a text that is no UTF-8
  return false;
}

SendResult BatchPut::note(std::size_t begin, std::uint8_t codec) {
  messages_.push_back({begin, codec});
  const bool full =
      messages_.size() == channel::kMostTogether || writer_->message.bytes().size() >= kMostBytes;
  return full ? flush() : SendResult();
}

SendResult BatchPut::add(PyObject* object) {
  objects_.push_back(object);
  if (format_ != Format::kPython) {
    SendResult result = send_object(channel_, object, format_, deadline_, true, orphan_fd_);
    if (result.sent == Sent::kDone) forget(1);
    return result;
  }
  const std::size_t begin = writer_->message.bytes().size();
  if (encode_small(object)) return note(begin, message::kNativeCodec);
  const WriterLoan writer;
  if (!encode_object(object, *writer)) return flush_before_error();
  return add_encoded(*writer);
}

// The newest object could not be encoded: those before it come first.
SendResult BatchPut::flush_before_error() {
  PyObject* error = take_exception();
  SendResult flushed = flush();
  if (flushed.sent != Sent::kDone) {
    Py_XDECREF(error);
    return flushed;
  }
  put_exception(error);
  return {Sent::kUnpicklable, {}};
}

SendResult BatchPut::add_encoded(MessageWriter& writer) {
  std::vector<std::byte>& bytes = writer_->message.bytes();
  if (is_plain(writer)) {
    const std::size_t begin = bytes.size();
    bytes.insert(bytes.end(), writer.message.bytes().begin(), writer.message.bytes().end());
    return note(begin, writer.codec);
  }
  SendResult result = flush();
  if (result.sent == Sent::kDone) result = send_encoded(channel_, writer, deadline_, true, orphan_fd_);
  if (result.sent == Sent::kDone) forget(1);
  return result;
}

SendResult BatchPut::flush() {
  if (messages_.empty()) return {};
  std::vector<std::byte>& bytes = writer_->message.bytes();
  outgoing_.clear();
  std::size_t end = bytes.size();
  outgoing_.resize(messages_.size());
  for (std::size_t i = messages_.size(); i-- > 0;) {
    outgoing_[i].bytes = {bytes.data() + messages_[i].begin, end - messages_[i].begin};
    outgoing_[i].codec = messages_[i].codec;
    end = messages_[i].begin;
  }
  std::size_t done = 0;
  Status status;
  {
    GilRelease released;
    PyHooks hooks(released);
    hooks.orphan_fd = orphan_fd_;
    node::MemoryWait memory(channel_.arena(), bytes.size(), deadline_, true);
    do {
      std::size_t count = 0;
      status = channel_.put_many(std::span(outgoing_).subspan(done), count, deadline_, &hooks);
      done += count;
    } while (memory.again(status, &hooks));
  }
  count_put(done == messages_.size() ? bytes.size() : messages_[done].begin, done);
  messages_.clear();
  bytes.clear();
  forget(done);
  return status ? SendResult() : SendResult{Sent::kFailed, std::move(status)};
}

namespace {

// The first failure of a receive_many(), kept while the other messages are decoded.
class FirstError {
 public:
  ~FirstError() { Py_XDECREF(error_); }
  // Takes the exception that is set.
  void note() {
    PyObject* error = take_exception();
    if (error_) {
      Py_XDECREF(error);
    } else {
      error_ = error;
    }
  }
  explicit operator bool() const noexcept { return error_ != nullptr; }
  void restore() { put_exception(std::exchange(error_, nullptr)); }

 private:
  PyObject* error_ = nullptr;
};

bool append_decoded(channel::Channel& channel, MessageReader& reader, Format format, const Delivery& delivery,
                    PyObject* list) {
  Status status;
  PyObject* object = delivery.finish(decode_message(channel, reader, format, status));
  if (!object) {
    if (!status) raise(status);
    return false;
  }
  const bool appended = PyList_Append(list, object) == 0;
  Py_DECREF(object);
  return appended;
}

}  // namespace

bool receive_many(channel::Channel& channel, Format format, std::size_t most, os::Deadline deadline,
                  int orphan_fd, const Delivery& delivery, PyObject* list, Status& status) {
  const ReaderLoan reader;
  const BatchLoan batch;
  const Delivery::Scope scope(&delivery);
  FirstError error;
  for (std::size_t got = 0; got < most;) {
    {
      GilRelease released;
      PyHooks hooks(released);
      hooks.orphan_fd = orphan_fd;
      status = channel.get_many(*batch, reader->message, most - got,
                                got == 0 ? deadline : os::Deadline::after_ns(0), &hooks);
      if (status && (*batch).empty()) reader->isolate();
    }
    if (!status) break;
    const std::size_t came = (*batch).empty() ? 1 : (*batch).size();
    got += came;
    count_got(came);
    for (std::size_t i = 0; i < came; ++i) {
      if (!(*batch).empty()) (*batch).show(i, reader->message);
      if (!append_decoded(channel, *reader, format, delivery, list)) error.note();
    }
    reader->clear();
    if (channel.empty()) break;
  }
  if (error) error.restore();
  return !error && !PyErr_Occurred();
}

}  // namespace forklift::py
