# cmake -D build=... -D source=... -D scratch=... -D generator=... -D eigen=... -D msgpack=... -P use_vcpkg.cmake
#
# packaging/vcpkg: the port is run with vcpkg's functions as their documentation describes them, and what it installs is
# used. Whether vcpkg itself takes it is not asked: its registry is not at hand.
cmake_minimum_required(VERSION 3.25)
set(compiler c++)
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${scratch})
set(port ${source}/../../packaging/vcpkg/forklift)
set(CURRENT_INSTALLED_DIR ${scratch}/installed)
set(CURRENT_PACKAGES_DIR ${scratch}/packages)
file(MAKE_DIRECTORY ${CURRENT_INSTALLED_DIR}/include)
file(CREATE_LINK ${eigen} ${CURRENT_INSTALLED_DIR}/include/eigen3 SYMBOLIC)
file(CREATE_LINK ${msgpack}/msgpack.hpp ${CURRENT_INSTALLED_DIR}/include/msgpack.hpp SYMBOLIC)
file(CREATE_LINK ${msgpack}/msgpack ${CURRENT_INSTALLED_DIR}/include/msgpack SYMBOLIC)

# The manifest: JSON with the fields that a port needs, of this project's version.
file(READ ${port}/vcpkg.json manifest)
string(JSON name GET "${manifest}" name)
string(JSON version GET "${manifest}" version)
file(READ ${source}/../../CMakeLists.txt project)
if(NOT name STREQUAL "forklift" OR NOT project MATCHES "VERSION ${version} ")
  message(FATAL_ERROR "the port is ${name} ${version}")
endif()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS;OPTIONS_DEBUG;OPTIONS_RELEASE;MAYBE_UNUSED_VARIABLES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "vcpkg_cmake_configure does not know ${arg_UNPARSED_ARGUMENTS}")
  endif()
  run(${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${scratch}/tree -G ${generator} ${cheaply} ${arg_OPTIONS}
    -D CMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} -D CMAKE_INSTALL_LIBDIR=lib)
endfunction()
function(vcpkg_cmake_install)
  run(${CMAKE_COMMAND} --build ${scratch}/tree)
  run(${CMAKE_COMMAND} --install ${scratch}/tree)
endfunction()
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "PACKAGE_NAME;CONFIG_PATH" "")
  if(NOT EXISTS ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/${arg_PACKAGE_NAME}Config.cmake)
    message(FATAL_ERROR "no package ${arg_PACKAGE_NAME} in ${arg_CONFIG_PATH}")
  endif()
endfunction()
function(vcpkg_fixup_pkgconfig)
  if(NOT EXISTS ${CURRENT_PACKAGES_DIR}/lib/pkgconfig/forklift.pc)
    message(FATAL_ERROR "no forklift.pc")
  endif()
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  file(COPY ${arg_FILE_LIST} DESTINATION ${CURRENT_PACKAGES_DIR}/share/forklift)
endfunction()

include(${port}/portfile.cmake)
build_and_run(${scratch}/build -D CMAKE_PREFIX_PATH=${CURRENT_PACKAGES_DIR} -D LINKAGE=static
  -DPROGRAMS=tutorial/first)
