# cmake -D source=... -D scratch=... -D generator=... -P use_libcxx.cmake
#
# The library built with Clang and LLVM's standard library, and the tutorial's programs against it. It needs a libc++
# that has std::stop_token and std::atomic_ref (LLVM 20).
cmake_minimum_required(VERSION 3.25)
if(NOT DEFINED ENV{FORKLIFT_SLOW_TESTS})
  message(STATUS "SKIPPED: it builds the library anew; set FORKLIFT_SLOW_TESTS (make weekly)")
  return()
endif()
find_program(clang NAMES clang++-22 clang++-21 clang++-20)
set(compiler ${clang})
if(NOT clang)
  message(STATUS "SKIPPED: there is no clang++-20 or newer here (tools/setup.sh compilers installs it)")
  return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
execute_process(COMMAND ${compiler_path} -stdlib=libc++ -std=c++20 -fsyntax-only -x c++ -include stop_token /dev/null
  RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
if(code)
  message(STATUS "SKIPPED: ${clang} has no libc++ with std::stop_token")
  return()
endif()

cmake_path(SET root NORMALIZE ${source}/../..)
# Statically: a distribution may have the headers and libc++.a of one version and the shared library of an older one.
list(APPEND cheaply -D CMAKE_CXX_FLAGS=-stdlib=libc++ -D CMAKE_EXE_LINKER_FLAGS=-static-libstdc++)
run(${CMAKE_COMMAND} -S ${root} -B ${scratch}/library -G ${generator} -D CMAKE_CXX_COMPILER=${compiler_path}
  ${cheaply} -D FORKLIFT_BUILD_TESTS=OFF -D FORKLIFT_WERROR=ON -D FORKLIFT_CUDA_KERNELS=OFF)
run(${CMAKE_COMMAND} --build ${scratch}/library)
file(REMOVE_RECURSE ${scratch}/prefix)
run(${CMAKE_COMMAND} --install ${scratch}/library --prefix ${scratch}/prefix)
build_and_run(${scratch}/build -D CMAKE_PREFIX_PATH=${scratch}/prefix -D LINKAGE=static)
