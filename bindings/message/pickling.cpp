#include "bindings/message/pickling.h"

#include <memory>
#include <utility>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/message/native.h"
#include "bindings/torch/library.h"

namespace forklift::py {

namespace {

// Pieces of the stream up to this are gathered, larger ones (long bytes objects) stay where they are until
// they are copied into a block.
constexpr std::size_t kGatheredBytes = 32 * 1024;
// A stream up to this travels in the message, a longer one in a block.
constexpr std::size_t kInlineStream = 32 * 1024;
constexpr std::size_t kInlineBuffer = 4 * 1024;
constexpr std::uint32_t kReadOnlyFlag = 1;

thread_local MessageWriter* pickling = nullptr;
thread_local MessageReader* unpickling = nullptr;

// Sets one of the two for a scope. Scopes nest, since a reducer may put.
template <class T>
class Current {
 public:
  Current(T*& place, T* value) noexcept : place_(place), before_(std::exchange(place, value)) {}
  ~Current() { place_ = before_; }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  T*& place_;
  T* before_;
};

struct Piece {
  PyObject* owner;  // nullptr: `begin` counts in the gathered bytes
  const void* data;
  std::size_t begin;
  std::size_t bytes;
};

// The file that a pickler writes to, and where its out-of-band buffers go.
struct SinkObject {
  PyObject ob_base;
  std::vector<std::byte>* gathered;
  std::vector<Piece>* pieces;
  std::vector<Py_buffer>* buffers;
  std::size_t stream_bytes;
};

PyTypeObject* sink_type = nullptr;

void sink_clear(SinkObject* sink) {
  empty(*sink->gathered);
  sink->stream_bytes = 0;
  std::vector<Piece> pieces = std::move(*sink->pieces);
  sink->pieces->clear();
  for (const Piece& piece : pieces) Py_XDECREF(piece.owner);
  std::vector<Py_buffer> buffers = std::move(*sink->buffers);
  sink->buffers->clear();
  for (Py_buffer& view : buffers) PyBuffer_Release(&view);
}

void sink_dealloc(PyObject* self) {
  auto* sink = reinterpret_cast<SinkObject*>(self);
  PyTypeObject* type = Py_TYPE(self);
  sink_clear(sink);
  delete sink->gathered;
  delete sink->pieces;
  delete sink->buffers;
  type->tp_free(self);
  Py_DECREF(type);
}

// write(bytes-like): what the pickler calls. Large bytes objects are kept by reference.
PyObject* sink_write(PyObject* self, PyObject* chunk) {
  auto* sink = reinterpret_cast<SinkObject*>(self);
  Py_buffer view;
  if (PyObject_GetBuffer(chunk, &view, PyBUF_SIMPLE) != 0) return nullptr;
  const auto count = static_cast<std::size_t>(view.len);
  if (count > kGatheredBytes && PyBytes_CheckExact(chunk)) {
    sink->pieces->push_back({Py_NewRef(chunk), view.buf, 0, count});
  } else {
    const std::size_t begin = sink->gathered->size();
    const auto* bytes = static_cast<const std::byte*>(view.buf);
    sink->gathered->insert(sink->gathered->end(), bytes, bytes + count);
    if (!sink->pieces->empty() && !sink->pieces->back().owner) {
      sink->pieces->back().bytes += count;
    } else {
      sink->pieces->push_back({nullptr, nullptr, begin, count});
    }
  }
  sink->stream_bytes += count;
  PyBuffer_Release(&view);
  return PyLong_FromSize_t(count);
}

// buffer_callback: false keeps the buffer out of the stream.
PyObject* sink_take(PyObject* self, PyObject* buffer) {
  auto* sink = reinterpret_cast<SinkObject*>(self);
  Py_buffer view;
  if (PyObject_GetBuffer(buffer, &view, PyBUF_ANY_CONTIGUOUS) != 0) {
    PyErr_Clear();
    Py_RETURN_TRUE;  // the pickler says what is wrong with it
  }
  sink->buffers->push_back(view);
  Py_RETURN_FALSE;
}

// One pickler, its file, and the bound methods that are called for each message.
struct PickleState {
  PyObject* sink = nullptr;
  PyObject* dump = nullptr;
  PyObject* clear_memo = nullptr;
  PyObject* pickler = nullptr;

