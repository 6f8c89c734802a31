#include "bindings/process/labels.h"

#include <nanobind/stl/string.h>

#include <string>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "node/node.h"
#include "node/published.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

// The caller has a Python object on it, so it is there.
Result<sync::Label*> label_at(int kind, std::uint32_t index, std::uint32_t generation) {
  Result<node::Node*> node = node::Node::current();
  if (!node) return node.status();
  return node::label_of(**node, {static_cast<arena::ObjectKind>(kind), index}, generation);
}

}  // namespace

void bind_labels(nb::module_& module) {
  module.def("set_row_label",
             [](int kind, std::uint32_t index, std::uint32_t generation, const std::string& text) {
               const Result<sync::Label*> label = label_at(kind, index, generation);
               require(label.status());
               require((*label)->set(text));
             });
  module.def("row_label", [](int kind, std::uint32_t index, std::uint32_t generation) {
    const Result<sync::Label*> label = label_at(kind, index, generation);
    require(label.status());
    return (*label)->text();
  });
}

}  // namespace forklift::py
