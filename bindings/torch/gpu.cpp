#include "bindings/torch/gpu.h"

#include <memory>
#include <utility>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/torch/library.h"
#include "device/cuda/driver.h"
#include "tensor/arena_storage.h"
#include "tensor/device_storage.h"
#include "tensor/dlpack.h"
#include "tensor/operations.h"

namespace forklift::py::torch {

namespace {

constexpr std::uintptr_t kLegacyStream = 1;  // as DLPack numbers it; torch says 0

}  // namespace

Encoded place_on_gpu(PyObject* tensor, StorageView storage, int ordinal, MessageWriter& writer,
                     PlacedStorage& placed) {
  void* const impl = storage.impl();
  if (const PlacedStorage* known = writer.find_storage(impl)) {
    placed = *known;
    return Encoded::kDone;
  }
  // Before torch is asked, which says it less clearly.
  if (const device::cuda::Driver* driver = device::cuda::Driver::existing(); driver && driver->is_forked()) {
    raise(device::cuda::Driver::get().status());
    return Encoded::kFailed;
  }
  const Library& library = *Library::loaded();
  std::uintptr_t stream = 0;
  if (!library.current_stream(ordinal, stream)) return Encoded::kUnsupported;
  PyObject* const object = PyObject_CallMethod(tensor, "untyped_storage", nullptr);
  if (!object) return Encoded::kFailed;
  const std::shared_ptr<const void> owner = keep_object(object);
  Py_DECREF(object);
  std::byte* const data = storage.data();
  const std::size_t bytes = storage.bytes();
  GilRelease released;
  Result<tensor::SharedPart> part = tensor::share_part(ordinal, data, bytes, stream, owner);
  released.acquire();
  if (!part) {
    raise(part.status());
    return Encoded::kFailed;
  }
  if (storage.data() != data || storage.bytes() != bytes || TensorView(tensor).storage() != impl ||
      part->begin > UINT32_MAX) {
    return Encoded::kUnsupported;
  }
  placed = {impl, writer.message.note_share(part->lease), static_cast<std::uint32_t>(part->begin)};
  writer.storages.push_back(placed);
  return Encoded::kDone;
}

bool is_on_gpu(const arena::Lease& lease) noexcept {
  return lease.object().kind == arena::ObjectKind::kPiece;
}

PyObject* tensor_on_gpu(arena::LeasePtr lease, std::size_t begin, std::size_t bytes, Element element,
                        std::int32_t ndim, const std::int64_t* shape, const std::int64_t* strides) {
  const Library* const library = Library::require();
  if (!library) return nullptr;
  if (!library->imports_versioned()) {
    PyErr_SetString(PyExc_ImportError,
                    "this torch is too old for the tensor's message: the sender has torch >= 2.10");
    return nullptr;
  }
  // Before torch initialises CUDA, whose errors say less of what is missing here.
  GilRelease released;
  Result<std::shared_ptr<Storage>> storage = tensor::received_storage(std::move(lease));
  released.acquire();
  if (!storage) return raise(storage.status());
  const int ordinal = tensor::gpu_of(**storage);
  if (ordinal < 0) return corrupt_message("a torch tensor on a GPU whose memory is none");
  if (!library->prepare_gpu()) return nullptr;
  std::uintptr_t stream = 0;
  if (!library->current_stream(ordinal, stream) || stream == 0) stream = kLegacyStream;
  released.release();
  const auto over = [&]() -> Result<dlpack::ManagedTensorVersioned*> {
    Result<Tensor> whole =
        tensor::wrap(*std::move(storage), DType::kUInt8, {static_cast<std::int64_t>(bytes)}, begin);
    if (!whole) return whole.status();
    return tensor::export_versioned(*whole, false, static_cast<std::intptr_t>(stream));
  };
  Result<dlpack::ManagedTensorVersioned*> managed = over();
  released.acquire();
  if (!managed) return raise(managed.status());
  dlpack::PlainTensor& plain = (*managed)->tensor;
  plain.dtype = {element.code, element.bits, 1};
  plain.ndim = ndim;
  // torch copies them.
  plain.shape = const_cast<std::int64_t*>(shape);
  plain.strides = const_cast<std::int64_t*>(strides);
  return library->import_versioned(*managed);
}

}  // namespace forklift::py::torch
