# cmake -D build=... -D source=... -D scratch=... -P use_bazel.cmake
#
# packaging/bazel against an installed prefix.
cmake_minimum_required(VERSION 3.25)
set(compiler c++)
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
find_program(bazel bazel)
if(NOT bazel)
  message(STATUS "SKIPPED: there is no bazel here (tools/setup.sh compilers installs it)")
  return()
endif()

# Bazel makes its folders read-only.
if(EXISTS ${scratch})
  run(chmod -R u+w ${scratch})
endif()
file(REMOVE_RECURSE ${scratch})
run(${CMAKE_COMMAND} --install ${build} --prefix ${scratch}/prefix --component forklift)
file(COPY ${source}/../../packaging/bazel/ DESTINATION ${scratch}/user)
file(COPY ${source}/../../examples/tutorial/first.cpp DESTINATION ${scratch}/user)
file(READ ${scratch}/user/WORKSPACE workspace)
string(REPLACE "path = \"PREFIX\"" "path = \"${scratch}/prefix\"" workspace "${workspace}")
file(WRITE ${scratch}/user/WORKSPACE "${workspace}")
# In the foreground, and with nothing outside of the scratch folder.
execute_process(COMMAND ${bazel} --batch --nohome_rc --nosystem_rc --output_user_root=${scratch}/bazel
  run --spawn_strategy=local --noshow_progress //:first WORKING_DIRECTORY ${scratch}/user RESULT_VARIABLE code
  OUTPUT_VARIABLE output ERROR_VARIABLE output)
message(STATUS "${output}")
run(chmod -R u+w ${scratch})
if(NOT code EQUAL 0 OR NOT output MATCHES "the sum is")
  message(FATAL_ERROR "the program was not built and run: ${code}")
endif()
