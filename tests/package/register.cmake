# The package, used from outside, one test a compiler and a route. Included by the top CMakeLists.txt. The wheel's
# route is tests/python/cli/test_cmake_package.py. A fetched library is built only where FORKLIFT_SLOW_TESTS is set
# (make packages): it takes minutes, and package.shared builds the library anew, too. That one and the
# installed package with Clang have the label weekly, which .ci/run leaves out.
foreach(compiler IN ITEMS g++-12 clang++-14)
  string(REGEX REPLACE "[+].*" "" family ${compiler})
  foreach(route IN ITEMS installed fetched)
    add_test(NAME package.${route}.${family} COMMAND ${CMAKE_COMMAND}
      -D compiler=${compiler} -D build=${PROJECT_BINARY_DIR} -D source=${CMAKE_CURRENT_LIST_DIR}
      -D scratch=${PROJECT_BINARY_DIR}/package/${route}-${family} -D generator=${CMAKE_GENERATOR}
      -P ${CMAKE_CURRENT_LIST_DIR}/use_${route}.cmake)
    set_tests_properties(package.${route}.${family} PROPERTIES LABELS package TIMEOUT 600
      SKIP_REGULAR_EXPRESSION "SKIPPED:")
  endforeach()
  # Installing writes into the build tree, so one at a time.
  set_tests_properties(package.installed.${family} PROPERTIES RESOURCE_LOCK install)
endforeach()
add_test(NAME package.shared COMMAND ${CMAKE_COMMAND}
  -D compiler=${CMAKE_CXX_COMPILER} -D source=${CMAKE_CURRENT_LIST_DIR} -D generator=${CMAKE_GENERATOR}
  -D scratch=${PROJECT_BINARY_DIR}/package/shared -P ${CMAKE_CURRENT_LIST_DIR}/use_shared.cmake)
set_tests_properties(package.shared PROPERTIES LABELS "package;weekly" TIMEOUT 900)
set_property(TEST package.installed.clang APPEND PROPERTY LABELS weekly)
# Other build systems, package managers and standard libraries, where they are here. Meson and Bazel install what was
# built, so one at a time. The others build the library anew, minutes each: with FORKLIFT_SLOW_TESTS (make weekly).
foreach(system IN ITEMS meson bazel conan vcpkg libcxx)
  add_test(NAME package.${system} COMMAND ${CMAKE_COMMAND} -D build=${PROJECT_BINARY_DIR}
    -D source=${CMAKE_CURRENT_LIST_DIR} -D generator=${CMAKE_GENERATOR} -D eigen=${EIGEN3_INCLUDE_DIR}
    -D msgpack=${MSGPACK_INCLUDE_DIR} -D protozero=${PROTOZERO_INCLUDE_DIR}
    -D scratch=${PROJECT_BINARY_DIR}/package/${system} -P ${CMAKE_CURRENT_LIST_DIR}/use_${system}.cmake)
  set_tests_properties(package.${system} PROPERTIES LABELS package TIMEOUT 900 SKIP_REGULAR_EXPRESSION "SKIPPED:")
endforeach()
set_tests_properties(package.meson package.bazel PROPERTIES RESOURCE_LOCK install)
# The component mpi: built and used, or refused with the reason.
add_test(NAME package.mpi COMMAND ${CMAKE_COMMAND} -D compiler=${CMAKE_CXX_COMPILER} -D build=${PROJECT_BINARY_DIR}
  -D source=${CMAKE_CURRENT_LIST_DIR} -D scratch=${PROJECT_BINARY_DIR}/package/mpi -D generator=${CMAKE_GENERATOR}
  -D "without=${forklift_without_mpi}" -P ${CMAKE_CURRENT_LIST_DIR}/use_mpi.cmake)
set_tests_properties(package.mpi PROPERTIES LABELS package TIMEOUT 600 RESOURCE_LOCK install)
# What the tutorial says is what was compiled.
add_test(NAME package.tutorial COMMAND ${CMAKE_COMMAND} -D root=${PROJECT_SOURCE_DIR}
  -P ${CMAKE_CURRENT_LIST_DIR}/check_tutorial.cmake)
set_tests_properties(package.tutorial PROPERTIES LABELS package)
# What the headers cost whoever includes them.
add_test(NAME package.compile_time COMMAND ${CMAKE_COMMAND} -D compiler=${CMAKE_CXX_COMPILER}
  -D include=${PROJECT_SOURCE_DIR}/include -P ${CMAKE_CURRENT_LIST_DIR}/compile_time.cmake)
set_tests_properties(package.compile_time PROPERTIES LABELS package TIMEOUT 300)
