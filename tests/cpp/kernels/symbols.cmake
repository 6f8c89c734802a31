# No object of src/kernels/isa may define a function of a name that another variant defines, too: the linker would keep
# one of them, which may need instructions that the processor has not got.
#
#   cmake -D nm=... -D variant=avx512 -D objects=a.o,b.o -P symbols.cmake
string(REPLACE "," ";" objects "${objects}")
list(LENGTH objects count)
if(count LESS 5)
  message(FATAL_ERROR "${count} objects of ${variant}: there are more")
endif()
set(seen 0)
foreach(object IN LISTS objects)
  execute_process(COMMAND ${nm} --defined-only --demangle --extern-only ${object}
    OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE ";" "," symbols "${symbols}")
  string(REPLACE "\n" ";" symbols "${symbols}")
  foreach(symbol IN LISTS symbols)
    if(symbol STREQUAL "")
      continue()
    endif()
    math(EXPR seen "${seen} + 1")
    if(NOT symbol MATCHES "forklift::abi_[0-9_]+::kernels::${variant}::|forklift_eigen_${variant}::|DW\\.ref\\.__gxx_personality_v0")
      message(SEND_ERROR "${object} defines a symbol that is not of ${variant} alone: ${symbol}")
    endif()
  endforeach()
endforeach()
if(seen LESS 10)
  message(FATAL_ERROR "only ${seen} symbols were looked at")
endif()
message(STATUS "${seen} symbols of ${count} objects are of ${variant} alone")
