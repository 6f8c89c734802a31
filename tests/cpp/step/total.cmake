#Adds up the kill points that the step tests wrote down : cmake - D folder = DIR - D least = \
                                                                                 NUMBER - P total.cmake
file(GLOB files ${
  folder}/*)
set(total 0)
foreach(file IN LISTS files)
  file(READ ${file} points)
  math(EXPR total "${total} + ${points}")
endforeach()
message(STATUS "${total} kill points in all")
if(total LESS least)
  message(FATAL_ERROR "at least ${least} are wanted")
endif()
