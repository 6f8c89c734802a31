# msgpack.hpp: a header-only library whose packages differ in the names of their CMake files between
# releases (msgpack, msgpackc-cxx, msgpack-cxx) and some of which drag Boost in. Only the header counts.
find_path(MSGPACK_INCLUDE_DIR NAMES msgpack.hpp DOC "Folder with msgpack.hpp (Debian: libmsgpack-cxx-dev)")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MsgpackHeader REQUIRED_VARS MSGPACK_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libmsgpack-cxx-dev (or libmsgpack-dev), or set MSGPACK_INCLUDE_DIR")
mark_as_advanced(MSGPACK_INCLUDE_DIR)
