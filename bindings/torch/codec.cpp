#include "bindings/torch/codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/message/codec_table.h"
#include "bindings/message/encoder.h"
#include "bindings/torch/gpu.h"
#include "bindings/torch/library.h"
#include "bindings/torch/memory.h"
#include "message/transport.h"

namespace forklift::py::torch {

namespace {

constexpr std::uint16_t kParameter = 1;
constexpr std::uint16_t kRequiresGrad = 2;
constexpr std::uint16_t kOnGpu = 4;

struct Head {
  std::uint32_t lease = message::kNoLease;
  std::uint32_t begin = 0;
  Element element{};
  std::uint16_t flags = 0;
  std::uint32_t zero = 0;
  std::uint64_t storage_bytes = 0;
};
static_assert(sizeof(Head) == 24);
struct Geometry {
  std::uint64_t byte_offset = 0;
  std::uint32_t ndim = 0;
  std::uint32_t zero = 0;
};
static_assert(sizeof(Geometry) == 16);
constexpr std::size_t kGeometryAt = sizeof(Head);
constexpr std::size_t kShapeAt = kGeometryAt + sizeof(Geometry);

// Where the message finds the storage's memory: its place among the leases, and where in the lease's memory
// it begins.
PlacedStorage place(PyObject* owner, void* impl, std::byte* data, std::size_t bytes, MessageWriter& writer) {
  if (const PlacedStorage* known = writer.find_storage(impl)) return *known;
  PlacedStorage placed{impl, 0, 0};
  if (const Held* held = find_held(impl, data)) {
    placed.lease = writer.message.note_share(held->lease);
    placed.begin = static_cast<std::uint32_t>(held->begin());
  } else {
    const Placement placement = placement_of(StorageView(impl));
    placed.lease = writer.note_move(owner, impl, data, bytes, placement.begin, placement.named);
    placed.begin = static_cast<std::uint32_t>(placement.begin);
  }
  writer.storages.push_back(placed);
  return placed;
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
  if (out.geometry.byte_offset % item != 0) return false;
  // An empty tensor may have its offset anywhere.
  return out.bytes == 0 || (out.geometry.byte_offset <= out.head.storage_bytes &&
                            out.bytes <= out.head.storage_bytes - out.geometry.byte_offset);
}

// Takes the reference over. Borrowed.
PyObject* keep_base(std::uint32_t lease, PyObject* base, MessageReader& reader) {
  if (!base) return nullptr;
  if (lease >= reader.bases.size()) reader.bases.resize(reader.message.leases().size());
  return reader.bases[lease] = base;
}

// A tensor over the storage of a lease, or the storage itself: what made it available to this message's other
// tensors. Borrowed; nullptr with an exception set on failure, or without one when there is none yet.
PyObject* base_of(const Head& head, MessageReader& reader) {
  auto& leases = reader.message.leases();
  auto& bases = reader.bases;
  if (head.lease < bases.size() && bases[head.lease]) return bases[head.lease];
  if ((head.flags & kOnGpu) != 0) {
    if (head.lease >= leases.size() || !leases[head.lease] || !is_on_gpu(*leases[head.lease]) ||
        leases[head.lease]->size() < head.begin ||
        leases[head.lease]->size() - head.begin < head.storage_bytes) {
      return corrupt_message("a torch tensor without its memory on a GPU");
    }
    return nullptr;
  }
  if (head.lease >= leases.size() || !leases[head.lease] || !leases[head.lease]->data() ||
      leases[head.lease]->size() < head.begin ||
      leases[head.lease]->size() - head.begin < head.storage_bytes) {
    return corrupt_message("a torch tensor without its memory");
  }
  PyObject* living = living_storage(*leases[head.lease], head.begin, head.storage_bytes);
  if (!living) return nullptr;
  leases[head.lease].reset();
  return keep_base(head.lease, living, reader);
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
  const Head& head = what.head;
  if (head.lease == message::kNoLease) {
    if (what.bytes != 0 || head.storage_bytes != 0) return corrupt_message("a torch tensor's size");
    return rebuild_elsewhere(what, Py_None);
  }
  PyObject* base = base_of(head, reader);
  if (!base && PyErr_Occurred()) return nullptr;
  if (base) return rebuild_elsewhere(what, base);
  arena::LeasePtr lease = std::move(reader.message.leases()[head.lease]);
  if ((head.flags & kOnGpu) != 0) {
    const bool whole = what.geometry.byte_offset == 0 && what.bytes == head.storage_bytes;
    const std::int64_t length = static_cast<std::int64_t>(head.storage_bytes);
    const std::int64_t one = 1;
    PyObject* made =
        whole ? tensor_on_gpu(std::move(lease), head.begin, head.storage_bytes, head.element,
                              static_cast<std::int32_t>(what.geometry.ndim), what.shape().data(),
                              what.strides().data())
              : tensor_on_gpu(std::move(lease), head.begin, head.storage_bytes, kBytes, 1, &length, &one);
    if (!made) return nullptr;
    keep_base(head.lease, Py_NewRef(made), reader);
    if (!whole) {
      PyObject* view = rebuild_elsewhere(what, made);
      Py_DECREF(made);
      return view;
    }
    if (layout.known()) TensorView(made).set_version(1);
    return made;
  }
  // Without the layout it would be of version 0.
  if (layout.known() && what.geometry.byte_offset == 0 && what.bytes == head.storage_bytes) {
    PyObject* made =
        tensor_over(std::move(lease), head.begin, head.element, static_cast<std::int32_t>(what.geometry.ndim),
                    what.shape().data(), what.strides().data());
    if (!made) return nullptr;
    // As torch's own: a received tensor was written to once, when it got its storage.
    TensorView(made).set_version(1);
    keep_base(head.lease, Py_NewRef(made), reader);
    return made;
  }
  base = keep_base(head.lease, bytes_over(std::move(lease), head.begin, head.storage_bytes), reader);
  return base ? rebuild_elsewhere(what, base) : nullptr;
}

}  // namespace

void place_storage(PyObject* owner, void* impl, std::byte* data, std::size_t bytes, MessageWriter& writer,
                   std::vector<std::byte>& out) {
  Head head;
  head.storage_bytes = bytes;
  const PlacedStorage placed = place(owner, impl, data, bytes, writer);
  head.lease = placed.lease;
  head.begin = placed.begin;
  append(out, &head);
}

Encoded place_tensor(PyObject* tensor, MessageWriter& writer, std::vector<std::byte>& out) {
  const Library& library = *Library::loaded();
  if (!layout.known() || !library.describes()) return Encoded::kUnsupported;
  const TensorView view(tensor);
  const bool on_gpu = layout.is_plain_cuda(view.keys());
  if (!on_gpu && !layout.is_plain(view.keys())) return Encoded::kUnsupported;
  Head head;
  if (on_gpu) head.flags |= kOnGpu;
  if (library.is_parameter(tensor)) head.flags |= kParameter;
  if (view.has_autograd()) {
    bool elsewhere = false;
    if (requires_grad(library, tensor, elsewhere)) head.flags |= kRequiresGrad;
    if (elsewhere) return Encoded::kUnsupported;
  }
  dlpack::PlainTensor plain{};
  if (!library.describe(tensor, plain)) return Encoded::kUnsupported;
  const auto ndim = static_cast<std::size_t>(plain.ndim);
  if (plain.device.type != (on_gpu ? dlpack::kCuda : dlpack::kCpu) || plain.dtype.lanes != 1 ||
      plain.dtype.bits % 8 != 0 || plain.dtype.bits == 0 || ndim > kMaxDims || plain.byte_offset != 0) {
    return Encoded::kUnsupported;
  }
  const StorageView storage(view.storage());
  head.element = {plain.dtype.code, plain.dtype.bits};
  // torch describes a type that DLPack does not have as the nearest one.
  if (view.element() != head.element) return Encoded::kUnsupported;
  head.storage_bytes = storage.bytes();
  Geometry geometry;
  geometry.ndim = static_cast<std::uint32_t>(ndim);
  geometry.byte_offset = view.offset() * head.element.size();
  std::uint64_t bytes = 0;
  if (!extent({plain.shape, ndim}, {plain.strides, ndim}, head.element.size(), bytes)) {
    return Encoded::kUnsupported;
  }
  // torch's own reduction sends a storage on a GPU that has no bytes.
  if (head.storage_bytes == 0 && (bytes != 0 || on_gpu)) return Encoded::kUnsupported;
  std::array<std::int64_t, 2 * kMaxDims> dims;  // torch's own may go while the interpreter lock is released
  std::copy_n(plain.shape, ndim, dims.begin());
  std::copy_n(plain.strides, ndim, dims.begin() + static_cast<std::ptrdiff_t>(ndim));
  if (head.storage_bytes != 0) {
    std::byte* const data = storage.data();
    if (!data || (!on_gpu && !storage.is_private() && !find_held(storage.impl(), data))) {
      return Encoded::kUnsupported;
    }
    if (bytes != 0 &&
        (static_cast<std::byte*>(plain.data) != data + geometry.byte_offset ||
         geometry.byte_offset > head.storage_bytes || bytes > head.storage_bytes - geometry.byte_offset)) {
      return Encoded::kUnsupported;  // elements outside of the storage: torch's error, if any
    }
    PlacedStorage placed;
    if (!on_gpu) {
      placed = place(tensor, storage.impl(), data, head.storage_bytes, writer);
    } else if (const Encoded done = place_on_gpu(tensor, storage, plain.device.id, writer, placed);
               done != Encoded::kDone) {
      return done;
    }
    head.lease = placed.lease;
    head.begin = placed.begin;
  }
  append(out, &head);
  append(out, &geometry);
  append(out, dims.data(), 2 * ndim);
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
  if (head.lease == message::kNoLease || head.storage_bytes == 0 || head.flags != 0) {
    return corrupt_message("a torch storage");
  }
  PyObject* base = base_of(head, reader);
  if (!base && PyErr_Occurred()) return nullptr;
  if (!base) {
    arena::LeasePtr lease = std::move(reader.message.leases()[head.lease]);
    base = keep_base(head.lease, bytes_over(std::move(lease), head.begin, head.storage_bytes), reader);
    if (!base) return nullptr;
  }
  return Library::loaded()->is_tensor(base) ? PyObject_CallMethod(base, "untyped_storage", nullptr)
                                            : Py_NewRef(base);
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
