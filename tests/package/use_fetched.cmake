# cmake -D compiler=... -D source=... -D scratch=... -D generator=... -P use_fetched.cmake
#
# Builds programs with the source tree as a part of the project (FetchContent of a local tree: no network), and
# checks that nothing of ours slips into what that project installs.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
if(NOT DEFINED ENV{FORKLIFT_SLOW_TESTS})
  message(STATUS "SKIPPED: it builds the library anew; set FORKLIFT_SLOW_TESTS (make weekly)")
  return()
endif()
if(NOT compiler_path)
  return()
endif()

cmake_path(SET root NORMALIZE ${source}/../..)
build_and_run(${scratch} -D FETCH=${root} -D FORKLIFT_WERROR=ON -D FORKLIFT_CUDA_KERNELS=OFF -D "PROGRAMS=tutorial/first tutorial/queues")
run(${CMAKE_COMMAND} --install ${scratch} --prefix ${scratch}/prefix)
file(GLOB_RECURSE installed ${scratch}/prefix/*)
if(installed)
  message(FATAL_ERROR "the project would install ${installed}")
endif()
