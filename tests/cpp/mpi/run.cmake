# cmake -D mpirun=... -D ranks=4 -D program=... [-D "arguments=..."] [-D "environment=A=1 B=2"] [-D fails=TRUE]
#       [-D words=REGEX] -P run.cmake
#
# Runs a job, within a time that is shorter than CTest's, and looks at its end. `fails`: it has to end with an error, and say
# `words`. Nothing may be left: no process of the job, no file in /dev/shm.
cmake_minimum_required(VERSION 3.25)
separate_arguments(arguments)
separate_arguments(environment)
# As root, Open MPI wants to be told that this is meant; other libraries do not know the variables.
set(ENV{OMPI_ALLOW_RUN_AS_ROOT} 1)
set(ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} 1)
foreach(each IN LISTS environment)
  string(REGEX MATCH "^([A-Z_]+)=(.*)$" _ "${each}")
  set(ENV{${CMAKE_MATCH_1}} "${CMAKE_MATCH_2}")
endforeach()
execute_process(COMMAND ${mpirun} --version OUTPUT_VARIABLE launcher ERROR_QUIET)
set(launch ${mpirun} -n ${ranks})
if(launcher MATCHES "Open MPI|OpenRTE")
  list(APPEND launch --oversubscribe)
endif()
file(GLOB before /dev/shm/*)
# The mark is in the environment of every process of the job, and of their children.
string(RANDOM LENGTH 16 mark)
set(ENV{FORKLIFT_TEST_MPI_MARK} ${mark})
execute_process(COMMAND ${launch} ${program} ${arguments} TIMEOUT 150 RESULT_VARIABLE code OUTPUT_VARIABLE output
  ERROR_VARIABLE output)
message("${output}")
if(code MATCHES "timeout")
  message(FATAL_ERROR "the job did not end in time")
elseif(fails AND code EQUAL 0)
  message(FATAL_ERROR "the job ended as if nothing had happened")
elseif(NOT fails AND NOT code EQUAL 0)
  message(FATAL_ERROR "the job ended with ${code}")
elseif(words AND NOT output MATCHES "${words}")
  message(FATAL_ERROR "it did not say ${words}")
endif()
unset(ENV{FORKLIFT_TEST_MPI_MARK})
# Processes end with the job, but not in the same instant.
foreach(turn RANGE 50)
  execute_process(COMMAND sh -c "grep -lsa FORKLIFT_TEST_MPI_MARK=${mark} /proc/[0-9]*/environ" OUTPUT_VARIABLE left
    ERROR_QUIET)
  file(GLOB after /dev/shm/*)
  list(REMOVE_ITEM after ${before})
  list(FILTER after INCLUDE REGEX "forklift")
  if(NOT left AND NOT after)
    return()
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E sleep 0.2)
endforeach()
message(FATAL_ERROR "left behind: ${left} ${after}")
