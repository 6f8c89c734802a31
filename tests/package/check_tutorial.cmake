# cmake -D root=... [-D write=ON] -P check_tutorial.cmake
#
# The programs of docs/cpp.md are files, examples/tutorial/*.cpp, which the tests compile and run. Each stands in
# the document behind a line `<!-- examples/tutorial/NAME.cpp -->`; here the two are compared, or, with
# `write`, the document brought up to date.
cmake_minimum_required(VERSION 3.25)

file(REAL_PATH ${root} root)
file(READ ${root}/docs/cpp.md document)
file(GLOB programs RELATIVE ${root} ${root}/examples/tutorial/*.cpp)
if(NOT programs)
  message(FATAL_ERROR "there are no programs in examples/tutorial")
endif()
set(updated "${document}")
foreach(program IN LISTS programs)
  file(READ ${root}/${program} text)
  set(mark "<!-- ${program} -->\n```cpp\n")
  string(FIND "${updated}" "${mark}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "docs/cpp.md does not show ${program}")
  endif()
  string(LENGTH "${mark}" length)
  math(EXPR begin "${at} + ${length}")
  string(SUBSTRING "${updated}" 0 ${begin} before)
  string(SUBSTRING "${updated}" ${begin} -1 rest)
  string(FIND "${rest}" "```\n" end)
  string(SUBSTRING "${rest}" ${end} -1 after)
  set(updated "${before}${text}${after}")
endforeach()
if(NOT updated STREQUAL document)
  if(NOT write)
    message(FATAL_ERROR "docs/cpp.md shows other programs than examples/tutorial holds; to update it:\n"
      "  cmake -D root=. -D write=ON -P tests/package/check_tutorial.cmake")
  endif()
  file(WRITE ${root}/docs/cpp.md "${updated}")
endif()