  PickleState() = default;
  PickleState(const PickleState&) = delete;
  PickleState& operator=(const PickleState&) = delete;
  ~PickleState() {
    Py_XDECREF(dump);
    Py_XDECREF(clear_memo);
    Py_XDECREF(pickler);
    Py_XDECREF(sink);
  }
  SinkObject& out() const { return *reinterpret_cast<SinkObject*>(sink); }
  bool open();
};

PyObject* new_sink() {
  auto* sink = reinterpret_cast<SinkObject*>(sink_type->tp_alloc(sink_type, 0));
  if (!sink) return nullptr;
  sink->gathered = new std::vector<std::byte>;
  sink->pieces = new std::vector<Piece>;
  sink->buffers = new std::vector<Py_buffer>;
  sink->stream_bytes = 0;
  return reinterpret_cast<PyObject*>(sink);
}

bool PickleState::open() {
  sink = new_sink();
  if (!sink) return false;
  PyObject* type = import_attribute("multiprocessing.reduction", "ForkingPickler");
  PyObject* take = type ? PyObject_GetAttrString(sink, "take") : nullptr;
  if (take) pickler = PyObject_CallFunction(type, "OiOO", sink, 5, Py_True, take);
  Py_XDECREF(take);
  Py_XDECREF(type);
  if (!pickler) return false;
  PyObject* make_table = import_attribute("forklift.reducers", "dispatch_table");
  PyObject* table = make_table ? PyObject_CallNoArgs(make_table) : nullptr;
  const int set = table ? PyObject_SetAttrString(pickler, "dispatch_table", table) : -1;
  Py_XDECREF(table);
  Py_XDECREF(make_table);
  if (set != 0) return false;
  dump = PyObject_GetAttrString(pickler, "dump");
  clear_memo = dump ? PyObject_GetAttrString(pickler, "clear_memo") : nullptr;
  return clear_memo != nullptr;
}

// Under the interpreter lock. A pickler in use is not in the list: a put inside a reducer takes another.
std::vector<std::unique_ptr<PickleState>>& idle_picklers() {
  static auto* const idle = new std::vector<std::unique_ptr<PickleState>>;
  return *idle;
}

std::unique_ptr<PickleState> take_pickler() {
  auto& idle = idle_picklers();
  if (!idle.empty()) {
    std::unique_ptr<PickleState> state = std::move(idle.back());
    idle.pop_back();
    return state;
  }
  auto state = std::make_unique<PickleState>();
  if (!state->open()) return nullptr;
  return state;
}

void give_pickler(std::unique_ptr<PickleState> state) {
  sink_clear(&state->out());
  PyObject* cleared = PyObject_CallNoArgs(state->clear_memo);
  if (!cleared) {
    PyErr_Clear();
    return;
  }
  Py_DECREF(cleared);
  auto& idle = idle_picklers();
  if (idle.size() < 4) idle.push_back(std::move(state));
}

struct BufferEntry {
  std::uint64_t length;
  std::uint32_t lease;
  std::uint32_t flags;
};
struct PickleHeader {
  std::uint32_t buffers;
  std::uint32_t stream_lease;
  std::uint64_t stream_bytes;
};

// Notes that the pieces of the stream are to be copied into one block, one behind another. Returns its lease.
std::uint32_t note_stream(SinkObject& sink, MessageWriter& writer) {
  std::uint32_t lease = 0;
  std::size_t offset = 0;
  for (Piece& piece : *sink.pieces) {
    const void* data = piece.owner ? piece.data : sink.gathered->data() + piece.begin;
    if (offset == 0) {
      message::PendingCopy& first = writer.message.note_copy(data, piece.bytes, arena::Kind::kShare);
      first.block_bytes = sink.stream_bytes;
      lease = first.lease;
    } else {
      writer.message.note_part(lease, offset, data, piece.bytes);
    }
    if (piece.owner) writer.owners.push_back(std::exchange(piece.owner, nullptr));
    offset += piece.bytes;
  }
  return lease;
}

void pack(SinkObject& sink, MessageWriter& writer) {
  std::vector<Py_buffer>& buffers = *sink.buffers;
  const bool inline_stream = sink.stream_bytes <= kInlineStream;
  PickleHeader header{static_cast<std::uint32_t>(buffers.size()), kInline, sink.stream_bytes};
  std::vector<std::byte>& out = writer.message.bytes();
  const auto append = [&out](const void* data, std::size_t count) {
    const auto* bytes = static_cast<const std::byte*>(data);
    out.insert(out.end(), bytes, bytes + count);
  };
  const std::size_t begin = out.size();
  const std::size_t entries_at = begin + sizeof header;
  out.resize(entries_at + buffers.size() * sizeof(BufferEntry));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    Py_buffer& view = buffers[i];
    const auto length = static_cast<std::size_t>(view.len);
    BufferEntry entry{length, kInline, 0};
    // As for arrays (array_codec.cpp): before 3.14 a buffer that went through the standard library arrived
    // writable.
    if (PY_VERSION_HEX >= 0x030e0000 && view.readonly) entry.flags = kReadOnlyFlag;
    if (length > kInlineBuffer) {
      entry.lease = writer.message.note_copy(view.buf, length, arena::Kind::kPrivate).lease;
      writer.views.push_back(view);
      view.obj = nullptr;
    }
    std::memcpy(out.data() + entries_at + i * sizeof entry, &entry, sizeof entry);
    if (entry.lease == kInline) append(view.buf, length);
  }
  if (inline_stream) {
    for (const Piece& piece : *sink.pieces) append(sink.gathered->data() + piece.begin, piece.bytes);
  } else {
    header.stream_lease = note_stream(sink, writer);
    std::swap(writer.keep, *sink.gathered);  // the pending copies read from it
  }
  std::memcpy(out.data() + begin, &header, sizeof header);
  writer.codec = message::kPickleCodec;
}

}  // namespace

