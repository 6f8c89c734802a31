# cmake -D compiler=... -D include=... -P compile_time.cmake
#
# What including a header costs, in processor time. queue.h is promised to cost at most three quarters more than the
# headers of the standard library that it includes: a ratio, since machines differ, and the least of several looks in
# turn, since other programs disturb each. The other headers are looked at once.
cmake_minimum_required(VERSION 3.25)
find_program(bash bash REQUIRED)
set(limit 175)  # per cent

# Sets `ms` to what compiling the text alone takes.
function(measure text)
  execute_process(COMMAND ${bash} -c
    "TIMEFORMAT='%U %S'; time \"$0\" -std=c++20 -fsyntax-only -I\"$1\" -x c++ - <<< \"$2\""
    ${compiler} ${include} "${text}" ERROR_VARIABLE words COMMAND_ERROR_IS_FATAL ANY)
  if(NOT words MATCHES "([0-9]+)[.]([0-9][0-9][0-9]) ([0-9]+)[.]([0-9][0-9][0-9])[ \n]*$")
    message(FATAL_ERROR "no times in: ${words}")
  endif()
  math(EXPR ms "${CMAKE_MATCH_1} * 1000 + 1${CMAKE_MATCH_2} - 1000 + ${CMAKE_MATCH_3} * 1000 + 1${CMAKE_MATCH_4} - 1000")
  set(ms ${ms} PARENT_SCOPE)
endfunction()

# Sets `text` to includes of what `header`, and our headers that it includes, take from the standard library.
function(foreign_headers header)
  execute_process(COMMAND ${bash} -c "\"$0\" -std=c++20 -M -I\"$1\" -x c++ - <<< '#include <forklift/${header}>'"
    ${compiler} ${include} OUTPUT_VARIABLE files COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^ \\\n]*/forklift/[^ \\\n]+" files "${files}")
  foreach(file IN LISTS files)
    file(STRINGS ${file} lines REGEX "^#include <[a-z_]+>")
    list(APPEND all ${lines})
  endforeach()
  list(REMOVE_DUPLICATES all)
  list(LENGTH all count)
  if(count LESS 10)
    message(FATAL_ERROR "no headers of the standard library in ${files}")
  endif()
  # Not every compiler has them all.
  list(TRANSFORM all REPLACE "^#include (<[a-z_]+>).*" "#if __has_include(\\1)\n#include \\1\n#endif")
  list(JOIN all "\n" text)
  set(text "${text}" PARENT_SCOPE)
endfunction()

foreign_headers(queue.h)
set(ours 1000000)
set(theirs 1000000)
foreach(round RANGE 1 12)
  measure("${text}")
  if(ms LESS theirs)
    set(theirs ${ms})
  endif()
  measure("#include <forklift/queue.h>")
  if(ms LESS ours)
    set(ours ${ms})
  endif()
  math(EXPR percent "${ours} * 100 / ${theirs}")
  if(round GREATER_EQUAL 3 AND percent LESS_EQUAL limit)
    break()
  endif()
endforeach()
message(STATUS "queue.h: ${ours} ms, ${percent} % of what the standard library's headers in it take (${theirs} ms)")
foreach(header IN ITEMS value.h lock.h process.h multiprocessing.h)
  measure("#include <forklift/${header}>")
  message(STATUS "${header}: ${ms} ms")
endforeach()
if(percent GREATER limit)
  message(FATAL_ERROR "forklift/queue.h takes ${percent} % of what the standard library's headers in it take, at most ${limit}")
endif()
