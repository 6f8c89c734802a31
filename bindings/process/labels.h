// Labels of objects, for forklift.set_label and label_of.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_labels(nanobind::module_& module);

}  // namespace forklift::py
