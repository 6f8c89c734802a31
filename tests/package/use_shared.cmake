# cmake -D compiler=... -D source=... -D scratch=... -D generator=... -P use_shared.cmake
#
# The shared library: built, installed, used; what it exports is the public names, under its version.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

cmake_path(SET root NORMALIZE ${source}/../..)
run(${CMAKE_COMMAND} -S ${root} -B ${scratch}/library -G ${generator} -D CMAKE_CXX_COMPILER=${compiler_path}
  ${cheaply} -D BUILD_SHARED_LIBS=ON -D FORKLIFT_BUILD_TESTS=OFF -D FORKLIFT_CUDA_KERNELS=OFF -D FORKLIFT_WERROR=ON)
run(${CMAKE_COMMAND} --build ${scratch}/library)
file(REMOVE_RECURSE ${scratch}/prefix)
run(${CMAKE_COMMAND} --install ${scratch}/library --prefix ${scratch}/prefix)
build_and_run(${scratch}/build -D CMAKE_PREFIX_PATH=${scratch}/prefix -D LINKAGE=shared
  "-DPROGRAMS=tutorial/first tutorial/processes tutorial/sharing")

file(GLOB_RECURSE library ${scratch}/prefix/*/libforklift.so.0.1)
if(NOT library)
  message(FATAL_ERROR "there is no libforklift.so.0.1")
endif()
find_program(nm nm REQUIRED)
execute_process(COMMAND ${nm} -DC --defined-only ${library} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" lines "${symbols}")
foreach(line IN LISTS lines)
  if(line MATCHES "^[0-9a-f]+ [A-Za-z] (forklift::abi_[0-9_]+::(os|sync|domain|arena|wire|tensor)|msgpack|protozero|std)::")
    message(FATAL_ERROR "exported, but no public name: ${line}")
  endif()
endforeach()
if(NOT symbols MATCHES "forklift::abi_0_1::init\\(int, char[*][*]\\)@@FORKLIFT_0.1")
  message(FATAL_ERROR "init is not exported under its version")
endif()
