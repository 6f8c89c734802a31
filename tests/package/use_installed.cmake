# cmake -D compiler=... -D build=... -D source=... -D scratch=... -D generator=... -P use_installed.cmake
#
# Installs the build into an empty prefix, moves that (a package may be unpacked anywhere), builds the tutorial's
# programs against it by find_package, and runs them. The same once by hand with pkg-config.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
if(NOT compiler_path)
  return()
endif()

file(REMOVE_RECURSE ${scratch})
run(${CMAKE_COMMAND} --install ${build} --prefix ${scratch}/first --component forklift)
file(RENAME ${scratch}/first ${scratch}/prefix)

file(GLOB_RECURSE installed RELATIVE ${scratch}/prefix ${scratch}/prefix/*)
foreach(file IN LISTS installed)
  if(file MATCHES "[.](py|so)$|python")
    message(FATAL_ERROR "the C++ package holds ${file}")
  endif()
endforeach()

build_and_run(${scratch}/build -D CMAKE_PREFIX_PATH=${scratch}/prefix -D LINKAGE=static)

# Another linkage or a component that nobody knows is refused in words.
execute_process(COMMAND ${CMAKE_COMMAND} -S ${source} -B ${scratch}/refused -G ${generator}
  -D CMAKE_CXX_COMPILER=${compiler_path} -D CMAKE_PREFIX_PATH=${scratch}/prefix -D LINKAGE=shared
  RESULT_VARIABLE code OUTPUT_QUIET ERROR_VARIABLE words)
if(code EQUAL 0 OR NOT words MATCHES "has the[ \n]+component static, not[ \n]+shared")
  message(FATAL_ERROR "a missing component was found: ${words}")
endif()

find_program(pkg_config NAMES pkg-config pkgconf)
if(pkg_config)
  file(GLOB_RECURSE description ${scratch}/prefix/*/forklift.pc)
  cmake_path(GET description PARENT_PATH folder)
  set(ENV{PKG_CONFIG_PATH} ${folder})
  execute_process(COMMAND ${pkg_config} --cflags --libs forklift OUTPUT_VARIABLE flags
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${compiler_path} -std=c++20 ${source}/../../examples/tutorial/first.cpp ${flags} -o ${scratch}/first)
  run(${scratch}/first)
endif()
