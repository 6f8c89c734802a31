#include "bindings/torch/codec.h"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/message/codec_table.h"
#include "bindings/message/encoder.h"
#include "bindings/torch/library.h"
#include "bindings/torch/memory.h"
#include "message/transport.h"

namespace forklift::py::torch {

namespace {

constexpr std::uint16_t kParameter = 1;
constexpr std::uint16_t kRequiresGrad = 2;

struct Head {
  std::uint32_t lease = message::kNoLease;
  Element element{};
  std::uint16_t flags = 0;
  std::uint64_t storage_bytes = 0;
};
static_assert(sizeof(Head) == 16);
struct Geometry {
  std::uint64_t byte_offset = 0;
  std::uint32_t ndim = 0;
  std::uint32_t zero = 0;
};
static_assert(sizeof(Geometry) == 16);
constexpr std::size_t kGeometryAt = sizeof(Head);
constexpr std::size_t kShapeAt = kGeometryAt + sizeof(Geometry);

// Where the message finds the storage's memory: its place among the leases.
std::uint32_t lease_for(PyObject* owner, void* impl, std::byte* data, std::size_t bytes,
                        MessageWriter& writer) {
  for (const PlacedStorage& placed : writer.storages) {
    if (placed.impl == impl) return placed.lease;
  }
  const Held* held = find_held(impl, data);
  const std::uint32_t lease =
      held ? writer.message.note_share(held->lease) : writer.note_move(owner, impl, data, bytes);
  writer.storages.push_back({impl, lease});
  return lease;
}

template <class T>
void append(std::vector<std::byte>& out, const T* from, std::size_t count = 1) {
  const auto* bytes = reinterpret_cast<const std::byte*>(from);
  out.insert(out.end(), bytes, bytes + count * sizeof(T));
}

// What torch asks before it sends a tensor that autograd knows of. Nothing here runs Python code: the
// attributes are torch's own, and no mode is active.
bool requires_grad(const Library& library, PyObject* tensor, bool& elsewhere) {
  static PyObject* const names[] = {PyUnicode_InternFromString("requires_grad"),
                                    PyUnicode_InternFromString("is_leaf"),
                                    PyUnicode_InternFromString("_backward_hooks")};
  elsewhere = library.modes_are_active();
  if (elsewhere) return false;
  PyObject* wants = PyObject_GetAttr(tensor, names[0]);
  PyObject* leaf = wants == Py_True ? PyObject_GetAttr(tensor, names[1]) : nullptr;
  PyObject* hooks = leaf == Py_True ? PyObject_GetAttr(tensor, names[2]) : nullptr;
  elsewhere = PyErr_Occurred() != nullptr || (wants == Py_True && (leaf != Py_True || hooks != Py_None));
  PyErr_Clear();
  const bool answer = wants == Py_True;
  Py_XDECREF(wants);
  Py_XDECREF(leaf);
  Py_XDECREF(hooks);
  return answer;
}

// Bytes from the first element to behind the last one; nothing where that overflows or is negative.
bool extent(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides, std::size_t item,
            std::uint64_t& bytes) {
  __extension__ using Wide = unsigned __int128;
  Wide last = 0;
  bool empty = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0 || strides[i] < 0) return false;
    empty = empty || shape[i] == 0;
    if (shape[i] > 1)
      last += Wide(static_cast<std::uint64_t>(shape[i] - 1)) * static_cast<std::uint64_t>(strides[i]);
    if (!empty && last > (Wide(1) << 60)) return false;
  }
  bytes = empty ? 0 : static_cast<std::uint64_t>((last + 1) * item);
  return true;
}

struct Description {
  Head head;
  Geometry geometry;
  std::array<std::int64_t, 2 * kMaxDims> dims{};
  std::uint64_t bytes = 0;  // that the elements are spread over
  std::span<const std::int64_t> shape() const { return {dims.data(), geometry.ndim}; }
  std::span<const std::int64_t> strides() const { return {dims.data() + geometry.ndim, geometry.ndim}; }
};

