# protozero: a header-only library for the wire format of Protocol Buffers. Not all of its packages bring CMake files.
find_path(PROTOZERO_INCLUDE_DIR NAMES protozero/pbf_writer.hpp
  DOC "Folder with protozero/pbf_writer.hpp (Debian: libprotozero-dev)")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Protozero REQUIRED_VARS PROTOZERO_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libprotozero-dev, or set PROTOZERO_INCLUDE_DIR")
mark_as_advanced(PROTOZERO_INCLUDE_DIR)
