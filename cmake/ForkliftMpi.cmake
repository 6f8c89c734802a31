# forklift::mpi (src/mpi), a library of its own, so that libforklift never needs MPI. Where it is not built,
# forklift_without_mpi says why; find_package(forklift COMPONENTS mpi) passes that on.
set(forklift_without_mpi "")
get_target_property(forklift_type forklift TYPE)
if(NOT FORKLIFT_MPI)
  set(forklift_without_mpi "it was built with FORKLIFT_MPI=OFF")
elseif(NOT forklift_type STREQUAL STATIC_LIBRARY)
  # It uses the library's inner parts, which a shared library does not export.
  set(forklift_without_mpi "it needs the static library, and this one was built with BUILD_SHARED_LIBS=ON")
else()
  find_package(MPI QUIET COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    set(forklift_without_mpi
      "CMake found no MPI library when it was built (apt-get install libopenmpi-dev openmpi-bin, or the cluster's module)")
  endif()
endif()
if(forklift_without_mpi)
  if(FORKLIFT_MPI STREQUAL "ON")
    message(FATAL_ERROR "FORKLIFT_MPI=ON, but ${forklift_without_mpi}")
  endif()
  message(STATUS "forklift::mpi is not built: ${forklift_without_mpi}")
  return()
endif()

add_library(forklift_mpi STATIC ${forklift_apart_sources})
add_library(forklift::mpi ALIAS forklift_mpi)
forklift_own_target(forklift_mpi)
set_target_properties(forklift_mpi PROPERTIES EXPORT_NAME mpi OUTPUT_NAME forklift-mpi
  UNITY_BUILD ${FORKLIFT_UNITY} UNITY_BUILD_MODE GROUP)
target_include_directories(forklift_mpi PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
target_link_libraries(forklift_mpi PUBLIC forklift PRIVATE MPI::MPI_CXX)
# MPI is used as a library in C: its bindings for C++ were given up in MPI 3.
target_compile_definitions(forklift_mpi PRIVATE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
