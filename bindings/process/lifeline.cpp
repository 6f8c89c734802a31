#include "bindings/process/lifeline.h"

#include "bindings/core/errors.h"
#include "process/lifeline.h"

namespace nb = nanobind;

namespace forklift::py {

// process::lifeline() does not wait, so the binding keeps the interpreter lock.
void bind_lifeline(nb::module_& module) {
  module.def("lifeline", [] {
    const Result<int> read_end = process::lifeline();
    require(read_end.status());
    return *read_end;
  });
  module.def(
      "soften_end",
      [](int own, double grace) {
        require(process::soften_end(own, static_cast<std::int64_t>(grace * 1e9)));
      },
      nb::arg("own"), nb::arg("grace"));
}

}  // namespace forklift::py
