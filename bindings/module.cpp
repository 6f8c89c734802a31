// forklift._core: what Python sees of libforklift. One file a concept; this one only puts them together.
#include <nanobind/nanobind.h>

NB_MODULE(_core, m) {
  m.doc() = "The C++ core of Forklift. Private: use the forklift package.";
  m.attr("__version__") = FORKLIFT_VERSION;
}
