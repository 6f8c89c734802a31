# cmake -D compiler=... -D build=... -D source=... -D scratch=... -D generator=... -D without=... -P use_mpi.cmake
#
# find_package(forklift COMPONENTS mpi) from outside: a program on MPI is built and run. Where the build has none (`without`
# says why), and in a package from which it is taken away, the component is refused with what to do.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${scratch})
run(${CMAKE_COMMAND} --install ${build} --prefix ${scratch}/prefix --component forklift)

# The words of a failed find_package, in one line.
function(refused out)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${source} -B ${scratch}/refused -G ${generator}
    -D CMAKE_CXX_COMPILER=${compiler_path} -D CMAKE_PREFIX_PATH=${scratch}/prefix -D LINKAGE=static -D MPI=ON ${ARGN}
    RESULT_VARIABLE code OUTPUT_QUIET ERROR_VARIABLE words)
  string(REGEX REPLACE "[ \n]+" " " words "${words}")
  if(code EQUAL 0 OR NOT words MATCHES "the component mpi of this package of forklift cannot be used")
    message(FATAL_ERROR "the component mpi was found: ${words}")
  endif()
  set(${out} "${words}" PARENT_SCOPE)
endfunction()

if(without)
  refused(words)
  if(NOT words MATCHES "FORKLIFT_MPI=ON")
    message(FATAL_ERROR "it does not say what to do: ${words}")
  endif()
  return()
endif()

build_and_run(${scratch}/build -D CMAKE_PREFIX_PATH=${scratch}/prefix -D LINKAGE=static -D MPI=ON
  -DPROGRAMS=tutorial/first)
# A machine without MPI; the library itself never needs it.
refused(words -D CMAKE_DISABLE_FIND_PACKAGE_MPI=ON)
if(NOT words MATCHES "finds no MPI library here")
  message(FATAL_ERROR "it does not say what is missing: ${words}")
endif()
run(${CMAKE_COMMAND} -S ${source} -B ${scratch}/plain -G ${generator} -D CMAKE_CXX_COMPILER=${compiler_path}
  -D CMAKE_PREFIX_PATH=${scratch}/prefix -D LINKAGE=static -D CMAKE_DISABLE_FIND_PACKAGE_MPI=ON ${cheaply}
  -DPROGRAMS=tutorial/first)