MessageWriter* current_message() noexcept { return pickling; }
MessageReader* current_reader() noexcept { return unpickling; }

bool encode_pickle(PyObject* object, MessageWriter& writer) {
  torch::Library::meet();
  std::unique_ptr<PickleState> state = take_pickler();
  if (!state) return false;
  PyObject* done = nullptr;
  {
    const Current<MessageWriter> here(pickling, &writer);
    done = PyObject_CallOneArg(state->dump, object);
  }
  if (!done) {
    // A pickler that failed half way is not used again. What it held may run code when dropped.
    const KeepError keep;
    state.reset();
    return false;
  }
  Py_DECREF(done);
  pack(state->out(), writer);
  give_pickler(std::move(state));
  return true;
}

PyObject* decode_pickle(MessageReader& reader) {
  static PyObject* const loads = import_attribute("_pickle", "loads");
  static PyObject* const names = Py_BuildValue("(s)", "buffers");
  if (!loads || !names) return nullptr;
  const std::span<const std::byte> bytes = reader.body();
  PickleHeader header{};
  if (bytes.size() < sizeof header) return corrupt_message("a pickle without its header");
  std::memcpy(&header, bytes.data(), sizeof header);
  std::size_t at = sizeof header + std::size_t{header.buffers} * sizeof(BufferEntry);
  if (at > bytes.size()) return corrupt_message("a pickle's buffers");

  PyObject* buffers = nullptr;
  if (header.buffers != 0) {
    buffers = PyList_New(header.buffers);
    for (std::uint32_t i = 0; buffers && i < header.buffers; ++i) {
      BufferEntry entry{};
      std::memcpy(&entry, bytes.data() + sizeof header + i * sizeof entry, sizeof entry);
      const bool writable = (entry.flags & kReadOnlyFlag) == 0;
      PyObject* buffer = nullptr;
      if (entry.lease != kInline) {
        buffer = reader.buffer(entry.lease, entry.length, writable);
      } else if (entry.length > bytes.size() - at) {
        corrupt_message("a pickle's inline buffer");
      } else {
        const auto* text = reinterpret_cast<const char*>(bytes.data() + at);
        const auto length = static_cast<Py_ssize_t>(entry.length);
        buffer =
            writable ? PyByteArray_FromStringAndSize(text, length) : PyBytes_FromStringAndSize(text, length);
        at += entry.length;
      }
      if (buffer) {
        PyList_SET_ITEM(buffers, static_cast<Py_ssize_t>(i), buffer);
      } else {
        Py_CLEAR(buffers);
      }
    }
    if (!buffers) return nullptr;
  }

  const std::byte* stream = bytes.data() + at;
  if (header.stream_lease != kInline) {
    stream = reader.data(header.stream_lease, header.stream_bytes);
  } else if (header.stream_bytes != bytes.size() - at) {
    stream = nullptr;
    corrupt_message("a pickle's length");
  }
  PyObject* view = stream ? PyMemoryView_FromMemory(const_cast<char*>(reinterpret_cast<const char*>(stream)),
                                                    static_cast<Py_ssize_t>(header.stream_bytes), PyBUF_READ)
                          : nullptr;
  PyObject* object = nullptr;
  if (view) {
    PyObject* arguments[] = {view, buffers};
    const Current<MessageReader> here(unpickling, &reader);
    object = PyObject_Vectorcall(loads, arguments, 1, buffers ? names : nullptr);
    // The stream's memory goes away. A reducer that was given the view may have kept it and must not read it
    // then.
    const KeepError keep;
    PyObject* released = PyObject_CallMethod(view, "release", nullptr);
    Py_XDECREF(released);
    PyErr_Clear();
    Py_DECREF(view);
  }
  Py_XDECREF(buffers);
  return object;
}

int add_pickling_types(PyObject* module) {
  static PyMethodDef methods[] = {
      {"write", sink_write, METH_O, "Append a piece of the pickle stream."},
      {"take", sink_take, METH_O, "Keep a buffer out of the stream."},
      {nullptr, nullptr, 0, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(sink_dealloc)},
      {Py_tp_methods, methods},
      {0, nullptr},
  };
  static PyType_Spec spec = {"forklift._core._Sink", sizeof(SinkObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) return -1;
  sink_type = reinterpret_cast<PyTypeObject*>(type);
  return PyModule_AddObjectRef(module, "_Sink", type);
}

}  // namespace forklift::py
