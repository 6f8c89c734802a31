// forklift.Tensor in messages that are pickled, and among the arguments of a child that is being started.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/message/pickling.h"
#include "bindings/tensor/tensor.h"
#include "message/message_builder.h"
#include "node/node.h"
#include "tensor/arena_storage.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

// Among the arguments of a child that is being started: its description, and the handle of the lease that is entered for
// the child; None of a tensor without elements.
nb::tuple offer_tensor(const TensorBox& self, std::uint32_t slot, std::uint32_t generation) {
  require(prepare_to_send(self.tensor));
  std::vector<std::byte> bytes;
  arena::Handle handle;
  bool has_memory = false;
  const auto offer = [&]() -> Status {
    const Result<node::Node*> node = node::Node::current();
    if (!node) return node.status();
    message::MessageBuilder builder((*node)->arena());
    Result<wire::TensorMeta> meta = builder.place(self.tensor);
    if (!meta) return meta.status();
    if (meta->index != message::kNoLease) {
      const Result<arena::Handle> made =
          (*node)->arena().offer(builder.leases()[meta->index], {slot, generation});
      if (!made) return made.status();
      handle = *made;
      has_memory = true;
    }
    bytes.resize(wire::meta_bytes(meta->shape.size()));
    wire::encode_meta(*meta, bytes.data());
    return {};
  };
  GilRelease released;
  const Status offered = offer();
  released.acquire();
  require(offered);
  const nb::bytes description(bytes.data(), bytes.size());
  if (!has_memory) return nb::make_tuple(description, nb::none());
  return nb::make_tuple(description, nb::make_tuple(handle.segment, handle.block, handle.generation,
                                                    handle.lease, handle.offset, handle.length));
}

nb::object claim_tensor(const nb::bytes& meta, nb::handle handle) {
  using Words =
      std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t>;
  std::optional<arena::Handle> said;
  if (!handle.is_none()) {
    const auto [segment, block, generation, lease, offset, length] = nb::cast<Words>(handle);
    said = arena::Handle{segment, block, generation, lease, offset, length};
  }
  const auto claim = [&]() -> Result<Tensor> {
    Result<wire::TensorMeta> description =
        wire::decode_meta({reinterpret_cast<const std::byte*>(meta.c_str()), meta.size()});
    if (!description) return description.status();
    if (!said) return wire::tensor_over(*std::move(description), nullptr);
    node::Node* const node = node::Node::existing();
    if (node == nullptr)
      return Status(Code::kNotAttached, "this process was not started by the tensor's owner");
    Result<arena::LeasePtr> lease = node->arena().claim(*said);
    if (!lease) return lease.status();
    Result<std::shared_ptr<Storage>> storage = tensor::received_storage(*std::move(lease));
    if (!storage) return storage.status();
    return wire::tensor_over(*std::move(description), *std::move(storage));
  };
  GilRelease released;
  Result<Tensor> tensor = claim();
  released.acquire();
  return owned(wrap_tensor(require(std::move(tensor))));
}

}  // namespace

void bind_tensor_pickling(nb::module_& module, nb::class_<TensorBox>& type) {
  // In a message that is pickled a tensor travels as a handle, as in one of the native codec.
  module.def("_rebuild_tensor", [](const nb::bytes& meta) {
    MessageReader* reader = current_reader();
    if (!reader) throw nb::type_error("a tensor's handle means nothing outside of its message");
    return owned(take_tensor({reinterpret_cast<const std::byte*>(meta.c_str()), meta.size()}, *reader));
  });
  module.def("_offer_tensor", offer_tensor);
  module.def("_claim_tensor", claim_tensor, nb::arg("meta"), nb::arg("handle").none());
  type.def("__reduce__", [](nb::handle self) {
    MessageWriter* writer = current_message();
    if (!writer) return nb::tuple(nb::module_::import_("forklift.reducers").attr("offer_tensor")(self));
    require(prepare_to_send(tensor_of(self.ptr())));
    wire::TensorMeta meta;
    place_tensor(self.ptr(), *writer, meta);
    std::vector<std::byte> bytes(wire::meta_bytes(meta.shape.size()));
    wire::encode_meta(meta, bytes.data());
    // A function of Python's: nanobind's cannot be pickled.
    const nb::object rebuild = owned(import_attribute("forklift.reducers", "rebuild_tensor"));
    return nb::make_tuple(rebuild, nb::make_tuple(nb::bytes(bytes.data(), bytes.size())));
  });
}

}  // namespace forklift::py
