#include "lifeline.h"

#include "errors.h"
#include "process/lifeline.h"

namespace nb = nanobind;

namespace forklift::py {

// Neither waits, so both keep the interpreter lock.
void bind_lifeline(nb::module_& module) {
  module.def("lifeline", [] {
    const Result<int> read_end = process::lifeline();
    require(read_end.status());
    return *read_end;
  });
  module.def(
      "end_with_parent", [](int read_end) { require(process::end_with_parent(read_end)); },
      nb::arg("read_end"));
}

}  // namespace forklift::py
