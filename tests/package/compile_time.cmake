# cmake -D compiler=... -D include=... -P compile_time.cmake
#
# What including a header costs, in processor time: one look at each, and for queue.h, which is promised to take
# less than 1.5 s, more of them where a busy machine disturbs the first.
cmake_minimum_required(VERSION 3.25)
find_program(bash bash REQUIRED)

# Sets `ms` to what compiling the header alone takes.
function(measure header)
  execute_process(COMMAND ${bash} -c
    "TIMEFORMAT='%U %S'; time \"$0\" -std=c++20 -fsyntax-only -I\"$1\" -x c++ - <<< \"#include <forklift/$2>\""
    ${compiler} ${include} ${header} ERROR_VARIABLE words COMMAND_ERROR_IS_FATAL ANY)
  if(NOT words MATCHES "([0-9]+)[.]([0-9][0-9][0-9]) ([0-9]+)[.]([0-9][0-9][0-9])[ \n]*$")
    message(FATAL_ERROR "no times in: ${words}")
  endif()
  math(EXPR ms "${CMAKE_MATCH_1} * 1000 + 1${CMAKE_MATCH_2} - 1000 + ${CMAKE_MATCH_3} * 1000 + 1${CMAKE_MATCH_4} - 1000")
  set(ms ${ms} PARENT_SCOPE)
endfunction()

set(best 1000000)
foreach(round RANGE 1 6)
  measure(queue.h)
  if(ms LESS best)
    set(best ${ms})
  endif()
  if(best LESS 1500)
    break()
  endif()
endforeach()
message(STATUS "queue.h: ${best} ms, at most 1500")
foreach(header IN ITEMS value.h lock.h process.h multiprocessing.h)
  measure(${header})
  message(STATUS "${header}: ${ms} ms")
endforeach()
if(best GREATER 1500)
  message(FATAL_ERROR "forklift/queue.h takes ${best} ms to compile")
endif()
