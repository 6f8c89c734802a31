# cmake -D compiler=... -D build=... -D source=... -D scratch=... -D generator=... -P use_installed.cmake
#
# Installs the build into an empty prefix, moves that (a package may be unpacked anywhere), builds the project
# beside this file against it, and runs its programs. The same once by hand with pkg-config.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  list(JOIN ARGN " " words)
  message(STATUS "${words}\n${output}")
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "ended with ${code}: ${words}")
  endif()
endfunction()

find_program(compiler_path ${compiler})
if(NOT compiler_path)
  message(STATUS "SKIPPED: there is no ${compiler} here")
  return()
endif()

file(REMOVE_RECURSE ${scratch})
run(${CMAKE_COMMAND} --install ${build} --prefix ${scratch}/first)
file(RENAME ${scratch}/first ${scratch}/prefix)

file(GLOB_RECURSE installed RELATIVE ${scratch}/prefix ${scratch}/prefix/*)
foreach(file IN LISTS installed)
  if(file MATCHES "[.](py|so)$|python")
    message(FATAL_ERROR "the C++ package holds ${file}")
  endif()
endforeach()

run(${CMAKE_COMMAND} -S ${source} -B ${scratch}/build -G ${generator} -D CMAKE_BUILD_TYPE=Release
  -D CMAKE_CXX_COMPILER=${compiler_path} -D CMAKE_PREFIX_PATH=${scratch}/prefix)
run(${CMAKE_COMMAND} --build ${scratch}/build)
run(${scratch}/build/tour)
run(${scratch}/build/simulator --alone --steps 100 --size 120x160)

find_program(pkg_config NAMES pkg-config pkgconf)
if(pkg_config)
  file(GLOB_RECURSE description ${scratch}/prefix/*/forklift.pc)
  cmake_path(GET description PARENT_PATH folder)
  set(ENV{PKG_CONFIG_PATH} ${folder})
  execute_process(COMMAND ${pkg_config} --cflags --libs forklift OUTPUT_VARIABLE flags
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${compiler_path} -std=c++20 -O1 ${source}/../../examples/cpp/tour.cpp ${flags} -o ${scratch}/tour)
  run(${scratch}/tour)
endif()
