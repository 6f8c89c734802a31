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
# Bazel 4 loads its own rules by way of repositories that it downloads, which are not at hand; the rules come with Bazel.
function(own_rules repository package)
  set(rules)
  foreach(rule IN LISTS ARGN)
    string(APPEND rules "${rule} = native.${rule}\n")
  endforeach()
  file(WRITE ${scratch}/${repository}/WORKSPACE "workspace(name = \"${repository}\")\n")
  file(WRITE ${scratch}/${repository}/${package}/defs.bzl "${rules}")
  file(WRITE ${scratch}/${repository}/${package}/BUILD "alias(
    name = \"toolchain_type\",
    actual = \"@bazel_tools//tools/cpp:toolchain_type\",
    visibility = [\"//visibility:public\"],
)
")
endfunction()
own_rules(rules_cc cc cc_binary cc_import cc_library cc_proto_library cc_test cc_toolchain cc_toolchain_suite
  fdo_prefetch_hints fdo_profile objc_import objc_library)
own_rules(rules_java java java_binary java_import java_library java_package_configuration java_plugin
  java_proto_library java_runtime java_test java_toolchain)
# In the foreground, and with nothing outside of the scratch folder.
execute_process(COMMAND ${bazel} --batch --nohome_rc --output_user_root=${scratch}/bazel
  run --override_repository=rules_cc=${scratch}/rules_cc --override_repository=rules_java=${scratch}/rules_java --spawn_strategy=local --noshow_progress //:first WORKING_DIRECTORY ${scratch}/user RESULT_VARIABLE code
  OUTPUT_VARIABLE output ERROR_VARIABLE output)
message(STATUS "${output}")
run(chmod -R u+w ${scratch})
if(NOT code EQUAL 0 OR NOT output MATCHES "the sum is")
  message(FATAL_ERROR "the program was not built and run: ${code}")
endif()