bool read(std::span<const std::byte> payload, Description& out) {
  if (payload.size() < kShapeAt) return false;
  std::memcpy(&out.head, payload.data(), sizeof out.head);
  std::memcpy(&out.geometry, payload.data() + kGeometryAt, sizeof out.geometry);
  const std::size_t ndim = out.geometry.ndim;
  if (ndim > kMaxDims || payload.size() != kShapeAt + 16 * ndim) return false;
  if (ndim != 0) std::memcpy(out.dims.data(), payload.data() + kShapeAt, 16 * ndim);
  const std::size_t item = out.head.element.size();
  if (item == 0 || out.head.element.bits % 8 != 0) return false;
  if (!extent(out.shape(), out.strides(), item, out.bytes)) return false;
  if (out.geometry.byte_offset >> 60 != 0) return false;
  // An empty tensor may have its offset anywhere.
  return out.bytes == 0 ||
         (out.geometry.byte_offset % item == 0 && out.geometry.byte_offset <= out.head.storage_bytes &&
          out.bytes <= out.head.storage_bytes - out.geometry.byte_offset);
}

// The storage of a lease, as an object: its first tensor in this message, or one of bytes. Borrowed.
PyObject* base_of(const Head& head, MessageReader& reader, bool& fresh) {
  fresh = false;
  auto& leases = reader.message.leases();
  auto& bases = reader.bases;
  if (head.lease < bases.size() && bases[head.lease]) return bases[head.lease];
  if (head.lease >= leases.size() || !leases[head.lease] || leases[head.lease]->size() < head.storage_bytes) {
    return corrupt_message("a torch tensor without its memory");
  }
  fresh = true;
  return nullptr;
}

PyObject* keep_base(std::uint32_t lease, PyObject* base, MessageReader& reader) {
  if (!base) return nullptr;
  if (lease >= reader.bases.size()) reader.bases.resize(reader.message.leases().size());
  reader.bases[lease] = Py_NewRef(base);
  return base;
}

// A tensor of bytes over the whole storage. New reference.
PyObject* bytes_over(const Head& head, MessageReader& reader) {
  const auto length = static_cast<std::int64_t>(head.storage_bytes);
  const std::int64_t one = 1;
  return tensor_over(std::move(reader.message.leases()[head.lease]), kBytes, 1, &length, &one);
}

// forklift.adapters.torch makes the tensor from any other over the storage (None: from an empty storage).
PyObject* rebuild_elsewhere(const Description& what, PyObject* base) {
  PyObject* shape = PyTuple_New(static_cast<Py_ssize_t>(what.geometry.ndim));
  PyObject* strides = PyTuple_New(static_cast<Py_ssize_t>(what.geometry.ndim));
  for (std::size_t i = 0; shape && strides && i < what.geometry.ndim; ++i) {
    PyTuple_SET_ITEM(shape, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(what.shape()[i]));
    PyTuple_SET_ITEM(strides, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(what.strides()[i]));
  }
  const std::uint64_t offset = what.geometry.byte_offset / what.head.element.size();
  PyObject* made = shape && strides
                       ? PyObject_CallFunction(Library::loaded()->rebuild(), "OiiKOO", base,
                                               int{what.head.element.code}, int{what.head.element.bits},
                                               static_cast<unsigned long long>(offset), shape, strides)
                       : nullptr;
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  return made;
}

PyObject* rebuild(const Description& what, MessageReader& reader) {
  if (what.head.lease == message::kNoLease) {
    if (what.bytes != 0 || what.head.storage_bytes != 0) return corrupt_message("a torch tensor's size");
    return rebuild_elsewhere(what, Py_None);
  }
  bool fresh = false;
  PyObject* base = base_of(what.head, reader, fresh);
  if (!base && !fresh) return nullptr;
  if (fresh && what.geometry.byte_offset == 0 && what.bytes == what.head.storage_bytes) {
    PyObject* made = tensor_over(std::move(reader.message.leases()[what.head.lease]), what.head.element,
                                 static_cast<std::int32_t>(what.geometry.ndim), what.shape().data(),
                                 what.strides().data());
    return keep_base(what.head.lease, made, reader);
  }
  if (fresh) {
    base = bytes_over(what.head, reader);
    if (!base) return nullptr;
    keep_base(what.head.lease, base, reader);
    Py_DECREF(base);
  }
  return rebuild_elsewhere(what, base);
}

}  // namespace

void place_storage(PyObject* owner, void* impl, std::byte* data, std::size_t bytes, MessageWriter& writer,
                   std::vector<std::byte>& out) {
  Head head;
  head.storage_bytes = bytes;
  head.lease = lease_for(owner, impl, data, bytes, writer);
  append(out, &head);
}

