# cmake -D build=... -D source=... -D scratch=... -P use_meson.cmake
#
# packaging/meson against an installed prefix, found by pkg-config.
cmake_minimum_required(VERSION 3.25)
set(compiler c++)
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
foreach(tool IN ITEMS meson ninja pkg-config)
  find_program(${tool} ${tool})
  if(NOT ${tool})
    message(STATUS "SKIPPED: there is no ${tool} here (tools/setup.sh compilers installs it)")
    return()
  endif()
endforeach()

file(REMOVE_RECURSE ${scratch})
run(${CMAKE_COMMAND} --install ${build} --prefix ${scratch}/prefix --component forklift)
file(GLOB_RECURSE description ${scratch}/prefix/*/forklift.pc)
cmake_path(GET description PARENT_PATH folder)
set(ENV{PKG_CONFIG_PATH} ${folder})
run(${meson} setup ${scratch}/build ${source}/../../packaging/meson)
run(${meson} test -C ${scratch}/build --print-errorlogs)
