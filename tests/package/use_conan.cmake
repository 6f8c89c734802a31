# cmake -D build=... -D source=... -D scratch=... -D eigen=... -D msgpack=... -D protozero=... -P use_conan.cmake
#
# packaging/conan: the recipe is exported, built, and its test package run, without a remote. What it requires is made of
# the headers that this build found.
cmake_minimum_required(VERSION 3.25)
if(NOT DEFINED ENV{FORKLIFT_SLOW_TESTS})
  message(STATUS "SKIPPED: it builds the library anew; set FORKLIFT_SLOW_TESTS (make weekly)")
  return()
endif()
set(compiler c++)
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
find_program(conan conan)
if(NOT conan)
  message(STATUS "SKIPPED: there is no conan here (tools/setup.sh compilers installs it)")
  return()
endif()

file(REMOVE_RECURSE ${scratch})
set(ENV{CONAN_HOME} ${scratch}/home)
run(${conan} profile detect)
run(${conan} remote disable *)

# A package of headers: what lies in the folder.
function(package_of name version folder)
  file(WRITE ${scratch}/${name}/conanfile.py "
from conan import ConanFile
from conan.tools.files import copy

class Headers(ConanFile):
    name = '${name}'
    version = '${version}'
    package_type = 'header-library'

    def package(self):
        copy(self, '${ARGN}', '${folder}', self.package_folder + '/include')

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
")
  run(${conan} create ${scratch}/${name} --no-remote)
endfunction()
package_of(eigen 3.4.0 ${eigen} *)
package_of(msgpack-cxx 4.1.3 ${msgpack} msgpack*)
package_of(protozero 1.7.1 ${protozero} protozero/*)

file(COPY ${source}/../../packaging/conan DESTINATION ${scratch}/tree/packaging)
foreach(part IN ITEMS CMakeLists.txt LICENSE cmake include src)
  file(COPY ${source}/../../${part} DESTINATION ${scratch}/tree)
endforeach()
file(COPY ${source}/../../examples/tutorial/first.cpp DESTINATION ${scratch}/tree/packaging/conan/test_package)
set(launch)
if(launcher)
  set(launch -c "tools.cmake.cmaketoolchain:extra_variables={'CMAKE_CXX_COMPILER_LAUNCHER':'${launcher}'}")
endif()
run(${conan} create ${scratch}/tree/packaging/conan --no-remote -s build_type=Debug -s compiler.cppstd=20
  -c "tools.build:cxxflags=['-O0']" ${launch})