Encoded place_tensor(PyObject* tensor, MessageWriter& writer, std::vector<std::byte>& out) {
  const Library& library = *Library::loaded();
  if (!layout.known() || !library.describes()) return Encoded::kUnsupported;
  const TensorView view(tensor);
  if (!layout.is_plain(view.keys())) return Encoded::kUnsupported;
  Head head;
  if (library.is_parameter(tensor)) head.flags |= kParameter;
  if (view.has_autograd()) {
    bool elsewhere = false;
    if (requires_grad(library, tensor, elsewhere)) head.flags |= kRequiresGrad;
    if (elsewhere) return Encoded::kUnsupported;
  }
  dlpack::PlainTensor plain{};
  if (!library.describe(tensor, plain)) return Encoded::kUnsupported;
  const auto ndim = static_cast<std::size_t>(plain.ndim);
  if (plain.device.type != dlpack::kCpu || plain.dtype.lanes != 1 || plain.dtype.bits % 8 != 0 ||
      plain.dtype.bits == 0 || ndim > kMaxDims || plain.byte_offset != 0) {
    return Encoded::kUnsupported;
  }
  const StorageView storage(view.storage());
  head.element = {plain.dtype.code, plain.dtype.bits};
  head.storage_bytes = storage.bytes();
  Geometry geometry;
  geometry.ndim = static_cast<std::uint32_t>(ndim);
  std::uint64_t bytes = 0;
  if (!extent({plain.shape, ndim}, {plain.strides, ndim}, head.element.size(), bytes)) {
    return Encoded::kUnsupported;
  }
  if (head.storage_bytes != 0) {
    std::byte* const data = storage.data();
    if (!data || (!storage.is_private() && !find_held(storage.impl(), data))) return Encoded::kUnsupported;
    if (bytes != 0) {
      geometry.byte_offset = static_cast<std::uint64_t>(static_cast<std::byte*>(plain.data) - data);
      if (geometry.byte_offset > head.storage_bytes || bytes > head.storage_bytes - geometry.byte_offset) {
        return Encoded::kUnsupported;  // elements outside of the storage: torch's error, if any
      }
    }
    head.lease = lease_for(tensor, storage.impl(), data, head.storage_bytes, writer);
  } else if (bytes != 0) {
    return Encoded::kUnsupported;
  }
  append(out, &head);
  append(out, &geometry);
  if (ndim != 0) {
    append(out, plain.shape, ndim);
    append(out, plain.strides, ndim);
  }
  return Encoded::kDone;
}

PyObject* take_tensor(std::span<const std::byte> payload, MessageReader& reader) {
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");
  const Library* library = Library::require();
  if (!library) return nullptr;
  Description what;
  if (!read(payload, what)) return corrupt_message("a torch tensor's description");
  PyObject* made = rebuild(what, reader);
  if (!made) return nullptr;
  PyObject* const wants = (what.head.flags & kRequiresGrad) != 0 ? Py_True : Py_False;
  if ((what.head.flags & kParameter) != 0) {
    PyObject* arguments[] = {made, wants};
    PyObject* parameter = PyObject_Vectorcall(library->parameter_type(), arguments, 2, nullptr);
    Py_DECREF(made);
    return parameter;
  }
  if (wants == Py_True && PyObject_SetAttr(made, name, wants) != 0) Py_CLEAR(made);
  return made;
}

PyObject* take_storage(std::span<const std::byte> payload, MessageReader& reader) {
  if (!Library::require()) return nullptr;
  Head head;
  if (payload.size() != sizeof head) return corrupt_message("a torch storage's description");
  std::memcpy(&head, payload.data(), sizeof head);
  if (head.lease == message::kNoLease || head.storage_bytes == 0) return corrupt_message("a torch storage");
  bool fresh = false;
  PyObject* base = base_of(head, reader, fresh);
  if (!base && !fresh) return nullptr;
  if (fresh) {
    base = bytes_over(head, reader);
    if (!base) return nullptr;
    keep_base(head.lease, base, reader);
    Py_DECREF(base);
  }
  return PyObject_CallMethod(base, "untyped_storage", nullptr);
}

namespace {

Encoded encode_tensor(Encoder& encoder, PyObject* object, int) {
  if (Library::loaded()->has_reducer() || !encoder.first_time(object)) return Encoded::kUnsupported;
  const std::size_t begin = encoder.begin_extension(Extension::kTorchTensor);
  const Encoded done = place_tensor(object, encoder.writer(), encoder.bytes());
  encoder.end_extension(begin);
  return done;
}

}  // namespace

void register_torch_encoder(PyTypeObject* tensor_type, PyTypeObject* parameter_type) {
  register_encoder(tensor_type, encode_tensor);
  register_encoder(parameter_type, encode_tensor);
}

void register_torch_decoder() { register_decoder(Extension::kTorchTensor, take_tensor); }

}  // namespace forklift::py::torch
