# One test a compiler: the installed package, used from outside. Included by the top CMakeLists.txt.
foreach(compiler IN ITEMS g++-12 clang++-14)
  string(REGEX REPLACE "[+].*" "" family ${compiler})
  add_test(NAME package.${family} COMMAND ${CMAKE_COMMAND}
    -D compiler=${compiler} -D build=${PROJECT_BINARY_DIR} -D source=${CMAKE_CURRENT_LIST_DIR}
    -D scratch=${PROJECT_BINARY_DIR}/package/${family} -D generator=${CMAKE_GENERATOR}
    -P ${CMAKE_CURRENT_LIST_DIR}/use_installed.cmake)
  # Installing writes into the build tree, so one at a time.
  set_tests_properties(package.${family} PROPERTIES LABELS package TIMEOUT 180 RESOURCE_LOCK install
    SKIP_REGULAR_EXPRESSION "SKIPPED:")
endforeach()
