# For the scripts beside this file: run(command...) shows what a command says and ends with it if it fails.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  list(JOIN ARGN " " words)
  message(STATUS "${words}\n${output}")
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "ended with ${code}: ${words}")
  endif()
endfunction()

# What is asked here is whether things build, link and run, not how fast they are, nor what the optimiser warns
# of: that is the build proper's. So nothing is optimised, which halves the time. ccache, where it is there,
# knows what was built before.
set(cheaply -D CMAKE_BUILD_TYPE=Debug -D CMAKE_CXX_FLAGS_DEBUG=-O0)
find_program(launcher ccache)
if(launcher)
  list(APPEND cheaply -D CMAKE_CXX_COMPILER_LAUNCHER=${launcher})
endif()

# Configures the project beside this file with the arguments, builds it, runs its programs.
function(build_and_run folder)
  run(${CMAKE_COMMAND} -S ${source} -B ${folder} -G ${generator} -D CMAKE_CXX_COMPILER=${compiler_path}
    ${cheaply} ${ARGN})
  run(${CMAKE_COMMAND} --build ${folder})
  run(${CMAKE_CTEST_COMMAND} --test-dir ${folder} --output-on-failure --no-tests=error)
endfunction()

find_program(compiler_path ${compiler})
if(NOT compiler_path)
  message(STATUS "SKIPPED: there is no ${compiler} here")
endif()
